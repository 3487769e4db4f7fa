"""Results of commands that fail before or after the coordinator handled them."""

import pytest
from kohort.coordinator.commands import (
    Command,
    CommitResult,
    DeleteGroup,
    DeleteGroupResult,
    DeleteOffsetsResult,
    DescribeGroup,
    DescribeResult,
    FetchResult,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    LeavingMember,
    ListGroups,
    ListResult,
    OffsetDelete,
    OffsetFetch,
    Result,
    SyncGroup,
    SyncResult,
    error_result,
)
from kohort.protocol.errors import ErrorCode
from support.coordinator import offset_commit

E = ErrorCode
LOST = E.not_coordinator
COMMIT = offset_commit("g", [("t", 0, 1), ("t", 1, 1)], generation=1, member_id="m")


@pytest.mark.parametrize(
    ("command", "result"),
    [
        (
            JoinGroup("g", "m", None, "c", "/h", 1, 1, "consumer", (), True, True, None),
            JoinResult(LOST, -1, None, None, "", "", (), False),
        ),
        (SyncGroup("g", 1, "m", None, None, None, ()), SyncResult(LOST, None, None, b"")),
        (Heartbeat("g", 1, "m", None), HeartbeatResult(LOST)),
        (LeaveGroup("g", (LeavingMember("m", None, None),)), LeaveResult(LOST, ())),
        (
            COMMIT,
            CommitResult((LOST, LOST)),
        ),
        (OffsetFetch("g", (("t", (0,)),), False, None, -1), FetchResult(LOST, ())),
        (DescribeGroup("g"), DescribeResult(LOST, "", "", "", ())),
        (ListGroups.filtered((), ()), ListResult(LOST, ())),
        (DeleteGroup("g"), DeleteGroupResult(LOST)),
        (OffsetDelete("g", (("t", (0,)),)), DeleteOffsetsResult(LOST, ())),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_command_has_an_error_result(command: Command, result: Result) -> None:
    failed = error_result(command, LOST)
    assert failed == result
    assert type(failed) is type(result)


def test_heartbeats_succeed_while_the_log_is_loaded() -> None:
    loading = E.coordinator_load_in_progress
    assert error_result(Heartbeat("g", 1, "m", None), loading) == HeartbeatResult(E.none)
    assert error_result(LeaveGroup("g", ()), loading) == LeaveResult(loading, ())


@pytest.mark.parametrize(
    "command",
    [
        JoinGroup("", "m", None, "c", "/h", 1, 1, "consumer", (), True, True, None),
        SyncGroup("", 1, "m", None, None, None, ()),
        Heartbeat("", 1, "m", None),
        LeaveGroup("", (LeavingMember("m", None, None),)),
        OffsetDelete("", (("t", (0,)),)),
    ],
    ids=lambda command: type(command).__name__,
)
def test_the_empty_group_id_is_rejected_before_other_errors(command: Command) -> None:
    for error in (LOST, E.coordinator_load_in_progress):
        failed = error_result(command, error)
        assert failed.error_code is E.invalid_group_id  # type: ignore[union-attr]


def test_the_empty_group_id_is_valid_for_offsets_and_descriptions() -> None:
    assert error_result(OffsetFetch("", None, False, None, -1), LOST) == FetchResult(LOST, ())
    assert error_result(DescribeGroup(""), LOST) == DescribeResult(LOST, "", "", "", ())
    assert error_result(DeleteGroup(""), LOST) == DeleteGroupResult(LOST)
