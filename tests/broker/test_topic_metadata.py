"""Topics as consumer groups see them: Kafka's hash of their metadata, and regular expressions."""

import base64
import sys
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

import pytest
from kohort.broker.topic_metadata import ClusterTopics
from kohort.log.tasks import run_synchronously
from kohort.protocol.budgets import REGEX_BYTES_MAX


class StoredTopic(NamedTuple):
    name: str
    id: UUID
    partitions: range


class View:
    """Implements the required methods of TopicsView."""

    def __init__(self, *topics: StoredTopic) -> None:
        self.version = self.created_version = 7
        self.topics = {topic.name: topic for topic in topics}

    def __iter__(self) -> Iterator[StoredTopic]:
        return iter(self.topics.values())

    def get(self, name: str) -> StoredTopic | None:
        return self.topics.get(name)

    def by_id(self, topic_id: UUID) -> StoredTopic | None:
        return next((each for each in self if each.id == topic_id), None)


def topic_id(encoded: str) -> UUID:
    """Decode a topic id in Kafka's form."""
    return UUID(bytes=base64.urlsafe_b64decode(encoded + "=="))


# Recorded in partition.metadata and records of type 3 of Kafka 4.3. The first two are in
# tests/kafka_folder, the last one in tests/pipeline/kafka_4_3_consumer_groups.txt.
HASHES = {
    StoredTopic("orders", topic_id("xrbUEmYpQ6OyjhLOVpEA_w"), range(3)): 2151753831889190531,
    StoredTopic("prices", topic_id("Zg00mZtmRuSo4DhJtRX5FA"), range(1)): -6399732984873048705,
    StoredTopic("orders", UUID("a33cd06cafde4230a28ff4acccebbf03"), range(4)): -7489250119039468302,
}


def topics_of(view: View) -> ClusterTopics:
    return ClusterTopics(view)  # type: ignore[arg-type]


@pytest.mark.parametrize(("topic", "expected"), HASHES.items())
def test_the_hash_is_kafkas(topic: StoredTopic, expected: int) -> None:
    assert topics_of(View(topic)).metadata_hash([topic.name]) == expected


def test_the_hash_of_two_topics_is_kafkas() -> None:
    """Recorded from Kafka 4.3 like the others."""
    orders = StoredTopic("orders", topic_id("jt5uxC-XSyWEebGHslyb_A"), range(2))
    prices = StoredTopic("prices", topic_id("p3dDQveXQ4uWR7PKwDJ8SQ"), range(3))
    assert topics_of(View(prices, orders)).metadata_hash(["prices", "orders"]) == (
        -4678117556831394346
    )


def test_topics_that_do_not_exist_count_for_nothing() -> None:
    (topic, expected), *_ = HASHES.items()
    topics = topics_of(View(topic))
    assert topics.metadata_hash(["unknown"]) == 0
    assert topics.metadata_hash([]) == 0
    assert topics.metadata_hash(["unknown", "orders"]) == expected


def test_the_order_of_names_does_not_change_the_hash() -> None:
    first, second, _ = HASHES
    topics = topics_of(View(first, second))
    both = topics.metadata_hash(["orders", "prices"])
    assert both == topics.metadata_hash(["prices", "orders"])
    assert both not in HASHES.values()


def test_the_hash_follows_the_number_of_partitions() -> None:
    """The hash of a topic is cached and must be updated."""
    (topic, expected), *_ = HASHES.items()
    view = View(topic._replace(partitions=range(2)))
    topics = topics_of(view)
    assert topics.metadata_hash(["orders"]) == topics.metadata_hash(["orders"]) != expected
    view.topics["orders"] = topic
    assert topics.metadata_hash(["orders"]) == expected


def test_topics_are_found_by_name_and_id() -> None:
    (topic, _), *_ = HASHES.items()
    topics = topics_of(View(topic))
    assert topics.id_of("orders") == topic.id
    assert topics.name_of(topic.id) == "orders"
    assert topics.partition_count(topic.id) == 3
    unknown = UUID(int=1)
    assert (topics.id_of("x"), topics.name_of(unknown), topics.partition_count(unknown)) == (
        None,
        None,
        0,
    )
    assert (topics.version, topics.created_version) == (7, 7)


# Kafka's messages (RE2/J).
@pytest.mark.parametrize(
    ("regex", "problem"),
    [
        ("(", "missing closing )"),
        ("[a", "missing closing ]"),
        ("*", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a\\", "trailing backslash at end of expression"),
        ("(?=x)", "invalid or unsupported Perl syntax"),
        ("[z-a]", "invalid character class range"),
        ("\\8", "invalid escape sequence"),
        ("a{2000}", "invalid repeat count"),
        ("a{2,0099999999999}", "invalid repeat count"),
        ("a)", "regexp/syntax: internal error"),
        ("\\C", "invalid escape sequence"),
        ("\\Q\\C\\E[a]\\C", "invalid escape sequence"),
        ("(?P<n>a)|(?<n>b)", "duplicate capture group name"),
        ("(?P<é>a)", "invalid named capture"),
    ],
)
def test_an_invalid_expression_is_described_in_kafkas_words(regex: str, problem: str) -> None:
    topics = topics_of(View(*HASHES))
    assert topics.regex_problem(regex) == problem
    assert run_synchronously(topics.matcher([regex])()) == {regex: ()}


@pytest.mark.parametrize(
    "regex",
    [
        *("", "a{2", "(?P<n>x)", "(?<n>x)", "a|b", "\\d+", "\\\\C", "\\Q\\C", "[[:alpha:](?P<n>]"),
        *("a{0000000007}", "[{99999999999}]", "\\{99999999999}", "\\Q{99999999999}"),
        *("(?P<n>a)(?<m>b)", "\\Q(?P<n>\\E(?P<n>a)", "\\((?P<n>a)[(?P<n>]"),
    ],
)
def test_valid_expressions(regex: str) -> None:
    assert topics_of(View()).regex_problem(regex) is None


def test_an_expression_matches_whole_names() -> None:
    topics = topics_of(View(*HASHES))
    assert run_synchronously(topics.matcher(["o.*|prices", "rder", "orders"])()) == {
        "o.*|prices": ("orders", "prices"),
        "rder": (),
        "orders": ("orders",),
    }
    assert run_synchronously(topics.matcher([])()) == {}


def test_an_expression_that_needs_too_much_memory_is_rejected() -> None:
    assert topics_of(View()).regex_problem("((a{100}){100}){100}") is not None


def test_an_expression_that_is_too_long_is_rejected() -> None:
    longest = "é" * (REGEX_BYTES_MAX // 2)
    assert topics_of(View()).regex_problem(longest) is None
    assert topics_of(View()).regex_problem(longest + "a") == "pattern too large"


@pytest.mark.parametrize("part", [r"\d", r"\.", "[a]", "a{1}", "{0", r"\Q.\E"])
def test_a_long_pattern_is_checked_in_a_few_steps(part: str) -> None:
    """A step is a call in Python. A pattern of 4 KB would stop the event loop for 50 ms."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    topics = topics_of(View())
    topics.regex_problem("")  # compiles the patterns that are compiled only once
    sys.setprofile(count)
    try:
        problem = topics.regex_problem(part * (REGEX_BYTES_MAX // len(part)))
    finally:
        sys.setprofile(None)
    assert problem is None
    assert calls < 100
