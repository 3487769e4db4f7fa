"""Commands to share and streams groups that a Kafka broker has left in the log."""

import pytest
from kohort.coordinator.commands import DescribeGroup, OffsetDelete, OffsetFetch, TxnOffsetCommit
from kohort.offsets.record_codec import decode_record
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness, offset_commit, pending_offset

E = ErrorCode
SHARE, STREAMS = 11, 17


@pytest.fixture(params=[SHARE, STREAMS], ids=["share", "streams"])
def record_type(harness: CoordinatorHarness, request: pytest.FixtureRequest) -> int:
    """Load a group and return the record type of its metadata."""
    key = request.param.to_bytes(2, "big") + len(GROUP).to_bytes(2, "big") + GROUP.encode()
    harness.coordinator.apply(decode_record(key, b"\0\0"))
    return int(request.param)


@pytest.mark.parametrize("member_id", ["", "m"])
def test_a_commit_without_an_epoch_is_accepted_except_by_share_groups(
    harness: CoordinatorHarness, record_type: int, member_id: str
) -> None:
    commit = offset_commit(GROUP, [("t", 0, 1)], member_id=member_id)
    expected = E.group_id_not_found if record_type == SHARE else E.none
    for command in (commit, TxnOffsetCommit(commit, 7, 0)):
        assert harness.call(command).errors == (expected,)


def test_a_commit_with_an_epoch_is_rejected(harness: CoordinatorHarness, record_type: int) -> None:
    commit = offset_commit(GROUP, [("t", 0, 1)], generation=1)
    expected = E.group_id_not_found if record_type == SHARE else E.unknown_member_id
    for command in (commit, TxnOffsetCommit(commit, 7, 0)):
        assert harness.call(command).errors == (expected,)


def test_a_fetch_of_a_member_is_rejected_except_by_share_groups(
    harness: CoordinatorHarness, record_type: int
) -> None:
    expected = E.none if record_type == SHARE else E.unknown_member_id
    assert harness.fetch().error_code is E.none
    assert harness.call(OffsetFetch(GROUP, None, False, "m", -1)).error_code is expected
    assert harness.call(OffsetFetch(GROUP, None, False, None, 3)).error_code is expected


def test_offsets_are_deleted_except_those_of_share_groups(
    harness: CoordinatorHarness, record_type: int
) -> None:
    expected = E.group_id_not_found if record_type == SHARE else E.none
    assert harness.call(OffsetDelete(GROUP, (("t", (0,)),))).error_code is expected


def test_a_classic_join_is_rejected_by_share_groups(
    harness: CoordinatorHarness, record_type: int
) -> None:
    joined = harness.results[harness.join()]
    is_share = record_type == SHARE
    assert joined.error_code is (
        E.inconsistent_group_protocol if is_share else E.member_id_required
    )


def test_a_group_of_another_type_is_not_described(
    harness: CoordinatorHarness, record_type: int
) -> None:
    assert harness.call(DescribeGroup(GROUP)).error_code is E.group_id_not_found


def test_an_offset_of_an_open_transaction_is_unstable(harness: CoordinatorHarness) -> None:
    harness.commit(("t", 0, 1), ("t", 1, 2))
    harness.coordinator.apply(pending_offset(GROUP, 1))
    topics = (("t", (0, 1)),)
    stable = harness.call(OffsetFetch(GROUP, topics, True, None, -1)).topics[0][1]
    assert [(each.committed_offset, each.error_code) for each in stable] == [
        (1, E.none),
        (-1, E.unstable_offset_commit),
    ]
    any_offset = harness.call(OffsetFetch(GROUP, topics, False, None, -1)).topics[0][1]
    assert [each.committed_offset for each in any_offset] == [1, 2]
