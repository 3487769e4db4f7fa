# Three targets: `broker` (the default), `pipeline` with Spark and Java, and `demo` with a producer
# and consumers in plain kafka-python.
FROM python:3.13-slim AS wheel
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim AS demo
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[cli]"
COPY demo /demo
WORKDIR /demo
USER nobody

FROM python:3.13-slim AS pipeline
RUN apt-get update \
    && apt-get install --yes --no-install-recommends default-jre-headless \
    && rm -rf /var/lib/apt/lists/*
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[pipeline]" \
    && useradd --system --create-home kohort \
    && install --directory --owner kohort /lake
USER kohort
VOLUME /lake
ENTRYPOINT ["kohort"]
CMD ["pipeline", "run", "--log", "/data", "--lake", "/lake", "--follow"]

FROM python:3.13-slim AS broker
COPY --from=wheel /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[cli,control,speed]" \
    && useradd --system --create-home kohort \
    && install --directory --owner kohort /data
USER kohort
# All interfaces of the container; compose publishes the port on this machine only.
ENV KAFKA_LISTENERS=PLAINTEXT://0.0.0.0:9092 \
    KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://localhost:9092 \
    KAFKA_LOG_DIRS=/data
VOLUME /data
EXPOSE 9092
HEALTHCHECK --interval=2s --timeout=6s --start-period=10s --retries=5 \
    CMD ["kohort", "health", "--bootstrap-server", "localhost:9092"]
ENTRYPOINT ["kohort"]
CMD ["serve"]
