"""The coordinator dies and comes back on the same address with the same data."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL, SIGTERM

import pytest
from support.broker_process import EXTERNAL, Served, overrides, serving

from .adapter import Client, Committed
from .conftest import BROKER_OPTIONS
from .driven import Driven
from .stories import Audience, numbered, places

MakeTopic = Callable[..., str]
MakeConsumer = Callable[..., Driven]
PART = Committed(4, "as far as four")


class Restartable:
    """A broker that can be killed and started again where it was."""

    def __init__(self, folder: Path, closing: ExitStack) -> None:
        self._folder = folder
        self._closing = closing
        self._served = self._start(0)
        self.bootstrap = self._served.bootstrap

    def _start(self, port: int) -> Served:
        # A cache that is nearly always too small.
        where = ("--port", str(port), "--data-dir", self._folder / "data", "--cache-offsets", "3")
        return self._closing.enter_context(
            serving(self._folder, *where, *overrides(BROKER_OPTIONS))
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
        pytest.skip("needs a broker that it may kill")
    with ExitStack() as closing:
        yield Restartable(tmp_path_factory.mktemp("broker"), closing)


@pytest.fixture(scope="module")
def bootstrap(broker: Restartable) -> str:
    return broker.bootstrap


def test_acknowledged_offsets_outlive_the_coordinator_and_its_group_goes_on(
    broker: Restartable, client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(2)
    audience = Audience(consumer(group), consumer(group))
    for member in audience.consumers:
        member.subscribe(topic)
    audience.until_shared(places(topic, 2), [1, 1])
    client.produce(topic, numbered(20, partitions=2))
    audience.until_count(20)
    for member in audience.consumers:
        member.commit()
    # They may own nothing when the broker is back, if that took longer than their session.
    owned, others = (member.assignment() for member in audience.consumers)
    audience.consumers[0].commit(dict.fromkeys(owned, PART))

    broker.kill()  # right after the answer
    broker.start()
    newcomer = client.admin()
    offsets = newcomer.group_offsets(group)
    newcomer.close()
    assert [offsets[place] for place in owned] == [PART]
    assert [offsets[place].offset for place in others] == [10]

    client.produce(topic, numbered(20, "after", partitions=2))
    audience.until_values(f"after {number}".encode() for number in range(20))
    audience.until_shared(places(topic, 2), [1, 1])
    for member in audience.consumers:
        member.commit()


def test_a_member_that_starts_after_the_coordinators_death_begins_at_the_committed_offset(
    broker: Restartable, client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic()
    client.produce(topic, numbered(10, partitions=1))
    first = Audience(consumer(group))
    first.consumers[0].subscribe(topic)
    first.until_count(10)
    first.consumers[0].commit(dict.fromkeys(places(topic, 1), PART))
    first.leave(first.consumers[0])

    broker.kill()
    broker.start()
    second = Audience(consumer(group))
    second.consumers[0].subscribe(topic)
    second.until_count(6)
    assert [record.offset for record in second.records] == [4, 5, 6, 7, 8, 9]


def test_offsets_that_find_no_room_in_memory_are_told_like_the_others(
    broker: Restartable, client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(4)
    told = {}
    for number in range(5):
        each = consumer(f"{group}-{number}")
        each.assign(*places(topic, 4))
        told[f"{group}-{number}"] = {
            place: Committed(10 * number + place.partition, f"{number}")
            for place in places(topic, 4)
        }
        each.commit(told[f"{group}-{number}"])
        each.close()
    for restart in (lambda: None, broker.stop, broker.kill):
        restart()
        if restart in (broker.stop, broker.kill):
            broker.start()
        newcomer = client.admin()
        assert {group_id: newcomer.group_offsets(group_id) for group_id in told} == told
        newcomer.close()
