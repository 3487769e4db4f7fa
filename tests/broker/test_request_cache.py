"""The request cache changes nothing but speed.

Two brokers receive the same frames, one with the request cache and one without. Their responses,
logs and offset tables must be the same bytes.
"""

import dataclasses
import struct
from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kohort.broker.handlers.k09_offset_fetch import KEPT_RESPONSE_BYTES_MAX
from kohort.broker.network.request import PIPELINED_MAX, Interceptor, RequestContext, Route, Routes
from kohort.broker.network.request_cache import CACHE_BYTES_MAX, CachedRequest, RequestCache
from kohort.conformance.wire import encode_frame, request_of
from kohort.offsets.record_codec import decode_commit_value
from kohort.protocol.apis import BY_KEY
from kohort.protocol.framing import decode_request_header
from kohort.protocol.messages import request_field_locator, request_module
from kohort.topics.acls import Acl, AclOperation, AclPermission, AclResourceType, Acls, PatternType
from kohort.topics.names import OFFSETS_TOPIC
from support.broker import NOW_MS, OFFSETS_PARTITIONS, BrokerHarness
from support.connection import Transport, new_connection
from support.kio_messages import messages

CACHED = [
    (api.key, version)
    for api in map(BY_KEY.__getitem__, (8, 9, 11, 12, 14))
    for version in range(api.min_version, api.max_version + 1)
]


class CachingBroker(BrokerHarness):
    """Has the topics "t" with two partitions and "u" with one, which is created and deleted."""

    def __init__(
        self, *, caches_requests: bool = True, interceptor: Interceptor | None = None
    ) -> None:
        super().__init__(durability="os")
        self.create_topic("t", 2)
        self.transport = Transport()
        self._joined: set[str] = set()
        self.connection = new_connection(
            *(self.transport, self.node, self.callbacks.append),
            quotas=self.node.security.quotas,
            cache=RequestCache() if caches_requests else None,
            interceptor=interceptor,
        )

    def receive(self, frames: list[bytes]) -> None:
        self.connection.data_received(b"".join(frames))

    def create_or_delete_u(self) -> None:
        found = self.topics.get("u")
        if found is None:
            self.topics.create("u", 1, {})
        else:
            self.topics.delete(found)

    def join_once(self) -> None:
        if "g" not in self._joined:
            self._joined.add("g")
            self.join("g")

    def _offsets_partition(self, index: int) -> Any:
        return self.topics.ensure_coordinator_topic(OFFSETS_TOPIC).partition(index)

    @property
    def stored(self) -> list[Any]:
        """Return the end offset, log bytes and offset table of each offsets partition."""
        stored = []
        for index in range(OFFSETS_PARTITIONS):
            log = self._offsets_partition(index).log
            context = self.node.coordinators.contexts.get(index)
            table = context and {g: list(context.offsets.records(g)) for g in GROUPS}
            stored.append((log.end_offset, b"".join(batch for _, batch in log.batches()), table))
        return stored


GROUPS = ["", "g", "größer"]
SMALL: dict[str, st.SearchStrategy[Any]] = {
    "group_id": st.sampled_from(GROUPS),
    "name": st.sampled_from(["t", "u", "nowhere"]),
    "topic_id": st.sampled_from([None, *(UUID(int=n + (NOW_MS << 64)) for n in range(1, 4))]),
    "generation_id": st.sampled_from([-1, 0, 1]),
    "generation_id_or_member_epoch": st.sampled_from([-1, 1]),
    "member_id": st.sampled_from(["", "tester-id", "stranger"]),
    "partition_index": st.integers(-1, 2),
    "partition_indexes": st.lists(st.integers(-1, 2), max_size=3).map(tuple),
}


@cache
def any_message(key: int, version: int) -> st.SearchStrategy[Any]:
    return messages(getattr(request_module(key, version), f"{BY_KEY[key].name}Request"))


@st.composite
def requests(draw: Callable[[Any], Any]) -> tuple[int, int, Any]:
    """Draw (key, version, message) that name groups and topics of the brokers."""
    key, version = draw(st.sampled_from(CACHED))

    def with_known_names(message: Any) -> Any:
        changes = {}
        for field in dataclasses.fields(message):
            value = getattr(message, field.name)
            if field.name in SMALL:
                value = draw(SMALL[field.name])
            elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
                value = tuple(map(with_known_names, value))
            changes[field.name] = value
        return dataclasses.replace(message, **changes)

    return key, version, with_known_names(draw(any_message(key, version)))


