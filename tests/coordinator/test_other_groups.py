"""Groups of types that only Kafka coordinates, and open transactions: expiration, deletion and
listing. Their responses are compared with Kafka's responses in tests/kafka_folder."""

import pytest
from kohort.coordinator.outcome import EventType
from kohort.offsets.record_codec import decode_record
from kohort.offsets.records import (
    GroupTombstone,
    OffsetsRecord,
    OffsetTombstone,
    OtherGroupRecord,
    TransactionEnd,
    UnknownRecord,
)
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness, join_group
from support.coordinator import pending_offset as pending

E = ErrorCode
RETENTION_MS = 60_000
# Record types in the order in which Kafka writes them when the group is created.
SHARE, STREAMS = (10, 11, 15, 13, 12, 14), (19, 23, 17, 21, 20, 22)
GROUP_RECORDS = {11, 12, 15, 17, 20, 23}  # the keys of the others contain a member id


def text(string: str) -> bytes:
    return len(string).to_bytes(2, "big") + string.encode()


def key_of(kind: int) -> bytes:
    return kind.to_bytes(2, "big") + text(GROUP) + (b"" if kind in GROUP_RECORDS else text("m1"))


def record_of(kind: int, value: bytes | None) -> OffsetsRecord:
    return decode_record(key_of(kind), value)


@pytest.fixture
def harness() -> CoordinatorHarness:
    return CoordinatorHarness(
        group_initial_rebalance_delay_ms=0,
        offsets_retention_ms=RETENTION_MS,
        check_interval_ms=3_600_000,
    )


def load(harness: CoordinatorHarness, *kinds: int) -> None:
    for kind in kinds:
        harness.coordinator.apply(record_of(kind, b"\0\0"))


def types(harness: CoordinatorHarness, *types_filter: str) -> dict[str, str]:
    return {each.group_id: each.group_type for each in harness.list_groups(types=types_filter)}


def tombstones_of(harness: CoordinatorHarness) -> list[int]:
    return [
        record.record_type
        for record in harness.log
        if isinstance(record, OtherGroupRecord) and record.value is None
    ]


@pytest.mark.parametrize(
    ("kinds", "tombstones"),
    [
        (SHARE, [15, 14, 13, 12, 10, 11]),
        (STREAMS, [23, 22, 21, 20, 19, 17]),
    ],
)
def test_deleting_a_group_writes_tombstones_for_all_its_records(
    harness: CoordinatorHarness, kinds: tuple[int, ...], tombstones: list[int]
) -> None:
    load(harness, *kinds)
    assert harness.delete() is E.none
    assert tombstones_of(harness) == tombstones
    assert types(harness) == {}
    assert harness.delete() is E.group_id_not_found


def test_a_group_that_kafka_deleted_is_not_listed(harness: CoordinatorHarness) -> None:
    load(harness, *STREAMS)
    for kind in STREAMS:
        harness.coordinator.apply(record_of(kind, None))
    assert types(harness) == {}


def test_a_join_converts_the_group_to_classic_and_keeps_its_offsets(
    harness: CoordinatorHarness,
) -> None:
    load(harness, *STREAMS)
    harness.commit(("t", 0, 42))
    assert types(harness) == {GROUP: "streams"}
    harness.stable_group(None)
    assert tombstones_of(harness) == [23, 22, 21, 20, 19, 17]
    (event,) = harness.events_of(EventType.GROUP_CONVERTED)
    assert event.detail == {"type": "classic"}
    harness.restart()
    assert types(harness) == {GROUP: "classic"}
    assert harness.fetch(("t", (0,))).topics[0][1][0].committed_offset == 42


def test_a_rejected_join_does_not_convert_the_group(harness: CoordinatorHarness) -> None:
    load(harness, *STREAMS)
    ticket = harness.join("unknown")
    assert harness.results[ticket].error_code is E.unknown_member_id
    assert types(harness) == {GROUP: "streams"}
    assert tombstones_of(harness) == []


def test_a_join_whose_records_are_too_large_does_not_convert_the_group(
    harness: CoordinatorHarness,
) -> None:
    load(harness, *STREAMS)
    assert harness.fail_append(join_group(version=3)).error_code is E.unknown_server_error
    assert types(harness) == {GROUP: "streams"}
    assert not harness.coordinator.groups


def test_groups_are_listed_by_type(harness: CoordinatorHarness) -> None:
    load(harness, *STREAMS)
    harness.commit(("t", 0, 1), group_id="plain")
    assert types(harness) == {GROUP: "streams", "plain": "classic"}
    assert types(harness, "Streams") == {GROUP: "streams"}
    assert types(harness, "classic") == {"plain": "classic"}
    assert types(harness, "share") == {}


@pytest.mark.parametrize(("kinds", "expires"), [(STREAMS, True), (SHARE, False)])
def test_groups_without_offsets_expire_except_share_groups(
    harness: CoordinatorHarness, kinds: tuple[int, ...], expires: bool
) -> None:
    load(harness, *kinds)
    harness.advance_and_sweep(1)
    assert (types(harness) == {}) is expires
    assert bool(tombstones_of(harness)) is expires


def test_a_group_expires_with_its_last_offset(harness: CoordinatorHarness) -> None:
    load(harness, *STREAMS)
    harness.commit(("t", 0, 42))
    harness.advance_and_sweep(RETENTION_MS - 1)
    assert types(harness) == {GROUP: "streams"}
    harness.advance_and_sweep(1)
    assert types(harness) == {}


def test_nothing_of_a_group_expires_while_a_transaction_is_open(
    harness: CoordinatorHarness,
) -> None:
    harness.commit(("t", 0, 42))
    harness.coordinator.apply(pending(GROUP, 1))
    harness.advance_and_sweep(RETENTION_MS)
    assert types(harness) == {GROUP: "classic"}
    harness.coordinator.apply(TransactionEnd(7, 0, 0, is_commit=False))
    harness.advance_and_sweep(1)
    assert types(harness) == {}


def test_deleting_includes_pending_transactional_offsets(harness: CoordinatorHarness) -> None:
    harness.coordinator.apply(pending(GROUP, 1))
    assert types(harness) == {GROUP: "classic"}
    assert harness.delete_offsets(("t", (0, 1))) == (E.none,)
    assert OffsetTombstone(GROUP, "t", 1) in harness.log
    harness.coordinator.apply(pending(GROUP, 2))
    written = len(harness.log)
    assert harness.delete() is E.none
    tombstones: list[OffsetsRecord] = [OffsetTombstone(GROUP, "t", 2), GroupTombstone(GROUP)]
    assert harness.log[written:] == tombstones
    assert not harness.coordinator.pending_offsets


def test_other_groups_and_open_transactions_are_logged_when_loaded(
    harness: CoordinatorHarness,
) -> None:
    load(harness, *SHARE)
    harness.coordinator.apply(pending("other", 1))
    harness._apply_outcome(harness.coordinator.loaded(harness.now))
    assert f"Loaded share group {GROUP} without members." in harness.log_lines
    assert harness.log_lines[-1].startswith(
        "Group other has an open transaction: the offset of t-1 is"
    )


def test_each_unknown_record_type_is_logged_once(harness: CoordinatorHarness) -> None:
    for type_ in (99, 99, 98):
        harness.coordinator.apply(UnknownRecord(type_, b"key", b"\0\0"))
    harness._apply_outcome(harness.coordinator.loaded(harness.now))
    assert harness.log_lines == [
        f"Ignoring records of unknown type {type_}; they are kept." for type_ in (98, 99)
    ]
    assert types(harness) == {}
