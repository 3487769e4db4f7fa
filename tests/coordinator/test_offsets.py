"""OffsetCommit and OffsetFetch: who may commit, what is written, what is found."""

import pytest
from kohort.coordinator.commands import CommitEntry, FetchedOffset, OffsetCommit, OffsetFetch
from kohort.offsets.record_codec import encode_commit_value
from kohort.offsets.records import OffsetCommitRecord, OffsetTombstone
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, World

E = ErrorCode


def test_a_commit_without_a_generation_needs_no_group(w: World) -> None:
    assert w.commit(("t", 0, 42)) is E.none
    assert w.log == [OffsetCommitRecord(GROUP, "t", 0, encode_commit_value(42, -1, "", w.now))]


@pytest.mark.parametrize("error", [E.illegal_generation, E.group_id_not_found])
def test_a_commit_for_a_generation_of_an_unknown_group_hears_what_its_version_says(
    w: World, error: ErrorCode
) -> None:
    assert w.commit(member_id="m", generation=0, unknown_group=error) is error
    assert not w.log


@pytest.mark.parametrize("had_members", [True, False])
def test_nobody_belongs_to_a_generation_of_an_empty_group(w: World, had_members: bool) -> None:
    if had_members:
        w.leave(*w.stable(None))
    else:
        w.commit()
    assert w.commit(member_id="m", generation=0) is E.unknown_member_id


def test_in_an_empty_group_a_commit_without_a_generation_may_name_anybody(w: World) -> None:
    w.leave(*w.stable(None))
    assert w.commit(member_id="stranger", instance="i") is E.none


def test_the_group_with_the_empty_id_is_one_like_others(w: World) -> None:
    assert w.commit(("t", 0, 5), group_id="") is E.none
    assert w.fetch(("t", (0,)), group_id="").topics[0][1][0].offset == 5


def test_one_partition_twice_makes_two_records_and_the_last_counts(w: World) -> None:
    assert w.commit(("t", 0, 1), ("t", 0, 2)) == (E.none, E.none)
    assert len(w.log) == 2
    assert w.fetch(("t", (0,))).topics[0][1][0].offset == 2


def test_offsets_are_not_looked_at(w: World) -> None:
    assert w.commit(("t", 0, -7)) is E.none
    assert w.fetch(("t", (0,))).topics[0][1][0].offset == -7


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
def test_metadata_is_measured_in_utf16_units(w: World, metadata: str, error: ErrorCode) -> None:
    assert w.commit(metadata=metadata) is error


def test_too_much_metadata_refuses_its_partition_only(w: World) -> None:
    entries = [
        CommitEntry("t", 0, -1, "x" * 5_000),
        CommitEntry("t", 1, -1, "fine"),
        CommitEntry("t", 2, -1, None),
    ]
    offsets = [(1,)] * 3
    done = w.tell(OffsetCommit(GROUP, -1, "", None, entries, offsets, None, E.illegal_generation))
    assert done.errors == (E.offset_metadata_too_large, E.none, E.none)
    found = w.fetch(("t", (0, 1, 2))).topics[0][1]
    assert [(p.offset, p.metadata) for p in found] == [(-1, ""), (1, "fine"), (1, "")]


def test_a_group_exists_once_its_commit_was_accepted_even_if_nothing_of_it_was_kept(
    w: World,
) -> None:
    w.commit(metadata="x" * 5_000)
    assert w.commit(member_id="m", generation=1) is E.unknown_member_id


def test_a_long_request_is_answered_for_each_entry(w: World) -> None:
    entries = [("t", partition, 1) for partition in range(1_000)]
    assert w.commit(*entries) == (E.none,) * 1_000
    refused = w.commit(*entries, member_id="m", generation=3)
    assert refused == (E.unknown_member_id,) * 1_000


def test_what_is_committed_is_stored_with_its_epoch_and_metadata(w: World) -> None:
    entries = [CommitEntry("t", 0, 7, "m"), CommitEntry("t", 1, -1, None)]
    offsets = [(1, 2), (3, 4)]
    w.tell(OffsetCommit(GROUP, -1, "", None, entries, offsets, -1, E.illegal_generation))
    assert w.log == [
        OffsetCommitRecord(
            GROUP,
            "t",
            0,
            encode_commit_value(2, 7, "m", w.now),
            (encode_commit_value(1, 7, "m", w.now),),
        ),
        OffsetCommitRecord(
            GROUP,
            "t",
            1,
            encode_commit_value(4, -1, "", w.now),
            (encode_commit_value(3, -1, "", w.now),),
        ),
    ]


def test_a_commit_may_bring_its_own_retention(w: World) -> None:
    w.commit(("t", 0, 1), retention_ms=600_000)
    assert w.log == [
        OffsetCommitRecord(GROUP, "t", 0, encode_commit_value(1, -1, "", w.now, w.now + 600_000))
    ]


def test_what_was_never_committed_is_no_error(w: World) -> None:
    nothing = FetchedOffset(3, -1, -1, "", E.none)
    assert w.fetch(("t", (3,))).topics == (("t", (nothing,)),)
    w.commit(("t", 0, 1))
    assert w.fetch(("t", (3,)), ("u", ())).topics == (("t", (nothing,)), ("u", ()))
    assert w.fetch().error is E.none


def test_all_topics_are_those_with_commits_in_the_order_of_their_first(w: World) -> None:
    w.commit(("b", 1, 10), ("a", 0, 20), ("b", 0, 30))
    assert [
        (topic, [(p.partition, p.offset) for p in partitions])
        for topic, partitions in w.fetch().topics
    ] == [("b", [(1, 10), (0, 30)]), ("a", [(0, 20)])]


def test_members_are_not_asked_who_they_are_when_they_fetch(w: World) -> None:
    w.stable(None)
    answer = w.tell(OffsetFetch(GROUP, (), True, "stranger", 17))
    assert answer.error is E.none


def test_a_group_outlives_its_last_offset(w: World) -> None:
    w.commit(("t", 0, 1))
    forgotten = OffsetTombstone(GROUP, "t", 0)
    w.log.append(forgotten)
    w.coordinator.apply(forgotten)
    w.check()
    assert w.fetch().topics == ()
    assert w.commit(member_id="m", generation=1) is E.unknown_member_id


def test_forgetting_one_offset_leaves_the_others(w: World) -> None:
    w.commit(("t", 0, 1), ("t", 1, 2))
    forgotten = OffsetTombstone(GROUP, "t", 0)
    w.log.append(forgotten)
    w.coordinator.apply(forgotten)
    w.check()
    assert [p.offset for p in w.fetch(("t", (0, 1))).topics[0][1]] == [-1, 2]
