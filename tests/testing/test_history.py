"""What happened, as plain data and as the report of a failed test."""

import gc
import weakref
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kohort.coordinator.outcome import EventType, GroupEvent
from kohort.offsets.causes import Cause
from kohort.testing import Kafka
from kohort.testing.asked import Asked
from kohort.testing.history import History
from kohort.testing.report import LINE_CHARACTERS_MAX, LINES_MAX, duration, report, timeline

from .conftest import Committer, Service
from .test_plugin import run

pytest_plugins = ["pytester"]


class Stopwatch:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def stopwatch() -> Stopwatch:
    return Stopwatch()


@pytest.fixture
def history(stopwatch: Stopwatch) -> History:
    return History(lambda: int(stopwatch.seconds * 1000), stopwatch)


def fetch(number: int, answer_bytes: int) -> Asked:
    return Asked(number, 0, 1, 1, 4, "client", "/host", None, answer=bytes(answer_bytes))


def test_records_are_kept_as_far_as_they_fit_into_memory(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.testing.history.BYTES_MAX", 1000)
    fetches = [fetch(1, 300), fetch(2, 600), fetch(3, 200), fetch(4, 5000)]
    for each in fetches[:3]:
        history.note(each)
    for each in fetches[:3]:
        history.note_answer(each)
    assert history.requests == fetches[1:3]
    assert history.requests_after(2) == fetches[2:3]
    history.note_answer(fetches[0])  # forgotten already, and no matter
    history.note(fetches[3])
    history.note_answer(fetches[3])
    assert history.requests == fetches[3:]


def test_requests_are_read_while_others_arrive(history: History) -> None:
    class Arrival(int):
        """Each time that a request's number is compared with it, one more arrives."""

        def __lt__(self, number: int) -> bool:
            history.note(fetch(len(history.requests) + 1, 0))
            return int(self) < number

    for number in range(1, 4):
        history.note(fetch(number, 0))
    assert [each.number for each in history.requests_after(Arrival(1))] == [2, 3]
    assert len(history.requests) == 6


def test_a_generation_lasts_until_the_next_round_is_opened(
    history: History, stopwatch: Stopwatch
) -> None:
    def tell(at_s: float, kind: EventType, generation: int, cause: Cause) -> None:
        stopwatch.seconds = at_s
        history.hear(1, GroupEvent(kind, "billing", generation=generation, cause=cause))

    tell(1.0, EventType.JOIN_COMPLETED, 1, Cause.MEMBER_JOINED)
    tell(3.5, EventType.REBALANCE_STARTED, 1, Cause.SESSION_TIMEOUT)
    tell(4.0, EventType.GROUP_EMPTIED, 2, Cause.SESSION_TIMEOUT)
    first, second = history.generations("billing")
    assert (first.number, first.lasted_ms, first.wall_s) == (1, 2500, 1.0)
    assert (second.number, second.lasted_ms, second.cause) == (2, None, "session expired")
    assert history.generations("other") == []
    assert history.groups == ["billing"]


def test_why_a_member_is_out_is_told_and_a_leave_that_was_refused_is_no_exit(
    history: History,
) -> None:
    for kind, cause in (
        (EventType.MEMBER_EXPIRED, Cause.SESSION_TIMEOUT),
        (EventType.LEAVE_RECEIVED, Cause.SLOW_POLL),
        (EventType.LEAVE_RECEIVED, None),
        (EventType.MEMBER_JOINED, None),
    ):
        history.hear(1, GroupEvent(kind, "billing", member_id="m", generation=3, cause=cause))
    assert [(each.member_id, each.generation, each.cause) for each in history.exits("billing")] == [
        ("m", 3, "session expired"),
        ("m", 3, "poll interval exceeded"),
    ]


def test_a_timeline_is_bounded_and_says_the_same_only_once(
    history: History, stopwatch: Stopwatch
) -> None:
    for number in range(3 * LINES_MAX):
        stopwatch.seconds = number
        error_of = "m" * 200 if number % 2 else f"m{number}"
        history.hear(1, GroupEvent(EventType.MEMBER_JOINED, "billing", member_id=error_of))
    assert len(timeline(history)) == 3 * LINES_MAX
    assert max(map(len, timeline(history))) == LINE_CHARACTERS_MAX
    for number in range(5):
        stopwatch.seconds = 1000 + number
        history.hear(1, GroupEvent(EventType.MEMBER_JOINED, "billing", member_id="last"))
    assert timeline(history)[-1] == " 1000.000    = billing: member joined last × 5"


@pytest.mark.parametrize(
    ("ms", "said"), [(20, "20 ms"), (1500, "1.5 s"), (300_000, "5 min"), (604_800_000, "7 days")]
)
def test_a_duration_is_told_in_its_largest_unit(ms: int, said: str) -> None:
    assert duration(ms) == said


@pytest.mark.clients
def test_a_refused_commit_is_told_with_its_error_and_whose_doing_it_was(
    kafka: Kafka, new_committer: Callable[..., Committer]
) -> None:
    kafka.faults.answer("OffsetCommit", error="GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(KafkaException):
        new_committer().commit(5)
    (refused,) = kafka.history.refused_commits("billing")
    assert (refused.topic, refused.partition, refused.offset) == ("orders", 0, 5)
    assert (refused.error, refused.is_of_fault) == ("GROUP_AUTHORIZATION_FAILED", True)
    assert refused.generation is None
    assert kafka.history.commits("billing") == []


@pytest.mark.clients
def test_a_generation_knows_what_its_leader_gave_to_whom(
    kafka: Kafka, new_service: Callable[..., Service]
) -> None:
    group = kafka.group("billing")
    new_service("one")
    group.wait_stable(members=1)
    two = new_service("two")
    group.wait_stable(members=2)
    one_id, two_id = (each.member_id for each in group.members)
    first, second = group.generations
    assert first.partitions == {one_id: (("orders", 0), ("orders", 1))}
    assert sorted(second.partitions) == sorted([one_id, two_id])
    assert sorted(sum(second.partitions.values(), ())) == [("orders", 0), ("orders", 1)]
    assert (first.lasted_ms is None, second.lasted_ms is None) == (False, True)
    assert second.synced_ms is not None
    two.close()
    assert [(each.client_id, each.cause) for each in group.exits] == [("two", "member left")]
    steps = [(each.before, each.after) for each in kafka.history.state_changes("billing")]
    assert steps[:4] == [
        (None, "Empty"),
        ("Empty", "PreparingRebalance"),
        ("PreparingRebalance", "CompletingRebalance"),
        ("CompletingRebalance", "Stable"),
    ]


@pytest.mark.clients
def test_the_clock_that_was_moved_stands_before_what_came_of_it(kafka: Kafka) -> None:
    kafka.clock.freeze()
    kafka.clock.advance(minutes=5)
    kafka.clock.resume()
    assert [(m.what, m.by_ms) for m in kafka.history.clock_moves] == [
        ("frozen", 0),
        ("advanced", 300_000),
        ("resumed", 0),
    ]
    assert [line.split("~ ")[1] for line in timeline(kafka.history)] == [
        "the clock was frozen",
        "the clock was advanced by 5 min",
        "the clock was resumed",
    ]


def test_nothing_is_said_of_a_broker_that_nobody_used(kafka: Kafka) -> None:
    assert report(kafka) == ""


FAILING = """
    import pytest
    from confluent_kafka import Consumer, TopicPartition

    @pytest.mark.parametrize("fails", [True, False])
    def test_service(kafka, fails):
        kafka.topic("orders", partitions=1)
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "billing"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 7)], asynchronous=False)
        consumer.close()
        assert not fails
"""


@pytest.mark.clients
@pytest.mark.parametrize("options", [(), ("-n1",)], ids=["one process", "xdist"])
def test_a_failed_test_is_told_what_happened(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    pytester.makepyfile(FAILING)
    result = run(pytester, *options)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "*- kafka -*",
            "billing is Empty: it has offsets, and no member has ever joined.",
            "what happened (seconds since the broker of this test was started)",
            "*  OffsetCommit v* billing from rdkafka: ok*(orders-0 at 7)",
        ]
    )
    assert result.stdout.str().count("billing is Empty") == 1


@pytest.mark.clients
def test_what_was_asked_of_a_broker_that_is_over_does_not_keep_its_disk(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1).produce(["a"])
    point, over = kafka.snapshot(), []
    for _ in range(2):
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "billing"}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        consumer.assign([TopicPartition("orders", 0, 0)])
        assert consumer.poll(10) is not None
        consumer.close()
        over.append(weakref.ref(kafka.disk.files))
        kafka.restore(point)
    gc.collect()
    assert [each() for each in over] == [None, None]
    fetches = kafka.history.requests_of("Fetch")
    assert {each.topics for each in fetches} - {()} == {("orders",)}
