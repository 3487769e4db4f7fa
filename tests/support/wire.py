"""The blocking client of the tests, with the codec of scenarios (conformance/wire.py).

kio alone encodes and decodes, so a mistake in kohort's encoding cannot go unnoticed.
"""

import socket
import ssl
from typing import Any, Self

from kohort.conformance.wire import TIMEOUT_SECONDS, Pipeline


def connect(addresses: str) -> socket.socket:
    """Connect to the first of `HOST:PORT[,HOST:PORT…]`."""
    host, _, port = addresses.split(",")[0].rpartition(":")
    return socket.create_connection((host, int(port)), TIMEOUT_SECONDS)


def is_refused(address: str) -> bool:
    """Return True if nothing listens at the address."""
    try:
        connect(address).close()
    except ConnectionRefusedError:
        return True
    return False


class Client:
    """A blocking connection to the first of `addresses`, `HOST:PORT[,HOST:PORT…]`.

    `client.call("Heartbeat", 4, group_id="g", …)` returns the response; several `send` before
    their `receive` are pipelined. A closed connection raises ConnectionError.
    """

    def __init__(
        self,
        addresses: str,
        client_id: str | None = "test",
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.socket = connect(addresses)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self._stream = self.socket.makefile("rb")
        self._pipeline = Pipeline(client_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()
        self.socket.close()

    def call(self, api: str, version: int, /, **values: Any) -> Any:
        self.send(api, version, **values)
        return self.receive()

    def send(self, api: str, version: int, /, **values: Any) -> None:
        self.socket.sendall(self.encode(api, version, **values))

    def encode(self, api: str, version: int, /, **values: Any) -> bytes:
        """Return the frame of the next request, which the caller sends."""
        return self._pipeline.encode(api, version, values)

    def receive(self) -> Any:
        """Return the response to the oldest outstanding request."""
        return self.decode(self.receive_frame())

    def decode(self, frame: bytes) -> Any:
        return self._pipeline.decode(frame)

    def receive_frame(self) -> bytes:
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def _exactly(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise ConnectionError("the broker closed the connection")
        return data

    # --- topics

    def create_topics(self, *names: str, partitions: int = 1, **configs: str) -> None:
        """`configs`: with underscores for the dots of their names."""
        settings = [{"name": key.replace("_", "."), "value": configs[key]} for key in configs]
        topics = [
            {
                "name": name,
                "num_partitions": partitions,
                "replication_factor": 1,
                "configs": settings,
            }
            for name in names
        ]
        created = self.call("CreateTopics", 7, topics=topics, timeout=60_000)["topics"]
        assert {each["error_code"] for each in created} == {"none"}, created

    def produce(self, batch: bytes, topic: str = "orders", *, acks: int = -1) -> Any:
        """Return the response of the topic's first partition."""
        data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
        response = self.call("Produce", 9, acks=acks, timeout=60_000, topic_data=data)
        return response["responses"][0]["partition_responses"][0]

    # --- groups

    def send_join(self, group: str, member_id: str = "", **more: Any) -> None:
        """Send JoinGroup with the protocol `range`; `more`: other values of fields."""
        values = {
            "group_id": group,
            "member_id": member_id,
            "session_timeout": 45_000,
            "rebalance_timeout": 60_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        self.send("JoinGroup", 5, **{**values, **more})

    def new_member_id(self, group: str, **more: Any) -> str:
        """Send the first JoinGroup of a dynamic member, which returns its id (KIP-394)."""
        self.send_join(group, **more)
        joined = self.receive()
        assert joined["error_code"] == "member_id_required"
        return str(joined["member_id"])

    def join(self, group: str, member_id: str = "", **more: Any) -> Any:
        """Return the response to JoinGroup, which a dynamic member without an id sends twice."""
        self.send_join(group, member_id, **more)
        joined = self.receive()
        if joined["error_code"] == "member_id_required":
            return self.join(group, joined["member_id"], **more)
        return joined

    def commit(
        self,
        group: str,
        offset: int = 7,
        partition: int = 0,
        *,
        topic: str = "orders",
        version: int = 8,
        **more: Any,
    ) -> str:
        """Commit an offset, by default without a member, and return the error."""
        partitions = [{"partition_index": partition, "committed_offset": offset}]
        values = {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "topics": [{"name": topic, "partitions": partitions}],
        }
        response = self.call("OffsetCommit", version, **{**values, **more})
        return str(response["topics"][0]["partitions"][0]["error_code"])
