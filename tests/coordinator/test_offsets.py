"""OffsetCommit and OffsetFetch."""

import pytest
from kohort.coordinator.commands import CommitEntry, FetchedOffset, OffsetCommit, OffsetFetch
from kohort.offsets.record_codec import encode_commit_value
from kohort.offsets.records import OffsetCommitRecord, OffsetTombstone
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness

E = ErrorCode


def test_a_commit_without_a_generation_needs_no_group(harness: CoordinatorHarness) -> None:
    assert harness.commit(("t", 0, 42)) is E.none
    assert harness.log == [
        OffsetCommitRecord(GROUP, "t", 0, encode_commit_value(42, -1, "", harness.now))
    ]


@pytest.mark.parametrize(
    ("is_new", "error"), [(False, E.illegal_generation), (True, E.group_id_not_found)]
)
def test_a_commit_with_a_generation_to_an_unknown_group_is_rejected(
    harness: CoordinatorHarness, is_new: bool, error: ErrorCode
) -> None:
    commit = harness.commit(member_id="m", generation=0, supports_member_epochs=is_new)
    assert commit is error
    assert not harness.log


@pytest.mark.parametrize("had_members", [True, False])
def test_a_commit_with_a_generation_to_an_empty_group_is_rejected(
    harness: CoordinatorHarness, had_members: bool
) -> None:
    if had_members:
        harness.leave(*harness.stable_group(None))
    else:
        harness.commit()
    assert harness.commit(member_id="m", generation=0) is E.unknown_member_id


def test_a_commit_without_generation_to_an_empty_group_is_accepted(
    harness: CoordinatorHarness,
) -> None:
    harness.leave(*harness.stable_group(None))
    assert harness.commit(member_id="unknown", instance="i") is E.none


def test_the_empty_group_id_is_valid_for_offsets(harness: CoordinatorHarness) -> None:
    assert harness.commit(("t", 0, 5), group_id="") is E.none
    assert harness.fetch(("t", (0,)), group_id="").topics[0][1][0].committed_offset == 5


def test_the_last_of_two_offsets_for_a_partition_wins(
    harness: CoordinatorHarness,
) -> None:
    assert harness.commit(("t", 0, 1), ("t", 0, 2)) == (E.none, E.none)
    assert len(harness.log) == 2
    assert harness.fetch(("t", (0,))).topics[0][1][0].committed_offset == 2


def test_negative_offsets_are_accepted(harness: CoordinatorHarness) -> None:
    assert harness.commit(("t", 0, -7)) is E.none
    assert harness.fetch(("t", (0,))).topics[0][1][0].committed_offset == -7


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ("x" * 4_096, E.none),
        ("x" * 4_097, E.offset_metadata_too_large),
        ("ü" * 4_096, E.none),
        ("😀" * 2_048, E.none),
        ("😀" * 2_048 + "x", E.offset_metadata_too_large),
    ],
    ids=["4096", "4097", "4096 of two bytes", "2048 of two units", "one unit more"],
)
def test_metadata_is_measured_in_utf16_code_units(
    harness: CoordinatorHarness, metadata: str, error: ErrorCode
) -> None:
    assert harness.commit(metadata=metadata) is error


def test_too_large_metadata_rejects_only_its_partition(harness: CoordinatorHarness) -> None:
    entries = [
        CommitEntry("t", 0, -1, "x" * 5_000),
        CommitEntry("t", 1, -1, "fine"),
        CommitEntry("t", 2, -1, None),
    ]
    offsets = [(1,)] * 3
    done = harness.call(
        OffsetCommit(GROUP, -1, "", None, entries, offsets, None, E.illegal_generation)
    )
    assert done.errors == (E.offset_metadata_too_large, E.none, E.none)
    found = harness.fetch(("t", (0, 1, 2))).topics[0][1]
    assert [(p.committed_offset, p.metadata) for p in found] == [(-1, ""), (1, "fine"), (1, "")]


