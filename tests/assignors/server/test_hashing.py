"""The iteration order of Java's hash tables."""

from uuid import UUID

from kohort.assignors.ordering import string_hash
from kohort.assignors.server.hashing import (
    PartitionSet,
    TopicHashes,
    copied_set,
    group_spec_order,
    id_order,
    subscription_order,
)


def test_members_are_in_the_order_of_a_hash_map() -> None:
    members = [f"consumer{number}" for number in range(15)]
    order = [12, 11, 10, 9, 8, 7, 6, 14, 13, 5, 4, 3, 2, 1, 0]
    assert group_spec_order(members, 15) == [f"consumer{number}" for number in order]


def test_members_of_one_bucket_depend_on_the_timeline_of_the_group() -> None:
    # "Aa" and "BB" have the same hash: a TimelineHashMap returns the one that joined last first.
    assert group_spec_order(["Aa", "BB"], 2) == ["BB", "Aa"]
    assert group_spec_order(["BB", "Aa"], 2) == ["Aa", "BB"]
    # The member whose heartbeat triggers the assignment comes last if it is new.
    assert group_spec_order(["Aa"], 1, "BB") == ["Aa", "BB"]
    assert group_spec_order(["Aa", "BB"], 2, "Aa") == ["BB", "Aa"]


def test_a_replaced_static_member_is_left_out() -> None:
    assert group_spec_order(["Aa", "BB"], 2, updated="C", replaced="Aa") == ["BB", "C"]


def test_a_subscription_has_the_larger_set_first() -> None:
    # Within each set by hash: a to p fill the buckets 1 to 0 of 16.
    assert subscription_order(["b", "a", "b"]) == ("a", "b")
    # The table has room for all names, but only the names that exist are hashed.
    names = [f"t-{number}" for number in range(100)]
    ordered = [name for name in subscription_order(names, ["r-1"]) if name in ("t-7", "t-5", "r-1")]
    existing = {"t-5", "t-7", "r-1"}.__contains__
    string_hash.cache_clear()
    assert list(subscription_order(names, ["r-1"], existing)) == ordered
    assert string_hash.cache_info().misses == 3
    assert subscription_order(["p", "a"], ["c", "b", "a"]) == ("a", "b", "c", "p")
    assert subscription_order(["b", "a"], ["c"]) == ("a", "b", "c")
    assert subscription_order(["b"], ["a"]) == ("a", "b")  # of equal sets, the matching topics


def test_topic_ids_are_compared_as_two_signed_numbers() -> None:
    ids = [UUID(int=number) for number in (0, 1, 1 << 63, 1 << 64, 1 << 127)]
    assert sorted(ids, key=id_order) == [ids[4], ids[2], ids[0], ids[1], ids[3]]


def test_topic_ids_of_one_bucket_stay_in_order() -> None:
    ids = [UUID(int=number) for number in (33, 2, 17, 1)]
    assert TopicHashes().sort(ids, 16) == [ids[0], ids[2], ids[3], ids[1]]
    assert TopicHashes().sort([UUID(int=5 << 64 | 4), UUID(int=0)], 16)[0].int == 0
    # All 128 bits count.
    assert [TopicHashes()[UUID(int=1 << bit)] for bit in (0, 32, 64, 96)] == [1] * 4
    assert TopicHashes()[UUID(int=1 << 31)] == 1 << 31 | 1 << 15


def test_partitions_are_in_the_order_of_their_buckets() -> None:
    assert copied_set([17, 3, 1]).ordered() == [17, 1, 3]
    assert copied_set([1, 17, 3]).ordered() == [1, 17, 3]
    assert copied_set([3, 1 << 16]).ordered() == [1 << 16, 3]  # in bucket 1


def test_a_set_grows_when_three_quarters_of_its_buckets_are_used() -> None:
    partitions = PartitionSet()
    partitions.add([16, *range(11)])
    assert partitions.ordered() == [16, *range(11)]
    partitions.add([11])
    assert partitions.ordered() == [*range(12), 16]


def test_a_small_set_also_grows_when_a_bucket_has_nine_partitions() -> None:
    partitions = PartitionSet()
    partitions.add([*range(16, 16 * 9, 16)])
    partitions.add([])
    assert partitions.ordered() == [*range(16, 16 * 9, 16)]
    partitions.add([0])
    assert partitions.ordered() == [32, 64, 96, 128, 0, 16, 48, 80, 112]
