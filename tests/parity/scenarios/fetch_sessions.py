"""Fetch, KIP-227: what a session is told, what it may ask, and how it ends."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..registry import scenario
from ..script import Script

SIZE = 78  # of the batches that scripts produce
PLENTY = 1_000_000


class Consumer:
    """Remembers its session as clients do. `offsets`: where it reads each partition from."""

    def __init__(self, script: Script, topic: str, version: int = 12) -> None:
        self.session_id = self.epoch = 0
        self._script, self._topic, self._version = script, topic, version

    async def fetch(
        self,
        offsets: Mapping[int, int] | None = None,
        forgotten: Sequence[int] = (),
        version: int = 0,
        **otherwise: Any,
    ) -> None:
        named = {"topic": self._topic, "topic_id": self._script.topic_ids[self._topic]}
        partitions = [
            {"partition": index, "fetch_offset": offset, "partition_max_bytes": PLENTY}
            | {"current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
            for index, offset in (offsets or {}).items()
        ]
        said = {
            "session_id": self.session_id,
            "session_epoch": self.epoch,
            "replica_id": -1,
            "replica_state": {"replica_id": -1, "replica_epoch": -1},
            "max_wait": 0,
            "min_bytes": 1,
            "max_bytes": PLENTY,
            "topics": [named | {"partitions": partitions}] if partitions else [],
            "forgotten_topics_data": [named | {"partitions": forgotten}] if forgotten else [],
            **otherwise,
        }
        version = version or self._version
        await self._script.ask("Fetch", version, said, who="consumer", learn=self._learn)

    async def close(self) -> None:
        self.epoch = -1
        await self.fetch()

    def _learn(self, answer: Any) -> None:
        if answer.error_code.name == "none":
            self.session_id = answer.session_id
            self.epoch = self.epoch + 1 if answer.session_id else 0


@scenario("KIP-227: an incremental answer has what is new, and nothing else")
async def a_session_is_told_what_is_new(s: Script) -> None:
    topic = await s.topic(3)
    await s.produce(topic, 0)
    one = Consumer(s, topic)
    await one.fetch({0: 0, 1: 0, 2: 0})
    await one.fetch({0: 1})
    await one.fetch()
    await s.produce(topic, 1)
    await one.fetch()
    # Who does not say that it has read them gets them again.
    await one.fetch()
    await one.fetch({1: 1})
    await s.produce(topic, 0)
    await s.delete_records(topic, 0, 2)
    await one.fetch()
    await one.fetch({0: 2})
    await one.fetch()


@scenario("KIP-227: partitions are forgotten, and come back")
async def a_session_forgets_a_partition(s: Script) -> None:
    topic = await s.topic(2)
    one = Consumer(s, topic)
    await one.fetch({0: 0, 1: 0})
    await s.produce(topic, 0)
    await one.fetch(forgotten=[0])
    await one.fetch({0: 0})
    # Both at once: it is forgotten.
    await one.fetch({0: 0}, forgotten=[0])
    await one.fetch(forgotten=[7])
    # Nothing is left, and so no session.
    await one.fetch(forgotten=[1])
    await one.fetch({1: 0})


@scenario("KIP-227: a session that is closed, replaced or not known")
async def a_session_ends(s: Script) -> None:
    topic = await s.topic(1)
    one = Consumer(s, topic)
    await one.fetch({0: 0})
    id_ = one.session_id
    await one.close()
    await one.fetch(session_id=id_, session_epoch=1)
    await one.fetch({0: 0}, session_id=id_, session_epoch=0)
    id_ = one.session_id
    # A full request takes the place of the session that it names.
    await one.fetch({0: 0}, session_id=id_, session_epoch=0)
    await one.fetch(session_id=id_, session_epoch=1)
    await one.fetch(session_id=0, session_epoch=-1)
    await one.fetch({0: 0}, session_id=0, session_epoch=-1)
    await one.fetch({0: 0}, session_id=0, session_epoch=1)


@scenario("KIP-227: epochs are counted, and one that is not the next changes nothing")
async def the_epochs_of_a_session(s: Script) -> None:
    topic = await s.topic(1)
    one = Consumer(s, topic)
    await one.fetch({0: 0})
    for epoch in (2, 7, 2_147_483_647, -2):
        await one.fetch(session_epoch=epoch)
    await one.fetch()
    await one.fetch(session_epoch=1)
    await one.fetch()


@scenario("KIP-227: what is wrong with a partition is told each time")
async def a_session_is_told_errors_each_time(s: Script) -> None:
    topic = await s.topic(1)
    one = Consumer(s, topic)
    await one.fetch({0: 5, 4: 0})
    await one.fetch()
    await one.fetch({0: 0})
    await one.fetch(forgotten=[4])


@scenario("KIP-227: who got records is read last the next time")
async def partitions_of_a_session_take_turns(s: Script) -> None:
    topic = await s.topic(3)
    one = Consumer(s, topic)
    await one.fetch({0: 0, 1: 0, 2: 0})
    for index in range(3):
        await s.produce(topic, index)
    for _ in range(4):
        await one.fetch(max_bytes=SIZE)


@scenario("KIP-227: an incremental request waits for records as any other")
async def a_session_waits_for_records(s: Script) -> None:
    topic = await s.topic(2)
    one = Consumer(s, topic)
    await one.fetch({0: 0, 1: 0})
    await one.fetch(max_wait=60_000)
    await s.produce(topic, 1)
    await s.until_freed()
    await one.fetch({1: 1})


@scenario("KIP-227, KIP-516: a session goes by names or by ids, in every version")
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
