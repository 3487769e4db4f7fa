"""A client without a library: one request after the other, in any version."""

import socket
import struct
from typing import Any, Self

from kohort.protocol.messages import response_module
from kohort.testing import Kafka
from parity.wire import BY_NAME, plain, request_of
from support.wire import decode_frame, encode_frame

PATIENCE_SECONDS = 10


COMMIT = {
    "generation_id_or_member_epoch": -1,
    "member_id": "",
    "topics": [
        {
            "name": "orders",
            "partitions": [
                {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""},
            ],
        }
    ],
}


class RawClient:
    """Connected to the first node. Responses that are not read stay in the socket."""

    def __init__(self, kafka: Kafka, client_id: str = "raw") -> None:
        host, _, port = kafka.bootstrap_servers.split(",")[0].rpartition(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE_SECONDS)
        self._client_id = client_id
        self._pending: list[tuple[str, int]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def request(self, api: str, version: int, **values: Any) -> Any:
        """The response as plain values (parity/wire.py)."""
        self.send(api, version, **values)
        return self.read()

    def send(self, api: str, version: int, **values: Any) -> None:
        self._pending.append((api, version))
        message = request_of(api, version, values)
        self.socket.sendall(encode_frame(message, correlation_id=7, client_id=self._client_id))

    def read(self) -> Any:
        """The response to the oldest request without one."""
        api, version = self._pending.pop(0)
        entity = getattr(response_module(BY_NAME[api].key, version), f"{api}Response")
        (size,) = struct.unpack(">i", self._exactly(4))
        return plain(decode_frame(self._exactly(size), entity)[1])

    def join(
        self, group: str, member_id: str = "", *, timeout_ms: int = 60_000, **more: Any
    ) -> Any:
        """JoinGroup v5 with the protocol `range`; twice if the member has no id."""
        values = {
            "group_id": group,
            "session_timeout": 45_000,
            "rebalance_timeout": timeout_ms,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"subscription"}],
            **more,
        }
        joined = self.request("JoinGroup", 5, member_id=member_id, **values)
        if joined["error_code"] == "member_id_required":
            joined = self.request("JoinGroup", 5, member_id=joined["member_id"], **values)
        return joined

    def send_join(self, group: str, member_id: str, *, timeout_ms: int = 60_000) -> None:
        """JoinGroup without waiting for the response."""
        self.send(
            "JoinGroup",
            5,
            member_id=member_id,
            group_id=group,
            session_timeout=45_000,
            rebalance_timeout=timeout_ms,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"subscription"}],
        )

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("the broker has closed the connection")
            data += piece
        return data


def commit(raw: RawClient, group: str = "g", **more: object) -> str:
    """The error of one commit."""
    response = raw.request("OffsetCommit", 7, group_id=group, **{**COMMIT, **more})
    return str(response["topics"][0]["partitions"][0]["error_code"])
