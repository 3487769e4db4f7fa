"""The order of a Java HashMap: the numbers are what Java prints."""

from kohort.assignors.sticky.hash_order import hash_order, string_hash


def test_strings_hash_as_in_java() -> None:
    assert string_hash("") == 0
    assert string_hash("Kafka") == 72255238
    assert string_hash("polygenelubricants") == 1 << 31  # Integer.MIN_VALUE
    assert string_hash("\U0001f600") == 0xD83D * 31 + 0xDE00


def test_fifteen_consumers_come_in_the_order_of_a_map_of_thirty_two_buckets() -> None:
    names = [f"consumer{n}" for n in range(15)]
    order = [12, 11, 10, 9, 8, 7, 6, 14, 13, 5, 4, 3, 2, 1, 0]
    assert hash_order(names) == [f"consumer{n}" for n in order]
    assert hash_order(reversed(names)) == hash_order(names)


def test_strings_in_one_bucket_come_in_their_own_order() -> None:
    assert string_hash("Aa") == string_hash("BB")
    assert hash_order(["BB", "Aa"]) == ["Aa", "BB"]
