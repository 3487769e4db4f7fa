"""A broker with the control API, and a client of the API."""

import http.client
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from confluent_kafka import KafkaException, Producer
from kohort.control_api.control import Control
from kohort.control_api.server import ControlServer
from kohort.testing import Kafka

from ..testing.conftest import begin, transactional_producer


class Response(NamedTuple):
    status: int
    body: Any


class ApiClient:
    """`api("POST", "/topics/orders", partitions=3)`."""

    def __init__(self, control: Control, url: str) -> None:
        self.control = control
        self.url = url

    def raw(
        self, method: str, path: str, body: bytes | None = None, headers: Any = None
    ) -> tuple[int, str, bytes]:
        """Status, content type and body."""
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.headers["content-type"], response.read()
        finally:
            connection.close()

    def __call__(self, method: str, path: str, /, **given: Any) -> Response:
        body = json.dumps(given).encode() if given else None
        status, content_type, received = self.raw(method, path, body)
        assert content_type == "application/json"
        return Response(status, json.loads(received))

    def error(self, method: str, path: str, /, **given: Any) -> tuple[int, str]:
        """Status and message of an error."""
        status, body = self(method, path, **given)
        assert list(body) == ["error"], body
        return status, body["error"]


@pytest.fixture(scope="module")
def shared_api() -> Iterator[ApiClient]:
    kafka = Kafka(nodes=2).start()
    control = Control(kafka)
    with ControlServer(control, "127.0.0.1", 0) as server:
        yield ApiClient(control, server.url)
    kafka.stop()


@pytest.fixture
def api(shared_api: ApiClient) -> ApiClient:
    shared_api.control.reset()
    return shared_api


@pytest.fixture
def kafka(api: ApiClient) -> Kafka:
    return api.control.kafka


@pytest.fixture
def producer(api: ApiClient, kafka: Kafka) -> Iterator[Producer]:
    """A producer with an open transaction."""
    api("POST", "/topics/orders", partitions=1)
    producer = transactional_producer(kafka, "billing-1", "payments")
    begin(producer)
    yield producer
    # An open producer would send requests to the broker of the next test.
    with suppress(KafkaException):  # the test may have fenced it
        producer.close()
