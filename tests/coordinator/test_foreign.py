"""Groups of kinds that only Kafka has, and open transactions: what expires, what goes, what stays.
What each request is answered is compared with Kafka's own answers in tests/kafka_folder."""

import pytest
from kohort.offsets.record_codec import decode_record
from kohort.offsets.records import (
    GroupTombstone,
    OffsetsRecord,
    OffsetTombstone,
    OtherGroupRecord,
    PendingTransactionalOffset,
    TransactionalOffsetEnd,
    UnknownRecord,
)
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, World

E = ErrorCode
RETENTION_MS = 60_000
# In the order in which Kafka writes them when the group comes to be.
MODERN, SHARE, STREAMS = (5, 16, 3, 7, 6, 8), (10, 11, 15, 13, 12, 14), (19, 23, 17, 21, 20, 22)
OF_GROUPS = {3, 6, 11, 12, 15, 17, 20, 23}  # the others' keys name a member, or a pattern


def text(string: str) -> bytes:
    return len(string).to_bytes(2, "big") + string.encode()


def key_of(kind: int) -> bytes:
    return kind.to_bytes(2, "big") + text(GROUP) + (b"" if kind in OF_GROUPS else text("m1"))


def record_of(kind: int, value: bytes | None) -> OffsetsRecord:
    return decode_record(key_of(kind), value)


@pytest.fixture
def w() -> World:
    return World(
        group_initial_rebalance_delay_ms=0,
        offsets_retention_ms=RETENTION_MS,
        check_interval_ms=3_600_000,
    )


def load(w: World, *kinds: int) -> None:
    for kind in kinds:
        w.coordinator.apply(record_of(kind, b"\0\0"))


def sweep(w: World, ms: int) -> None:
    w.sweep_ms = w.now + ms
    w.sleep(ms)


def types(w: World, *wanted: str) -> dict[str, str]:
    return {each.group_id: each.type for each in w.list_groups(types=wanted)}


def kinds_forgotten(w: World) -> list[int]:
    return [
        record.record_type
        for record in w.log
        if isinstance(record, OtherGroupRecord) and record.value is None
    ]


@pytest.mark.parametrize(
    ("kinds", "tombstones"),
    [
        (MODERN, [16, 8, 7, 6, 5, 3]),
        (SHARE, [15, 14, 13, 12, 10, 11]),
        (STREAMS, [23, 22, 21, 20, 19, 17]),
    ],
)
def test_a_deleted_group_leaves_nothing_of_its_records(
    w: World, kinds: tuple[int, ...], tombstones: list[int]
) -> None:
    load(w, *kinds)
    assert w.delete() is E.none
    assert kinds_forgotten(w) == tombstones
    assert types(w) == {}
    assert w.delete() is E.group_id_not_found


def test_a_group_that_kafka_had_deleted_is_not_there(w: World) -> None:
    load(w, *MODERN)
    for kind in MODERN:
        w.coordinator.apply(record_of(kind, None))
    assert types(w) == {}


def test_a_member_makes_a_classic_group_of_it_that_has_its_offsets(w: World) -> None:
    load(w, *MODERN)
    w.commit(("t", 0, 42))
    assert types(w) == {GROUP: "consumer"}
    w.stable(None)
    assert kinds_forgotten(w) == [16, 8, 7, 6, 5, 3]
    w.restart()
    assert types(w) == {GROUP: "classic"}
    assert w.fetch(("t", (0,))).topics[0][1][0].offset == 42


def test_a_refused_join_leaves_it_as_it_is(w: World) -> None:
    load(w, *MODERN)
    refused = w.join("nobody")
    assert w.answers[refused].error is E.unknown_member_id
    assert types(w) == {GROUP: "consumer"}
    assert kinds_forgotten(w) == []


def test_types_are_listed_that_are_asked_for(w: World) -> None:
    load(w, *STREAMS)
    w.commit(("t", 0, 1), group_id="plain")
    assert types(w) == {GROUP: "streams", "plain": "classic"}
    assert types(w, "Streams") == {GROUP: "streams"}
    assert types(w, "classic") == {"plain": "classic"}
    assert types(w, "share") == {}


@pytest.mark.parametrize(("kinds", "expires"), [(MODERN, True), (STREAMS, True), (SHARE, False)])
def test_groups_without_offsets_expire_but_for_share_groups(
    w: World, kinds: tuple[int, ...], expires: bool
) -> None:
    load(w, *kinds)
    sweep(w, 1)
    assert (types(w) == {}) is expires
    assert bool(kinds_forgotten(w)) is expires


def test_a_group_goes_with_its_last_offset(w: World) -> None:
    load(w, *MODERN)
    w.commit(("t", 0, 42))
    sweep(w, RETENTION_MS - 1)
    assert types(w) == {GROUP: "consumer"}
    sweep(w, 1)
    assert types(w) == {}


def test_nothing_of_a_group_expires_while_a_transaction_is_open(w: World) -> None:
    w.commit(("t", 0, 42))
    w.coordinator.apply(PendingTransactionalOffset(GROUP, "t", 1))
    sweep(w, RETENTION_MS)
    assert types(w) == {GROUP: "classic"}
    w.coordinator.apply(TransactionalOffsetEnd(GROUP, "t", 1))
    sweep(w, 1)
    assert types(w) == {}


def test_deleting_takes_what_is_pending_with_it(w: World) -> None:
    w.coordinator.apply(PendingTransactionalOffset(GROUP, "t", 1))
    assert types(w) == {GROUP: "classic"}
    assert w.delete_offsets(("t", (0, 1))) == (E.none,)
    assert OffsetTombstone(GROUP, "t", 1) in w.log
    w.coordinator.apply(PendingTransactionalOffset(GROUP, "t", 2))
    written = len(w.log)
    assert w.delete() is E.none
    gone: list[OffsetsRecord] = [OffsetTombstone(GROUP, "t", 2), GroupTombstone(GROUP)]
    assert w.log[written:] == gone
    assert not w.coordinator.other_groups.pending_offsets


def test_other_groups_and_open_transactions_are_logged_when_loaded(w: World) -> None:
    load(w, *SHARE)
    w.coordinator.apply(PendingTransactionalOffset("other", "t", 1))
    w._carry_out(w.coordinator.loaded(w.now))
    assert f"Loaded share group {GROUP} without members." in w.lines
    assert w.lines[-1].startswith("Group other has an open transaction: its offset of t-1 is")


def test_each_unknown_record_type_is_logged_once(w: World) -> None:
    for type_ in (99, 99, 98):
        w.coordinator.apply(UnknownRecord(type_, b"key", b"\0\0"))
    w._carry_out(w.coordinator.loaded(w.now))
    assert w.lines == [
        f"Ignoring records of unknown type {type_}; they stay in the log." for type_ in (98, 99)
    ]
    assert types(w) == {}
