"""A client without a library: one request after the other, in the version that a test wants."""

import dataclasses
import io
import socket
import struct
from typing import Any, Self

from kio.serial import entity_reader, entity_writer
from kio_messages import kio_bytes
from kohort.protocol.messages import response_module
from kohort.testing import Kafka
from parity.wire import BY_NAME, plain, request_of

PATIENCE_SECONDS = 10


class Raw:
    """Asks the first node. What is asked and not read waits in the socket."""

    def __init__(self, kafka: Kafka, client_id: str = "raw") -> None:
        host, _, port = kafka.bootstrap_servers.split(",")[0].rpartition(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE_SECONDS)
        self._client_id = client_id
        self._asked: list[tuple[str, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, api: str, version: int, **values: Any) -> Any:
        """The answer as plain values (parity/wire.py)."""
        self.send(api, version, **values)
        return self.read()

    def send(self, api: str, version: int, **values: Any) -> None:
        self._asked.append((api, version))
        request, head = request_of(api, version, values), io.BytesIO()
        schema = request.__header_schema__
        header = {
            "request_api_key": BY_NAME[api].key,
            "request_api_version": version,
            "correlation_id": 7,
            "client_id": self._client_id,
        }
        names = {field.name for field in dataclasses.fields(schema)}
        entity_writer(schema)(head, schema(**{k: v for k, v in header.items() if k in names}))
        body = head.getvalue() + kio_bytes(request)
        self.socket.sendall(struct.pack(">i", len(body)) + body)

    def read(self) -> Any:
        """The answer of the oldest request that was sent and not read."""
        api, version = self._asked.pop(0)
        entity = getattr(response_module(BY_NAME[api].key, version), f"{api}Response")
        (size,) = struct.unpack(">i", self._exactly(4))
        start = 4 + (entity.__header_schema__.__version__ >= 1)  # no tagged fields yet
        return plain(entity_reader(entity)(self._exactly(size), start)[0])

    def join(
        self, group: str, member_id: str = "", *, timeout_ms: int = 60_000, **more: Any
    ) -> Any:
        """JoinGroup v4 for the protocol `range`; with a new id where it has none."""
        values = {
            "group_id": group,
            "session_timeout": 45_000,
            "rebalance_timeout": timeout_ms,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"what I want"}],
            **more,
        }
        joined = self.ask("JoinGroup", 5, member_id=member_id, **values)
        if joined["error_code"] == "member_id_required":
            joined = self.ask("JoinGroup", 5, member_id=joined["member_id"], **values)
        return joined

    def send_join(self, group: str, member_id: str, *, timeout_ms: int = 60_000) -> None:
        """Without waiting for the round to close."""
        self.send(
            "JoinGroup",
            5,
            member_id=member_id,
            group_id=group,
            session_timeout=45_000,
            rebalance_timeout=timeout_ms,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"what I want"}],
        )

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("the broker has closed the connection")
            data += piece
        return data
