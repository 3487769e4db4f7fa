"""Fetch: incremental sessions (KIP-227)."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..scenario import scenario
from ..script import Script

BATCH_BYTES = 78  # the size of a batch of Script.produce
UNLIMITED = 1_000_000


class Consumer:
    """A consumer that maintains its fetch session as clients do."""

    def __init__(self, script: Script, topic: str, version: int = 12) -> None:
        self.session_id = self.epoch = 0
        self._script, self._topic, self._version = script, topic, version

    async def fetch(
        self,
        offsets: Mapping[int, int] | None = None,
        forgotten: Sequence[int] = (),
        version: int = 0,
        **fields: Any,
    ) -> None:
        topic = {"topic": self._topic, "topic_id": self._script.topic_ids[self._topic]}
        partitions = [
            {"partition": index, "fetch_offset": offset, "partition_max_bytes": UNLIMITED}
            | {"current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
            for index, offset in (offsets or {}).items()
        ]
        values = {
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "replica_id": -1,
            "replica_state": {"replica_id": -1, "replica_epoch": -1},
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": UNLIMITED,
            "topics": [topic | {"partitions": partitions}] if partitions else [],
            "forgotten_topics_data": [topic | {"partitions": forgotten}] if forgotten else [],
            **fields,
        }
        version = version or self._version
        await self._script.send(
            "Fetch", version, values, client_id="consumer", on_response=self._responded
        )

    async def close(self) -> None:
        self.epoch = -1
        await self.fetch()

    def _responded(self, response: Any) -> None:
        if response["error_code"] == "none":
            self.session_id = response["session_id"]
            self.epoch = self.epoch + 1 if response["session_id"] else 0


@scenario("KIP-227: an incremental response contains only the changed partitions")
async def an_incremental_response_has_only_changes(s: Script) -> None:
    topic = await s.topic(3)
    await s.produce(topic, 0)
    one = Consumer(s, topic)
    await one.fetch({0: 0, 1: 0, 2: 0})
    await one.fetch({0: 1})
    await one.fetch()
    await s.produce(topic, 1)
    await one.fetch()
    # The records are returned again until the consumer's position changes.
    await one.fetch()
    await one.fetch({1: 1})
    await s.produce(topic, 0)
    await s.delete_records(topic, 0, 2)
    await one.fetch()
    await one.fetch({0: 2})
    await one.fetch()


@scenario("KIP-227: partitions are forgotten and added again")
async def partitions_are_removed_from_a_session(s: Script) -> None:
    topic = await s.topic(2)
    one = Consumer(s, topic)
    await one.fetch({0: 0, 1: 0})
    await s.produce(topic, 0)
    await one.fetch(forgotten=[0])
    await one.fetch({0: 0})
    # A partition that is added and forgotten in one request is forgotten.
    await one.fetch({0: 0}, forgotten=[0])
    await one.fetch(forgotten=[7])
    # A session without partitions is closed.
    await one.fetch(forgotten=[1])
    await one.fetch({1: 0})


@scenario("KIP-227: a session that is closed, replaced or unknown")
async def a_session_is_closed_replaced_or_unknown(s: Script) -> None:
    topic = await s.topic(1)
    one = Consumer(s, topic)
    await one.fetch({0: 0})
    id_ = one.session_id
    await one.close()
    await one.fetch(session_id=id_, session_epoch=1)
    await one.fetch({0: 0}, session_id=id_, session_epoch=0)
    id_ = one.session_id
    # A full request replaces the session whose id it contains.
    await one.fetch({0: 0}, session_id=id_, session_epoch=0)
    await one.fetch(session_id=id_, session_epoch=1)
    await one.fetch(session_id=0, session_epoch=-1)
    await one.fetch({0: 0}, session_id=0, session_epoch=-1)
    await one.fetch({0: 0}, session_id=0, session_epoch=1)


@scenario("KIP-227: a request whose epoch is not the next one changes nothing")
async def the_epochs_of_a_session(s: Script) -> None:
    topic = await s.topic(1)
    one = Consumer(s, topic)
    await one.fetch({0: 0})
    for epoch in (2, 7, 2_147_483_647, -2):
        await one.fetch(session_epoch=epoch)
    await one.fetch()
    await one.fetch(session_epoch=1)
    await one.fetch()


@scenario("KIP-227: partitions with errors are in every response")
async def errors_are_in_every_incremental_response(s: Script) -> None:
    topic = await s.topic(1)
    one = Consumer(s, topic)
    await one.fetch({0: 5, 4: 0})
    await one.fetch()
    await one.fetch({0: 0})
    await one.fetch(forgotten=[4])


@scenario("KIP-227: a partition that returned records is last in the next response")
async def partitions_of_a_session_take_turns(s: Script) -> None:
    topic = await s.topic(3)
    one = Consumer(s, topic)
    await one.fetch({0: 0, 1: 0, 2: 0})
    for index in range(3):
        await s.produce(topic, index)
    for _ in range(4):
        await one.fetch(max_bytes=BATCH_BYTES)


@scenario("KIP-227: an incremental request waits for records like any other")
async def an_incremental_request_waits_for_records(s: Script) -> None:
    topic = await s.topic(2)
    one = Consumer(s, topic)
    await one.fetch({0: 0, 1: 0})
    await one.fetch(max_wait=60_000)
    await s.produce(topic, 1)
    await s.until_response()
    await one.fetch({1: 1})


@scenario("KIP-227, KIP-516: sessions with topic names or ids, in every version")
async def a_session_in_every_version(s: Script) -> None:
    topic = await s.topic(1)
    await s.produce(topic, 0)
    for version in range(7, 19):
        one = Consumer(s, topic, version)
        await one.fetch({0: 0})
        await one.fetch({0: 1})
        await one.fetch({0: 1}, version=12 if version > 12 else 13)
        await one.fetch()
        await one.close()
