"""OffsetCommit and OffsetFetch."""

from kohort.coordinator.commands import CommitEntry, OffsetCommit
from kohort.offsets.record_codec import encode_commit_value
from kohort.offsets.records import OffsetCommitRecord, OffsetTombstone
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness

E = ErrorCode


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


def test_offsets_are_stored_with_leader_epoch_and_metadata(harness: CoordinatorHarness) -> None:
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


def test_fetching_all_returns_topics_in_the_order_of_their_first_commit(
    harness: CoordinatorHarness,
) -> None:
    harness.commit(("b", 1, 10), ("a", 0, 20), ("b", 0, 30))
    assert [
        (topic, [(p.partition_index, p.committed_offset) for p in partitions])
        for topic, partitions in harness.fetch().topics
    ] == [("b", [(1, 10), (0, 30)]), ("a", [(0, 20)])]


def test_a_group_exists_after_its_last_offset_was_deleted(harness: CoordinatorHarness) -> None:
    harness.commit(("t", 0, 1))
    harness.append(OffsetTombstone(GROUP, "t", 0))
    assert harness.fetch().topics == ()
    assert harness.commit(member_id="m", generation=1) is E.unknown_member_id


def test_a_tombstone_deletes_one_offset(harness: CoordinatorHarness) -> None:
    harness.commit(("t", 0, 1), ("t", 1, 2))
    harness.append(OffsetTombstone(GROUP, "t", 0))
    assert [p.committed_offset for p in harness.fetch(("t", (0, 1))).topics[0][1]] == [-1, 2]