def with_offsets(message: Any, offsets: Callable[[], int]) -> Any:
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        if field.name == "committed_offset":
            changes[field.name] = offsets()
        elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            changes[field.name] = tuple(with_offsets(item, offsets) for item in value)
    return dataclasses.replace(message, **changes)


def frame(message: Any, correlation_id: int) -> bytes:
    return encode_frame(message, correlation_id=correlation_id, client_id="me")


@st.composite
def histories(draw: Callable[[Any], Any]) -> list[list[bytes] | str]:
    """Draw frames received together. Between them, "t" changes topics and "j" adds a member."""
    known = draw(st.lists(requests(), min_size=1, max_size=3))
    numbers = st.integers(-(2**63), 2**63 - 1)

    def again() -> bytes:
        _, _, message = draw(st.sampled_from(known))
        changed = with_offsets(message, lambda: draw(numbers))
        return frame(changed, draw(st.integers(0, 2**31 - 1)))

    history: list[list[bytes] | str] = []
    for what in draw(st.lists(st.sampled_from("fffftj"), min_size=3, max_size=8)):
        history.append(what if what != "f" else [again() for _ in range(draw(st.integers(1, 3)))])
    return history


@settings(max_examples=40)
@given(histories())
async def test_the_request_cache_changes_neither_responses_nor_stored_offsets(
    history: list[list[bytes] | str],
) -> None:
    cached, uncached = CachingBroker(), CachingBroker(caches_requests=False)
    for step in history:
        for broker in (cached, uncached):
            if step == "t":
                broker.create_or_delete_u()
            elif step == "j":
                broker.join_once()
            else:
                broker.receive(list(step))
            if step != "t":  # requests before and after such a step share a flush
                broker.run_loop()
    for broker in (cached, uncached):
        broker.run_loop()
    assert cached.transport.sent == uncached.transport.sent
    assert not cached.transport.is_closed
    assert cached.stored == uncached.stored


@given(requests().filter(lambda request: request[0] == 8), st.integers(-(2**63), 2**63 - 1))
def test_the_finder_locates_the_committed_offsets(
    request_: tuple[int, int, Any], number: int
) -> None:
    key, version, message = request_
    data = frame(with_offsets(message, lambda: number), 7)
    body = decode_request_header(data, 4, len(data)).body
    places = request_field_locator(key, version, "committed_offset")(data, body, len(data))
    found = [(struct.unpack_from(f">{letter}", data, place)[0], letter) for place, letter in places]
    assert found == [(number, "q")] * sum(len(topic.partitions) for topic in message.topics)


def commit_of(offset: int, correlation_id: int, metadata: str = "", group_id: str = "g") -> bytes:
    partition = {"committed_offset": offset, "committed_metadata": metadata}
    values = {"group_id": group_id, "topics": [{"name": "t", "partitions": [partition]}]}
    return frame(request_of("OffsetCommit", 2, values), correlation_id)


