"""If a running broker breaks a promise, the corresponding check finds it within seconds.

Most faults are planted between a connection and its handler: every n-th request of an API, or its
response, is changed. The others replace a function of the broker.
"""

import asyncio
import re
from collections.abc import Callable, Collection
from functools import partial
from itertools import count
from typing import Any, Literal, NamedTuple

import pytest
from kohort.check.analysis import analyze
from kohort.check.history import Event
from kohort.check.recorder import History
from kohort.check.run import run
from kohort.check.targets import OWN_SESSION_TIMEOUT_MS, OwnBroker
from kohort.check.workload import Options
from kohort.client_security import Security
from kohort.coordinator.consumer import reconcile
from kohort.coordinator.consumer.group import FREE
from kohort.log.batch import HEADER_BYTES, TRANSACTIONAL, BatchHeader, assemble, read_header
from kohort.log.records import records
from kohort.protocol.apis import APIS
from kohort.protocol.bootstrap import addresses
from kohort.protocol.errors import ErrorCode
from kohort.testing.faults import actions
from kohort.testing.interceptor import InterceptedRequest
from kohort.topics import produce
from kohort.topics.registry_log import BrokerConfigRecord
from kohort.topics.topic import Partition
from support.log import NewRecord, build

Change = Callable[[InterceptedRequest], bool]
"""Change a request before it is handled, or its response; True: take it over."""


class FaultyApi:
    """A hook of the harness that changes every n-th request of an API."""

    def __init__(self, api: str, every: int, change: Change) -> None:
        assert any(each.name == api for each in APIS)
        self._api, self._every, self._change = api, every, change
        self._numbers = count(1)

    def wants(self, api: str) -> bool:
        return api == self._api

    def intercept(self, request: InterceptedRequest) -> bool:
        is_chosen = self.wants(request.record.api) and next(self._numbers) % self._every == 0
        return is_chosen and self._change(request)


class Fault(NamedTuple):
    """`plant` is called with the broker and pytest's monkeypatch. `anomaly`: the check that must
    find it, usually in the first run, of this many seconds."""

    name: str
    anomaly: str
    plant: Callable[[OwnBroker, pytest.MonkeyPatch], None]
    nemesis: str | None = None
    seconds: float = 0.4


def api_fault(
    name: str, anomaly: str, api: str, change: Change, every: int = 4, **more: Any
) -> Fault:
    def plant(broker: OwnBroker, _patch: pytest.MonkeyPatch) -> None:
        broker._kafka._host.interception.hooks.append(FaultyApi(api, every, change))

    return Fault(name, anomaly, plant, **more)


def with_response(change: Callable[[Any], None]) -> Change:
    """Handle the request, and change the response."""

    def intercept(request: InterceptedRequest) -> bool:
        def respond() -> None:
            response = request.record.response
            change(response)
            request.respond(response)

        request.on_response = respond
        return False

    return intercept


def with_request(change: Callable[[Any], None]) -> Change:
    def intercept(request: InterceptedRequest) -> bool:
        change(request.context.request)
        return False

    return intercept


# --- requests


acknowledge_only = partial(actions.answer, error=ErrorCode.none)
let_rejoin = partial(actions.answer, error=ErrorCode.rebalance_in_progress)


def commit_ahead(message: Any) -> None:
    message.topics[0].partitions[0].committed_offset += 3


def other_partition(message: Any) -> None:
    (part,) = message.topic_data[0].partition_data
    if message.transactional_id is None and part.index in (0, 3):  # led by the same node
        part.index = 3 - part.index


