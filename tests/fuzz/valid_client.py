"""A client that sends only valid requests on one connection, and fails at the first error.

Real clients reconnect and retry; this one does neither.
"""

import threading
import time
from typing import Any

from kohort.log.records import records
from support.log import NewRecord, build
from support.wire import Client

TIMEOUT_MS = 30_000
TOPIC = "valid-client-topic"
GROUP = "valid-client-group"


class ValidClient:
    """The only member of its group: produces, fetches, commits, fetches the offset, heartbeats."""

    def __init__(self, address: str) -> None:
        self._client = Client(address)
        self._member = {"group_id": GROUP, "member_id": "", "group_instance_id": None}
        self._generation = -1
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="valid client")
        self.iterations = 0
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        try:
            self._join_group()
            while not self._stopping.is_set():
                self._iterate()
        except BaseException as error:  # checked by the test, in its own thread
            self.failure = error

    def _join_group(self) -> None:
        topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
        created = self._client.call("CreateTopics", 5, topics=[topic], timeout=TIMEOUT_MS)
        assert created["topics"][0]["error_code"] == "none"
        found = self._client.call("FindCoordinator", 3, key=GROUP)
        assert found["error_code"] == "none"
        joined = self._join()
        assert joined["error_code"] == "member_id_required"
        self._member["member_id"] = joined["member_id"]
        joined = self._join()
        assert joined["error_code"] == "none"
        assert joined["leader"] == self._member["member_id"]
        self._generation = joined["generation_id"]
        assignment = {"member_id": self._member["member_id"], "assignment": b"all of it"}
        synced = self._client.call(
            "SyncGroup",
            5,
            **self._member,
            generation_id=self._generation,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[assignment],
        )
        assert synced["error_code"] == "none"
        assert synced["assignment"] == b"all of it"

    def _join(self) -> Any:
        return self._client.call(
            "JoinGroup",
            5,
            **self._member,
            session_timeout=TIMEOUT_MS,
            rebalance_timeout=TIMEOUT_MS,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b"any"}],
        )

    def _iterate(self) -> None:
        """Produce and fetch a record, commit and fetch its offset, and send a heartbeat."""
        value = b"record %d" % self.iterations
        assert self._produce(value) == self.iterations
        assert self._fetch(self.iterations) == value
        self._commit(self.iterations + 1)
        assert self._committed() == self.iterations + 1
        heartbeat = self._client.call(
            "Heartbeat", 4, **self._member, generation_id=self._generation
        )
        assert heartbeat["error_code"] == "none"
        self.iterations += 1

    def _produce(self, value: bytes) -> int:
        batch = build([NewRecord(None, value, int(time.time() * 1000))], base_offset=0)
        topic = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
        response = self._client.call("Produce", 8, acks=-1, timeout=TIMEOUT_MS, topic_data=[topic])
        partition = response["responses"][0]["partition_responses"][0]
        assert partition["error_code"] == "none"
        return int(partition["base_offset"])

    def _fetch(self, offset: int) -> bytes | None:
        partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_000_000}
        response = self._client.call(
            "Fetch",
            11,
            replica_id=-1,
            min_bytes=1,
            max_bytes=2**31 - 1,
            session_epoch=-1,
            topics=[{"topic": TOPIC, "partitions": [partition]}],
        )
        fetched = response["responses"][0]["partitions"][0]
        assert fetched["error_code"] == "none"
        return next(records(fetched["records"], 0)).value

    def _commit(self, offset: int) -> None:
        response = self._client.call(
            "OffsetCommit",
            8,
            **self._member,
            generation_id_or_member_epoch=self._generation,
            topics=[
                {
                    "name": TOPIC,
                    "partitions": [{"partition_index": 0, "committed_offset": offset}],
                }
            ],
        )
        assert response["topics"][0]["partitions"][0]["error_code"] == "none"

    def _committed(self) -> int:
        topics = [{"name": TOPIC, "partition_indexes": [0]}]
        response = self._client.call("OffsetFetch", 7, group_id=GROUP, topics=topics)
        return int(response["topics"][0]["partitions"][0]["committed_offset"])
