"""Configuration keys: parsing of values, and the messages for invalid ones."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.topics.configs.config_def import (
    LONG_MAX,
    ConfigKey,
    ConfigType,
    InvalidConfigValue,
    Validator,
    Value,
    at_least,
    between,
    config_def,
    format_value,
    list_of,
    no_empty_items,
    not_empty,
    one_of,
    parse_integer,
)
from kohort.topics.configs.topic_keys import TOPIC_KEYS

KINDS = {kind: ConfigKey("some.key", kind, None, nullable=True) for kind in ConfigType}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.BOOLEAN, "TRUE", True),
        (ConfigType.BOOLEAN, " false ", False),
        (ConfigType.INT, "+5", 5),
        (ConfigType.INT, "-0", 0),
        (ConfigType.INT, "１２", 12),
        (ConfigType.INT, "٣", 3),
        (ConfigType.LONG, " -7 ", -7),
        (ConfigType.LONG, "5\0", 5),
        (ConfigType.LONG, "0" * 5000 + "5", 5),
        (ConfigType.LONG, str(LONG_MAX), LONG_MAX),
        (ConfigType.DOUBLE, "1e-1", 0.1),
        (ConfigType.DOUBLE, ".5", 0.5),
        (ConfigType.DOUBLE, "+5.", 5.0),
        (ConfigType.DOUBLE, " 0.1f ", 0.1),
        (ConfigType.DOUBLE, "1e-1D", 0.1),
        (ConfigType.DOUBLE, "-Infinity", -math.inf),
        (ConfigType.DOUBLE, "1e400", math.inf),
        (ConfigType.STRING, " text ", "text"),
        (ConfigType.STRING, "\x1ftext\0", "text"),
        (ConfigType.LIST, "a, b", ("a", "b")),
        (ConfigType.LIST, "a\t,\nb", ("a", "b")),
        (ConfigType.LIST, "a,\u00a0b", ("a", "\u00a0b")),
        (ConfigType.LIST, " ", ()),
        (ConfigType.LIST, "", ()),
        (ConfigType.PASSWORD, " x ", "x"),
    ],
)
def test_values_are_parsed_as_by_kafka(kind: ConfigType, text: str, value: Value) -> None:
    assert KINDS[kind].parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (ConfigType.BOOLEAN, "1", "Expected value to be either true or false"),
        (ConfigType.SHORT, "32768", "Not a number of type SHORT"),
        (ConfigType.INT, "2147483648", "Not a number of type INT"),
        (ConfigType.INT, "1_000", "Not a number of type INT"),
        (ConfigType.BOOLEAN, "true\u00a0", "Expected value to be either true or false"),
        (ConfigType.INT, "5L", "Not a number of type INT"),
        (ConfigType.DOUBLE, "0x1", "Not a number of type DOUBLE"),
        (ConfigType.INT, "0x10", "Not a number of type INT"),
        (ConfigType.INT, "--5", "Not a number of type INT"),
        (ConfigType.INT, "\u00a05", "Not a number of type INT"),
        (ConfigType.INT, "²", "Not a number of type INT"),
        (ConfigType.LONG, "", "Not a number of type LONG"),
        (ConfigType.LONG, "  ", "Not a number of type LONG"),
        (ConfigType.LONG, "9" * 5000, "Not a number of type LONG"),
        (ConfigType.DOUBLE, "nan", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "NaNf", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "infinity", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "0.1L", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "0.1ff", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "０.5", "Not a number of type DOUBLE"),
        (ConfigType.DOUBLE, "1_0", "Not a number of type DOUBLE"),
    ],
)
def test_values_of_the_wrong_type_are_rejected(kind: ConfigType, text: str, reason: str) -> None:
    with pytest.raises(InvalidConfigValue) as refused:
        KINDS[kind].parse(text)
    assert str(refused.value) == f"Invalid value {text} for configuration some.key: {reason}"


@pytest.mark.parametrize("check", [list_of("a", "b"), not_empty, no_empty_items])
@pytest.mark.parametrize("text", ["a,,b", "a,", ",", ",b"])
def test_empty_items_of_lists_are_rejected(check: Validator, text: str) -> None:
    key = ConfigKey("k", ConfigType.LIST, ("a",), check)
    with pytest.raises(InvalidConfigValue) as refused:
        key.parse(text)
    assert str(refused.value) == "Configuration 'k' values must not be empty."
    assert KINDS[ConfigType.LIST].parse("a,,b") == ("a", "", "b")


def test_nan_is_within_all_bounds() -> None:
    ratio = ConfigKey("k", ConfigType.DOUBLE, 0.5, between(0, 1)).parse("NaN")
    assert isinstance(ratio, float)
    assert math.isnan(ratio)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (0.001, "0.001"),
        (0.0009999, "9.999E-4"),
        (1e-5, "1.0E-5"),
        (-1.23456789012e-9, "-1.23456789012E-9"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_decimal_numbers_are_formatted_as_by_java(value: float, text: str) -> None:
    assert format_value(value) == text


@given(st.text(" \t\v\u00a0,a", max_size=20))
def test_lists_are_split_as_by_java(text: str) -> None:
    trimmed = text.strip(" \t\v")
    items = tuple(re.split(r"\s*,\s*", trimmed, flags=re.ASCII)) if trimmed else ()
    assert ConfigKey("k", ConfigType.LIST, ()).parse(text) == items


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        ("+1", 1),
        ("01", 1),
        ("-2", -2),
        ("0", 0),
        ("-" + "0" * 10_000, 0),
        ("0" * 10_000 + "7", 7),
        ("--1", None),
        ("-", None),
        ("", None),
        (" 1", None),
        ("2147483648", None),
    ],
)
def test_integers_are_parsed_as_by_java(text: str, number: int | None) -> None:
    assert parse_integer(text) == number


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        (
            ConfigKey("k", ConfigType.INT, 5, at_least(1)),
            "0",
            "Invalid value 0 for configuration k: Value must be at least 1",
        ),
        (
            ConfigKey("k", ConfigType.DOUBLE, 0.5, between(0, 1)),
            "2",
            "Invalid value 2.0 for configuration k: Value must be no more than 1",
        ),
        (
            ConfigKey("k", ConfigType.DOUBLE, 0.5, between(0, 1)),
            "-1",
            "Invalid value -1.0 for configuration k: Value must be at least 0",
        ),
        (
            ConfigKey("k", ConfigType.STRING, "a", one_of("a", "b")),
            "c",
            "Invalid value c for configuration k: String must be one of: a, b",
        ),
        (
            ConfigKey("k", ConfigType.LIST, (), list_of("a", "b")),
            "a,c",
            "Invalid value c for configuration k: String must be one of: a, b",
        ),
        (
            ConfigKey("k", ConfigType.STRING, "x", not_empty),
            "",
            "Invalid value  for configuration k: String must be non-empty",
        ),
    ],
)
def test_values_out_of_bounds_are_rejected(key: ConfigKey, text: str, reason: str) -> None:
    with pytest.raises(InvalidConfigValue) as refused:
        key.parse(text)
    assert str(refused.value) == reason


def test_only_nullable_keys_may_have_no_value() -> None:
    KINDS[ConfigType.LONG].check(None)
    with pytest.raises(InvalidConfigValue, match="must be non-null"):
        ConfigKey("k", ConfigType.LONG, 1).check(None)


def test_a_definition_keeps_the_order_of_its_keys() -> None:
    keys = config_def([ConfigKey("b", ConfigType.INT, 1), ConfigKey("a", ConfigType.INT, 2)])
    assert list(keys) == ["b", "a"]
    assert len(keys) == 2


@given(
    st.one_of(
        st.tuples(st.just(ConfigType.BOOLEAN), st.booleans()),
        st.tuples(st.just(ConfigType.LONG), st.integers(-LONG_MAX - 1, LONG_MAX)),
        st.tuples(st.just(ConfigType.DOUBLE), st.floats(allow_nan=False, allow_infinity=False)),
        st.tuples(
            st.just(ConfigType.LIST),
            st.lists(st.from_regex(r"[a-z.]{1,9}", fullmatch=True)).map(tuple),
        ),
    )
)
def test_value_round_trip(case: tuple[ConfigType, Value]) -> None:
    kind, value = case
    assert KINDS[kind].parse(format_value(value) or "") == value


@pytest.mark.parametrize(
    ("text", "number"),
    [("0x1p-1", 0.5), ("-0X.8P1d", -1.0), ("0xA.p0f", 10.0), ("0x1p9999", math.inf)],
)
def test_decimal_numbers_may_be_hexadecimal_as_in_java(text: str, number: float) -> None:
    assert KINDS[ConfigType.DOUBLE].parse(text) == number


def test_lists_that_are_validated_have_no_duplicates() -> None:
    assert TOPIC_KEYS["cleanup.policy"].parse("delete,compact,delete") == ("delete", "compact")
