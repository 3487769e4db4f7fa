"""Addresses of brokers, as clients write them."""

import re

import pytest
from kohort.protocol.bootstrap import Address, addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kafka:9093", [("kafka", 9093)]),
        ("kafka", [("kafka", 9092)]),
        (" a:1 ,, b ", [("a", 1), ("b", 9092)]),
        ("[::1]:9094", [("::1", 9094)]),
        ("::1", [("::1", 9092)]),
        ("[::1]", [("::1", 9092)]),
    ],
)
def test_addresses_are_parsed(text: str, expected: list[tuple[str, int]]) -> None:
    assert addresses(text) == expected


@pytest.mark.parametrize(
    "text",
    ["kafka:", "kafka:0", "kafka:65536", "kafka:http", ":9092", "[]:9092", "[]", "a..b:9092"],
)
def test_an_invalid_address_is_rejected(text: str) -> None:
    message = re.escape(f"invalid address '{text}': expected HOST:PORT")
    with pytest.raises(ValueError, match=message):
        addresses(f"a:1,{text}")


def test_at_least_one_address_is_needed() -> None:
    with pytest.raises(ValueError, match="missing broker address"):
        addresses(" ,")


def test_an_ipv6_address_is_printed_in_brackets() -> None:
    assert str(Address("::1", 9092)) == "[::1]:9092"
