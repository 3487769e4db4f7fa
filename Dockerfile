# kohort as an image, in two targets: `broker` (the default) and `demo`, whose producer and
# consumers are ordinary kafka-python programs.
FROM python:3.13-slim AS wheel
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim AS demo
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir /wheels/*.whl
COPY demo /demo
WORKDIR /demo
USER nobody

FROM python:3.13-slim AS broker
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[speed]" \
    && useradd --system --create-home kohort \
    && install --directory --owner kohort /data
USER kohort
# Inside a container every interface is the container's own; compose publishes it to this machine.
ENV KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092 \
    KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092 \
    KAFKA_LOG_DIRS=/data
VOLUME /data
EXPOSE 9092
HEALTHCHECK --interval=2s --timeout=6s --start-period=10s --retries=5 \
    CMD ["kohort", "health", "--bootstrap-server", "localhost:9092"]
ENTRYPOINT ["kohort"]
CMD ["serve"]
