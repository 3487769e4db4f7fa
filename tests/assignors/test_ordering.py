"""Java's string hashes and HashMap order; the expected numbers were printed by Java."""

from kohort.assignors.ordering import hash_map_order, string_hash


def test_strings_hash_as_in_java() -> None:
    assert string_hash("") == 0
    assert string_hash("Kafka") == 72255238
    assert string_hash("polygenelubricants") == 1 << 31  # Integer.MIN_VALUE
    assert string_hash("\U0001f600") == 0xD83D * 31 + 0xDE00


def test_fifteen_names_are_in_the_order_of_a_map_with_32_buckets() -> None:
    names = [f"consumer{n}" for n in range(15)]
    order = [12, 11, 10, 9, 8, 7, 6, 14, 13, 5, 4, 3, 2, 1, 0]
    assert hash_map_order(names) == [f"consumer{n}" for n in order]
    assert hash_map_order(reversed(names)) == hash_map_order(names)


def test_strings_in_one_bucket_are_in_their_own_order() -> None:
    assert string_hash("Aa") == string_hash("BB")
    assert hash_map_order(["BB", "Aa"]) == ["Aa", "BB"]