def reverse_records(message: Any) -> None:
    (part,) = message.topic_data[0].partition_data
    batch = bytes(part.records)
    found = list(records(batch))
    header = read_header(batch)
    part.records = build(
        [NewRecord(None, each.value, each.timestamp) for each in reversed(found)],
        attributes=header.attributes,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def end_with(*, commit: bool) -> Change:
    def change(message: Any) -> None:
        message.committed = commit

    return with_request(change)


def give_all_the_same(message: Any) -> None:
    for each in message.assignments:
        each.assignment = message.assignments[0].assignment


def as_current_member(request: InterceptedRequest) -> bool:
    """Let a commit pass as that of a member of the current generation."""
    message, group = request.context.request, group_of(request, "groups")
    if group is not None and group.members:
        message.generation_id_or_member_epoch = group.generation
        message.member_id = next(iter(group.members))
    return False


def in_current_epoch(request: InterceptedRequest) -> bool:
    """Let a commit pass as one of the member's current epoch."""
    message, group = request.context.request, group_of(request, "consumer_groups")
    if group is not None and message.member_id in group.members:
        message.generation_id_or_member_epoch = group.members[message.member_id].epoch
    return False


def forget_generations(request: InterceptedRequest) -> bool:
    group = group_of(request, "groups")
    if group is not None and group.generation > 0:
        group.generation -= 1
    return False


def group_of(request: InterceptedRequest, kind: Literal["groups", "consumer_groups"]) -> Any:
    """Return the group of a request, if this node coordinates it; None if there is none."""
    group_id, coordinators = request.context.request.group_id, request.node.coordinators
    context = coordinators.contexts.get(coordinators.partition_of(group_id))
    return None if context is None else getattr(context.coordinator, kind).get(group_id)


# --- responses


def deny(response: Any) -> None:
    response.topics[0].partitions[0].error_code = ErrorCode.illegal_generation


def rewind(response: Any) -> None:
    for topic in response.groups[0].topics:
        for part in topic.partitions:
            part.committed_offset = min(part.committed_offset, 0)


def partitions_of(fetched: Any) -> list[Any]:
    return [part for topic in fetched.responses for part in topic.partitions]


def nothing_aborted(response: Any) -> None:
    for part in partitions_of(response):
        part.aborted_transactions = ()


def older(response: Any) -> None:
    for part in partitions_of(response):
        part.high_watermark, part.records = max(0, part.high_watermark - 5), b""


def out_of_range(response: Any) -> None:
    """Reject a fetch. If the response contains several partitions, one of them fails."""
    for part in partitions_of(response)[:1]:
        part.error_code, part.records = ErrorCode.offset_out_of_range, b""


def without_first_batch(response: Any) -> None:
    for part in partitions_of(response):
        data = bytes(part.records or b"")
        if data and len(data) > (size := read_header(data).size):
            part.records = data[size:]


def flip_a_bit(response: Any) -> None:
    for part in partitions_of(response):
        if data := bytearray(part.records or b""):
            data[HEADER_BYTES] ^= 1
            part.records = bytes(data)


def from_the_beginning() -> Change:
    """Respond to some fetches with the first records that were ever fetched."""
    first: dict[int, bytes] = {}

    def change(response: Any) -> None:
        for part in partitions_of(response):
            if data := bytes(part.records or b""):
                part.records = first.setdefault(part.partition_index, data)

    return with_response(change)


def same_producer() -> Change:
    """Give out the first epoch of a transactional id again."""
    first: dict[str, tuple[int, int]] = {}

    def intercept(request: InterceptedRequest) -> bool:
        name = request.context.request.transactional_id

        def change(response: Any) -> None:
            if name is not None and response.error_code is ErrorCode.none:
                given = response.producer_id, response.producer_epoch
                response.producer_id, response.producer_epoch = first.setdefault(name, given)

        return with_response(change)(request)

    return intercept


def no_fencing() -> Change:
    """Respond to every second request with a later epoch, but keep the current one."""
    known: dict[str, Any] = {}

    def intercept(request: InterceptedRequest) -> bool:
        name = request.context.request.transactional_id
        if name is None:
            return False
        if name in known:
            response = known.pop(name)
            response.producer_epoch += 1_000
            request.respond(response)
            return True

        def keep(response: Any) -> None:
            if response.error_code is ErrorCode.none:
                known[name] = response

        return with_response(keep)(request)

    return intercept


# --- functions of the broker


def append_twice(_broker: OwnBroker, patch: pytest.MonkeyPatch) -> None:
    original, numbers = produce._append, count(1)

    def append(
        partition: Partition, batch: bytes, header: BatchHeader, *rest: Any
    ) -> produce.AppendResult:
        result = original(partition, batch, header, *rest)
        if next(numbers) % 5 == 0:
            plain = header._replace(
                producer_id=-1,
                producer_epoch=-1,
                base_sequence=-1,
                attributes=header.attributes & ~TRANSACTIONAL,
            )
            original(partition, assemble(plain, batch[HEADER_BYTES:]), plain, *rest)
        return result

    patch.setattr(produce, "_append", append)


def skip_an_offset(_broker: OwnBroker, patch: pytest.MonkeyPatch) -> None:
    original, numbers = produce._append, count(1)

    def append(
        partition: Partition, batch: bytes, header: BatchHeader, *rest: Any
    ) -> produce.AppendResult:
        # Only between batches, so that the log can be read: a batch of a plain producer cannot be
        # rejected.
        if header.producer_id < 0 and partition.log.end_offset and next(numbers) % 3 == 0:
            partition.log.end_offset += 1
        return original(partition, batch, header, *rest)

    patch.setattr(produce, "_append", append)


def all_is_stable(_broker: OwnBroker, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "last_stable_offset", property(lambda self: self.high_watermark))


def nobody_owns_anything(_broker: OwnBroker, patch: pytest.MonkeyPatch) -> None:
    original = reconcile._towards_target

    def towards_target(member: Any, goal: Any, *rest: Any) -> Any:
        return original(member, goal._replace(owner_epoch=lambda *_: FREE), *rest)

    patch.setattr(reconcile, "_towards_target", towards_target)


def rewind_often(broker: OwnBroker, _patch: pytest.MonkeyPatch) -> None:
    """Rewind often, because members read the committed offset only after a rebalance."""
    hooks = broker._kafka._host.interception.hooks
    hooks.append(FaultyApi("OffsetFetch", 1, with_response(rewind)))
    hooks.append(FaultyApi("Heartbeat", 2, let_rejoin))


def do_not_sync(broker: OwnBroker, _patch: pytest.MonkeyPatch) -> None:
    """Kafka's default for produced records, which relies on replicas."""
    never = {"log.flush.interval.messages": str(2**63 - 1)}
    broker._kafka.call(lambda each: each.node.topics.change(BrokerConfigRecord("", never)))


FAULTS = (
    api_fault("acknowledged commit dropped", "lost-commit", "OffsetCommit", acknowledge_only),
    Fault("committed offset behind", "consumed-twice", rewind_often, seconds=4),
    api_fault("acknowledged write dropped", "lost-write", "Produce", acknowledge_only, 10),
    Fault("acknowledged write lost in a crash", "lost-write", do_not_sync, "power", 1.5),
    Fault("duplicate append", "duplicate", append_twice),
    api_fault(
        "fenced commit accepted", "fenced-commit", "OffsetCommit", as_current_member, 1, seconds=1.5
    ),
    api_fault(
        "stale member epoch accepted",
        "fenced-commit",
        "OffsetCommit",
        in_current_epoch,
        1,
        seconds=1.5,
    ),
    api_fault(
        "one partition, two owners", "two-owners", "SyncGroup", with_request(give_all_the_same), 1
    ),
    Fault("consumer protocol: two owners", "two-owners", nobody_owns_anything),
    api_fault("aborted record visible", "G1a", "Fetch", with_response(nothing_aborted), 1),
    Fault("uncommitted record visible", "precommitted-read", all_is_stable),
    Fault("offset gap", "offset-gap", skip_an_offset),
    api_fault(
        "records reversed", "int-nonmonotonic-send", "Produce", with_request(reverse_records)
    ),
    api_fault("stale read", "stale-read", "Fetch", with_response(older)),
    api_fault("position refused", "out-of-range", "Fetch", with_response(out_of_range)),
    api_fault("old records again", "nonmonotonic-poll", "Fetch", from_the_beginning()),
    api_fault("bit flipped", "misplaced", "Fetch", with_response(flip_a_bit)),
    api_fault("batch skipped", "poll-skip", "Fetch", with_response(without_first_batch)),
    api_fault("generation reused", "generation", "JoinGroup", forget_generations, 1),
    api_fault("committed offset ahead", "commit-ahead", "OffsetCommit", with_request(commit_ahead)),
    api_fault("partitions swapped", "misplaced", "Produce", with_request(other_partition), 1),
    api_fault(
        "failed commit visible", "failed-commit-visible", "OffsetCommit", with_response(deny)
    ),
    api_fault("abort commits", "G1a", "EndTxn", end_with(commit=True), 1),
    api_fault("commit aborts", "lost-write", "EndTxn", end_with(commit=False)),
    api_fault("epoch given out twice", "producer-epoch", "InitProducerId", same_producer(), 1),
    api_fault(
        "fenced producer writes", "fenced-producer", "InitProducerId", no_fencing(), 1, seconds=1.5
    ),
)


# --- tests

PAUSE_SECONDS = 0.003
RUNS_MAX = 6
"""Each is twice as long as the one before: on a busy machine, a group may need longer for its
rebalances."""


def check(
    broker: OwnBroker,
    seconds: float,
    nemeses: Collection[str] = (),
    *,
    seed: int = 1,
    pause_s: float = PAUSE_SECONDS,
) -> tuple[History, dict[str, str]]:
    """The names of the anomalies, each with its smallest counter-example."""
    history = History()
    timeout_ms = OWN_SESSION_TIMEOUT_MS
    bootstrap = addresses(broker.bootstrap)
    options = Options(bootstrap, Security(), seconds, seed, 10, timeout_ms, pause_s)
    chosen = {each: broker.nemeses[each] for each in nemeses}
    asyncio.run(run(options, chosen, history))
    return history, {each.check.name: each.anomalies[0].what for each in analyze(history)}


@pytest.mark.interpreted
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    # A broker that does not fence leaves transactions open, for which the final reads would wait.
    monkeypatch.setattr("kohort.check.run.STABLE_SECONDS", 1.0)
    nemeses = () if fault.nemesis is None else (fault.nemesis,)
    found: dict[str, str] = {}
    with OwnBroker() as broker:
        fault.plant(broker, monkeypatch)
        for number in range(RUNS_MAX):
            found |= check(broker, fault.seconds * 2**number, nemeses, seed=number + 1)[1]
            if fault.anomaly in found:
                return
    raise AssertionError(f"{fault.anomaly} was not found, only {found}")


def test_nothing_is_found_without_a_fault() -> None:
    with OwnBroker() as broker:
        assert check(broker, 1)[1] == {}


@pytest.mark.toolchain
def test_nothing_is_found_in_a_minute_with_all_disturbances() -> None:
    seed = 644  # its first seven disturbances are of all kinds, and one loses Produce responses
    with OwnBroker() as broker:
        history, found = check(broker, 60, broker.nemeses, seed=seed, pause_s=0.02)
        assert found == {}
        disturbances = [each for each in history if isinstance(each, Event) and each.nemesis]
        assert {each.nemesis for each in disturbances} == set(broker.nemeses)
    assert any(
        re.match(r"lost the response to \w+ v\d+ of kohort-check-[a-z]+-\d+\.\d+", each.what)
        for each in disturbances
    ), disturbances
