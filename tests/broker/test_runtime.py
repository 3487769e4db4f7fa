"""From command to durable answer, on a disk that fails: nothing acknowledged is lost, nothing that
was refused appears, and the partition goes on with what is on disk."""

import errno
from typing import Any

import pytest
from kohort.broker import loader
from kohort.broker.context import CoordinatorState
from kohort.broker.loader import EAGER_RECORDS
from kohort.broker.runtime import RETRY_FAILED_MS
from kohort.coordinator.commands import (
    Heartbeat,
    JoinGroup,
    OffsetFetch,
)
from kohort.log.group_commit import Durability
from kohort.log.log import LogConfig
from kohort.protocol.errors import ErrorCode
from support.coordinator import offset_commit
from support.groups import World as AdminWorld
from support.runtime import World

DURABILITIES: list[Durability] = ["fsync", "os"]


def errors_of(answer: Any) -> tuple[ErrorCode, ...]:
    return tuple(answer.errors)


def join(member_id: str = "") -> JoinGroup:
    return JoinGroup(
        "g",
        member_id,
        None,
        "c",
        "/h",
        10_000,
        60_000,
        "consumer",
        (("range", b""),),
        False,
        False,
        "",
    )


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_commit_is_answered_once_it_is_durable_and_not_before(durability: Durability) -> None:
    world = World(durability)
    world.commit("c1", 5)
    assert "c1" not in world.answers
    world.turn()
    assert errors_of(world.answers["c1"]) == (ErrorCode.none,)
    assert world.partition.log.end_offset == 1


def test_a_reader_waits_for_what_a_crash_could_still_take_back() -> None:
    world = World("fsync")
    world.commit("c1", 5)
    world.ask("fetch", OffsetFetch("g", (("t", (0,)),), False, None, -1))
    assert "fetch" not in world.answers
    world.turn()
    assert world.answers["fetch"].topics[0][1][0].offset == 5


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_refused_commit_never_appears_and_the_acknowledged_one_stays(
    durability: Durability,
) -> None:
    world = World(durability)
    world.commit("kept", 5)
    world.turn()
    world.files.fail("append", error=errno.ENOSPC, written=20)
    world.commit("refused", 6)
    world.turn()
    # A storage error as a client of the group sees it: look for the coordinator again.
    assert errors_of(world.answers["refused"]) == (ErrorCode.not_coordinator,)
    assert world.fetched() == 5
    world.commit("after", 7)
    world.turn()
    assert errors_of(world.answers["after"]) == (ErrorCode.none,)
    reopened = World(durability, world.files)
    assert reopened.fetched() == 7


def test_a_failed_sync_is_never_taken_for_a_good_one_the_second_time() -> None:
    world = World("fsync")
    world.commit("kept", 5)
    world.turn()
    world.files.fail("sync")
    world.commit("refused", 6)
    world.turn()
    assert errors_of(world.answers["refused"]) == (ErrorCode.not_coordinator,)
    assert world.fetched() == 5
    world.files.crash()
    assert World("fsync", world.files).fetched() == 5


def test_commits_that_came_during_a_failing_sync_are_refused_with_it() -> None:
    world = World("fsync")
    world.commit("first", 1)
    world.turn()
    world.group_commit._sync_seconds = 1.0  # as on a slow disk: the sync goes to a thread
    world.commit("failing", 6)
    world.due.pop(0)()  # written, the sync is under way
    world.commit("meanwhile", 7)
    world.files.fail("sync")
    world.turn()
    for name in ("failing", "meanwhile"):
        assert errors_of(world.answers[name]) == (ErrorCode.not_coordinator,), name
    assert world.fetched() == 1


def test_a_commit_that_came_during_a_sync_is_answered_with_its_own_round() -> None:
    world = World("fsync")
    world.commit("first", 1)
    world.turn()
    world.group_commit._sync_seconds = 1.0  # as on a slow disk: the sync goes to a thread
    world.commit("under way", 2)
    world.due.pop(0)()
    world.commit("meanwhile", 3)
    world.due.pop(0)()  # the first sync ends
    assert "under way" in world.answers
    assert "meanwhile" not in world.answers
    assert world.partition.log.end_offset == 2
    world.turn()
    assert errors_of(world.answers["meanwhile"]) == (ErrorCode.none,)


def test_a_disk_that_stays_broken_answers_not_coordinator_until_it_is_mended() -> None:
    world = World("fsync")
    world.commit("kept", 5)
    world.turn()
    world.files.fail("sync", times=1_000)
    world.commit("refused", 6)
    world.turn()
    world.commit("still broken", 7)
    world.turn()
    assert errors_of(world.answers["still broken"]) == (ErrorCode.not_coordinator,)
    world.files.heal()
    world.timers.advance(RETRY_FAILED_MS)
    assert world.fetched() == 5