def watched(broker: CachingBroker, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the number of commits in each command that the coordinators receive from now on."""
    counts: list[int] = []
    submit = broker.node.coordinators.submit

    def counting(command: Any, respond: Any, context: Any) -> int:
        counts.append(sum(map(len, command.offsets)))
        return submit(command, respond, context)

    monkeypatch.setattr(broker.node.coordinators, "submit", counting)
    return counts


@pytest.mark.interpreted
async def test_pipelined_commits_become_few_commands_and_all_get_responses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = CachingBroker()
    counts = watched(broker, monkeypatch)
    count = 2 * PIPELINED_MAX + 4
    broker.receive([commit_of(offset, offset) for offset in range(count)])
    broker.run_loop()
    assert counts == [1, PIPELINED_MAX, PIPELINED_MAX, 3]
    correlation_ids = struct.iter_unpack(">4xi17x", broker.transport.sent)
    assert [i for (i,) in correlation_ids] == list(range(count))
    stored = [table for _, _, table in broker.stored if table and table["g"]]
    assert [decode_commit_value(record.value).offset for record in stored[0]["g"]] == [count - 1]


async def test_the_request_cache_of_a_connection_is_bounded() -> None:
    broker = CachingBroker()
    cache = broker.connection._cache
    assert cache is not None
    for size in range(200):
        broker.receive([commit_of(1, size, "m" * size * 10)])
        assert sum(len(known[0]) for known in cache._entries) <= CACHE_BYTES_MAX
    assert 0 < len(cache._entries) < 200
    half = "x" * (CACHE_BYTES_MAX // 2 - 1)
    broker.receive([commit_of(1, 1, half, half)])
    assert not cache._entries


def test_changed_acls_clear_the_cache() -> None:
    acls = Acls()
    cache = RequestCache(acls)
    buffer = frame(request_of("Heartbeat", 4, {"group_id": "g"}), 1)
    start, end = 4, len(buffer)
    route = Routes().find(12, 4)
    entry = CachedRequest(route, None, None, object())
    body = decode_request_header(buffer, start, end)[-1]
    everyone = Acl(
        *(AclResourceType.GROUP, "g", PatternType.LITERAL, "User:*", "*"),
        *(AclOperation.READ, AclPermission.ALLOW),
    )
    for change in (lambda: acls.add(everyone), lambda: acls.remove(everyone), acls.clear):
        cache.put(entry, buffer, start, body, end)
        hit = cache.get([(buffer, start, end)], 0)
        assert hit[0] is entry
        change()
        assert cache.get([(buffer, start, end)], 0) is None


@pytest.mark.parametrize(
    ("metadata", "is_kept"), [("short", True), ("x" * KEPT_RESPONSE_BYTES_MAX, False)]
)
async def test_only_short_responses_are_kept(metadata: str, is_kept: bool) -> None:
    """A few bytes can request all offsets of a group."""
    broker = CachingBroker()
    broker.receive([commit_of(1, 1, metadata)])
    broker.run_loop()
    fetch_all = request_of("OffsetFetch", 5, {"group_id": "g", "topics": None})
    for correlation_id in (2, 3):
        broker.transport.written.clear()
        broker.receive([frame(fetch_all, correlation_id)])
        assert metadata.encode() in broker.transport.sent
        assert broker.transport.sent[4:8] == correlation_id.to_bytes(4, "big")
    cache = broker.connection._cache
    entry = list(cache._entries.values())[-1]
    fetch = entry.prepared
    assert (fetch._encoded is not None) == (fetch._results is not None) == is_kept


@pytest.mark.interpreted
async def test_small_commits_are_not_rejected_because_of_pipelined_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = CachingBroker()
    partition = broker._offsets_partition(broker.node.coordinators.partition_of("g"))
    topic = broker.topics.ensure_coordinator_topic(OFFSETS_TOPIC)
    broker.topics.configure(topic, {**topic.overrides, "max.message.bytes": "1000"})
    broker.receive([commit_of(0, 0, "x" * 100)])
    broker.run_loop()
    counts = watched(broker, monkeypatch)
    broker.receive([commit_of(n, n, "x" * 100) for n in range(1, 9)])
    broker.run_loop()
    assert len(counts) > 1
    assert sum(counts) == 8
    assert partition.log.end_offset == 9
    assert all(header.size <= 1000 for header, _ in partition.log.batches())


class Recorder:
    """An interceptor that records which requests the cache has recognized."""

    def __init__(self, *, decoded: bool) -> None:
        self.decoded = decoded
        self.recognized: list[bool] = []

    def needs_decoded(self, route: Route) -> bool:
        assert route.api.key == 8
        return self.decoded

    def handle(self, context: RequestContext, node: Any) -> None:
        assert len(context.correlation_ids) == 1
        self.recognized.append(context.prepared is not None)
        context.route.handle(context, node)


@pytest.mark.parametrize(
    ("decoded", "recognized"), [(True, [False] * 4), (False, [False, True, True, True])]
)
async def test_an_interceptor_chooses_whether_requests_are_decoded(
    decoded: bool, recognized: list[bool]
) -> None:
    recorder = Recorder(decoded=decoded)
    broker = CachingBroker(interceptor=recorder)
    broker.receive([commit_of(offset, offset) for offset in range(4)])
    broker.run_loop()
    assert recorder.recognized == recognized
    stored = [table for _, _, table in broker.stored if table and table["g"]]
    assert [decode_commit_value(record.value).offset for record in stored[0]["g"]] == [3]


async def test_an_interceptor_may_need_decoded_requests_only_at_times() -> None:
    recorder = Recorder(decoded=False)
    broker = CachingBroker(interceptor=recorder)
    for decoded in (False, True, False):
        recorder.decoded = decoded
        broker.receive([commit_of(offset, offset) for offset in range(3)])
        broker.run_loop()
    assert recorder.recognized == [False, True, True, *[False] * 3, *[True] * 3]
