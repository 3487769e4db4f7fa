"""Outcomes of the requests of members."""

import asyncio
from types import SimpleNamespace

import pytest
from kohort.check.cluster import Cluster
from kohort.check.history import Outcome
from kohort.check.members import ClassicMember
from kohort.check.recorder import History
from kohort.client_security import Security
from kohort.protocol.errors import ErrorCode
from support.tiny_histories import joined


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ErrorCode.none, "ok"),
        (ErrorCode.invalid_session_timeout, "fail"),
        (ErrorCode.group_authorization_failed, "fail"),
        (ErrorCode.topic_authorization_failed, "fail"),
        (ErrorCode.request_timed_out, "info"),
        (ErrorCode.unknown_server_error, "info"),
    ],
)
def test_an_error_after_which_nothing_has_happened_is_a_rejection(
    error: ErrorCode, outcome: Outcome
) -> None:
    async def respond() -> SimpleNamespace:
        return SimpleNamespace(error_code=error)

    history = History()
    member = ClassicMember(Cluster([], Security(), "t"), history, "m", "g", 100)
    operation = joined("m", 1)
    asyncio.run(member._record(operation, respond()))
    assert operation.outcome == outcome