def test_a_commit_with_only_rejected_partitions_creates_the_group(
    harness: CoordinatorHarness,
) -> None:
    harness.commit(metadata="x" * 5_000)
    assert harness.commit(member_id="m", generation=1) is E.unknown_member_id


def test_a_response_has_an_error_for_each_entry(harness: CoordinatorHarness) -> None:
    entries = [("t", partition, 1) for partition in range(1_000)]
    assert harness.commit(*entries) == (E.none,) * 1_000
    rejected = harness.commit(*entries, member_id="m", generation=3)
    assert rejected == (E.unknown_member_id,) * 1_000


def test_offsets_are_stored_with_leader_epoch_and_metadata(
    harness: CoordinatorHarness,
) -> None:
    entries = [CommitEntry("t", 0, 7, "m"), CommitEntry("t", 1, -1, None)]
    offsets = [(1, 2), (3, 4)]
    harness.call(OffsetCommit(GROUP, -1, "", None, entries, offsets, -1, E.illegal_generation))
    assert harness.log == [
        OffsetCommitRecord(
            GROUP,
            "t",
            0,
            encode_commit_value(2, 7, "m", harness.now),
            (encode_commit_value(1, 7, "m", harness.now),),
        ),
        OffsetCommitRecord(
            GROUP,
            "t",
            1,
            encode_commit_value(4, -1, "", harness.now),
            (encode_commit_value(3, -1, "", harness.now),),
        ),
    ]


def test_a_commit_with_a_retention_time_has_an_expire_timestamp(
    harness: CoordinatorHarness,
) -> None:
    harness.commit(("t", 0, 1), retention_ms=600_000)
    assert harness.log == [
        OffsetCommitRecord(
            GROUP, "t", 0, encode_commit_value(1, -1, "", harness.now, harness.now + 600_000)
        )
    ]


def test_fetching_an_uncommitted_offset_is_no_error(harness: CoordinatorHarness) -> None:
    uncommitted = FetchedOffset(3, -1, -1, "", E.none)
    assert harness.fetch(("t", (3,))).topics == (("t", (uncommitted,)),)
    harness.commit(("t", 0, 1))
    assert harness.fetch(("t", (3,)), ("u", ())).topics == (("t", (uncommitted,)), ("u", ()))
    assert harness.fetch().error_code is E.none


def test_fetching_all_returns_topics_in_the_order_of_their_first_commit(
    harness: CoordinatorHarness,
) -> None:
    harness.commit(("b", 1, 10), ("a", 0, 20), ("b", 0, 30))
    assert [
        (topic, [(p.partition_index, p.committed_offset) for p in partitions])
        for topic, partitions in harness.fetch().topics
    ] == [("b", [(1, 10), (0, 30)]), ("a", [(0, 20)])]


def test_a_fetch_does_not_validate_the_member(harness: CoordinatorHarness) -> None:
    harness.stable_group(None)
    answer = harness.call(OffsetFetch(GROUP, (), True, "unknown", 17))
    assert answer.error_code is E.none


def test_a_group_exists_after_its_last_offset_was_deleted(harness: CoordinatorHarness) -> None:
    harness.commit(("t", 0, 1))
    tombstone = OffsetTombstone(GROUP, "t", 0)
    harness.log.append(tombstone)
    harness.coordinator.apply(tombstone)
    harness.check()
    assert harness.fetch().topics == ()
    assert harness.commit(member_id="m", generation=1) is E.unknown_member_id


def test_a_tombstone_deletes_one_offset(harness: CoordinatorHarness) -> None:
    harness.commit(("t", 0, 1), ("t", 1, 2))
    tombstone = OffsetTombstone(GROUP, "t", 0)
    harness.log.append(tombstone)
    harness.coordinator.apply(tombstone)
    harness.check()
    assert [p.committed_offset for p in harness.fetch(("t", (0, 1))).topics[0][1]] == [-1, 2]
