"""A broker with its controls, and somebody who asks them over HTTP."""

import http.client
import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from kohort.control_api.control import Control
from kohort.control_api.server import ControlServer
from kohort.testing import Kafka


class Said(NamedTuple):
    status: int
    body: Any


class Asker:
    """`ask("POST", "/topics/orders", partitions=3)`."""

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
            answer = connection.getresponse()
            return answer.status, answer.headers["content-type"], answer.read()
        finally:
            connection.close()

    def __call__(self, method: str, path: str, /, **given: Any) -> Said:
        body = json.dumps(given).encode() if given else None
        status, kind, said = self.raw(method, path, body)
        assert kind == "application/json"
        return Said(status, json.loads(said))

    def refused(self, method: str, path: str, /, **given: Any) -> tuple[int, str]:
        """Status and sentence of an error."""
        status, body = self(method, path, **given)
        assert list(body) == ["error"], body
        return status, body["error"]


@pytest.fixture(scope="module")
def controls() -> Iterator[Asker]:
    kafka = Kafka(nodes=2).start()
    control = Control(kafka)
    with ControlServer(control, "127.0.0.1", 0) as server:
        yield Asker(control, server.url)
    kafka.stop()


@pytest.fixture
def ask(controls: Asker) -> Asker:
    controls.control.reset()
    return controls


@pytest.fixture
def kafka(ask: Asker) -> Kafka:
    return ask.control.kafka
