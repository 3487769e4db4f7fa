"""A broker that is killed or stopped, and started at the same address with the same data."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest
from support.running_broker import EXTERNAL, BrokerProcess, config_flags, start_broker

from .adapter import Client, Committed
from .conftest import BROKER_OPTIONS, MakeConsumer, MakeTopic, NewGroup
from .consumers import Consumers, numbered, partitions_of

FOUR = Committed(4, "up to four")


class Restartable:
    """A broker that can be killed and started again."""

    def __init__(self, folder: Path, closing: ExitStack) -> None:
        self._folder = folder
        self._closing = closing
        self._served = self._start(0)
        self.bootstrap = self._served.bootstrap

    def _start(self, port: int) -> BrokerProcess:
        # The cache is too small for most tests, so that offsets are spilled.
        where = ("--port", str(port), "--data-dir", self._folder / "data", "--cache-offsets", "3")
        return self._closing.enter_context(
            start_broker(self._folder, *where, *config_flags(BROKER_OPTIONS))
        )

    def kill(self) -> None:
        self._served.stop(SIGKILL)

    def stop(self) -> None:
        assert self._served.stop(SIGTERM) == 0

    def start(self) -> None:
        self._served = self._start(self._served.port)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restartable]:
    if EXTERNAL:
        pytest.skip("needs a broker that it can kill")
    with ExitStack() as closing:
        yield Restartable(tmp_path_factory.mktemp("broker"), closing)


@pytest.fixture(scope="module")
def bootstrap(broker: Restartable) -> str:
    return broker.bootstrap


def test_acknowledged_offsets_survive_a_killed_broker_and_the_group_continues(
    broker: Restartable, client: Client, new_topic: MakeTopic, new_group: NewGroup, group: str
) -> None:
    topic = new_topic(2)
    consumers = new_group(topic, 1, 1)
    client.produce(topic, numbered(20, partitions=2))
    consumers.until_count(20)
    for member in consumers.all:
        member.commit()
    # Members may own nothing after a restart that takes longer than their session timeout.
    owned, others = (member.assignment() for member in consumers.all)
    consumers.all[0].commit(dict.fromkeys(owned, FOUR))

    broker.kill()  # right after the response
    broker.start()
    admin = client.admin()
    offsets = admin.group_offsets(group)
    admin.close()
    assert [offsets[partition] for partition in owned] == [FOUR]
    assert [offsets[partition].offset for partition in others] == [10]

    client.produce(topic, numbered(20, "after", partitions=2))
    consumers.until_values(f"after {number}".encode() for number in range(20))
    consumers.until_shared(partitions_of(topic, 2), [1, 1])
    for member in consumers.all:
        member.commit()


def test_a_member_started_after_a_crash_begins_at_the_committed_offset(
    broker: Restartable, client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic()
    client.produce(topic, numbered(10, partitions=1))
    first = Consumers(consumer(group))
    first.all[0].subscribe(topic)
    first.until_count(10)
    first.all[0].commit(dict.fromkeys(partitions_of(topic, 1), FOUR))
    first.close(first.all[0])

    broker.kill()
    broker.start()
    second = Consumers(consumer(group))
    second.all[0].subscribe(topic)
    second.until_count(6)
    assert [record.offset for record in second.records] == [4, 5, 6, 7, 8, 9]


def test_spilled_offsets_are_returned_like_the_others(
    broker: Restartable, client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(4)
    committed = {}
    for number in range(5):
        each = consumer(f"{group}-{number}")
        each.assign(*partitions_of(topic, 4))
        committed[f"{group}-{number}"] = {
            partition: Committed(10 * number + partition.partition, f"{number}")
            for partition in partitions_of(topic, 4)
        }
        each.commit(committed[f"{group}-{number}"])
        each.close()
    for restart in (lambda: None, broker.stop, broker.kill):
        restart()
        if restart in (broker.stop, broker.kill):
            broker.start()
        admin = client.admin()
        assert {each: admin.group_offsets(each) for each in committed} == committed
        admin.close()