def test_a_log_that_cannot_be_opened_again_shows_nothing_that_was_refused() -> None:
    world = World("fsync")
    world.commit("kept", 5)
    world.turn()
    world.files.fail("sync")
    world.files.fail("open")
    world.commit("refused", 6)
    world.turn()
    world.commit("too early", 7)
    assert errors_of(world.answers["too early"]) == (ErrorCode.not_coordinator,)
    world.timers.advance(RETRY_FAILED_MS)
    assert world.fetched() == 5
    world.commit("after", 8)
    world.turn()
    assert world.fetched() == 8


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_log_whose_files_are_gone_is_not_taken_for_an_empty_one(durability: Durability) -> None:
    world = World(durability)
    world.commit("kept", 5)
    world.turn()
    world.files.contents.clear()
    world.files.fail("append")
    world.commit("refused", 6)
    world.turn()
    for _ in range(2):
        world.answers.clear()
        world.ask("fetch", OffsetFetch("g", None, False, None, -1))
        assert world.answers["fetch"].error is ErrorCode.not_coordinator
        world.timers.advance(RETRY_FAILED_MS)


def test_parked_joins_are_sent_away_when_their_partition_is_lost() -> None:
    world = World("fsync")
    world.ask("join", join())
    world.turn()
    world.files.fail("sync", times=3)
    world.commit("refused", 1, group_id="other")
    world.turn()
    assert world.answers["join"].error is ErrorCode.not_coordinator


def test_a_client_that_is_gone_leaves_no_ticket_and_its_join_goes_on() -> None:
    world = World("os")
    ticket = world.ask("join", join())
    world.turn()
    world.runtime.forget(ticket)
    world.timers.advance(0)
    world.turn()
    assert "join" not in world.answers
    assert not world.runtime._waiting
    assert world.runtime._contexts[0].coordinator.groups["g"].generation == 1


def test_a_join_is_answered_when_its_deadline_comes() -> None:
    world = World("os")
    world.ask("join", join())
    world.turn()
    assert "join" not in world.answers
    world.timers.advance(0)
    world.turn()
    assert world.answers["join"].generation_id == 1


def test_a_large_log_is_loaded_in_slices_and_clients_are_told_to_come_back() -> None:
    before = World("os")
    commit = offset_commit("g", [("t", each, 1) for each in range(EAGER_RECORDS + 1)])
    before.ask("all", commit)
    before.turn()
    before.commit("one more", 9, group_id="h")
    before.turn()
    world = World("os", before.files)
    world.ask("early", OffsetFetch("h", (("t", (0,)),), False, None, -1))
    assert world.answers["early"].error is ErrorCode.coordinator_load_in_progress
    # Sessions survive the loading of their partition.
    world.ask("heartbeat", Heartbeat("h", 1, "m", None))
    assert world.answers["heartbeat"].error is ErrorCode.none
    world.turn()
    assert world.fetched("h") == 9


def test_loading_in_the_background_reads_what_nobody_asked_for() -> None:
    before = World("os")
    before.commit("c", 3)
    before.turn()
    world = World("os", before.files)
    world.runtime.load([0])
    world.turn()
    world.ask("fetch", OffsetFetch("g", None, False, None, -1))
    assert world.answers["fetch"].topics[0][0] == "t"


# --- records above max.message.bytes


def test_a_commit_that_is_too_large_is_refused_and_what_came_before_stays() -> None:
    world = World("fsync")
    world.commit("before", 5)
    offsets = [("t", each, 7) for each in range(270)]
    command = offset_commit("g", offsets, metadata="x" * 4_000)
    world.ask("large", command)
    world.turn()
    assert errors_of(world.answers["before"]) == (ErrorCode.none,)
    assert errors_of(world.answers["large"]) == (ErrorCode.unknown_server_error,) * 270
    assert world.partition.log.end_offset == 1
    world.commit("after", 6)
    world.turn()
    assert errors_of(world.answers["after"]) == (ErrorCode.none,)
    assert world.fetched() == 6


def test_tombstones_are_never_too_large() -> None:
    world = World("fsync")
    world.commit("c", 5)
    world.turn()
    world.partition.log.config = LogConfig(max_message_bytes=80)
    world.commit("refused", 6)
    world.topic_deleted()
    world.turn()
    assert errors_of(world.answers["refused"]) == (ErrorCode.unknown_server_error,)
    assert world.fetched() == -1


def test_what_somebody_asks_for_is_read_before_what_nobody_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = AdminWorld(durability="os")
    before.make("t", 1)
    of: dict[int, str] = {}
    for number in range(100):
        of.setdefault(before.groups.partition_of(f"g{number}"), f"g{number}")
    for group_id in of.values():
        for _ in range(20):
            before.commit(group_id, "t", 0)
            before.turn()
    monkeypatch.setattr(loader, "EAGER_RECORDS", 2)
    monkeypatch.setattr(loader, "STEP_RECORDS", 1)
    world = AdminWorld(files=before.files, durability="os")
    world.groups.load(sorted(of))
    read: list[int] = []
    asked: dict[int, ErrorCode] = {}
    last = max(of)
    while len(read) < len(of):
        if len(asked) < 2:
            fetch = OffsetFetch(of[last], (("t", (0,)),), False, None, -1)
            world.groups.submit(
                fetch, lambda at, result: asked.setdefault(at, result.error), len(asked)
            )
        world._turns.pop(0)()
        shards = world.groups._contexts
        read += [p for p in shards if shards[p].state is CoordinatorState.ACTIVE and p not in read]
    assert asked[0] is ErrorCode.coordinator_load_in_progress
    assert read[0] == last
    assert read[1:] == sorted(set(of) - {last})
