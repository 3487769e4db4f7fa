"""Topic metadata for the coordinators of consumer groups (KIP-848): ids, partition counts, hashes,
and regular expression matches."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from struct import Struct
from typing import Any, Final
from uuid import UUID

import re2
from xxhash import xxh3_64_intdigest

from ..assignors.server.model import TopicId
from ..coordinator.commands import TopicFilter
from ..coordinator.outcome import RegexMatcher
from ..log.tasks import CooperativeTask, at_once, in_thread
from ..topics.configs.regexes import compile_regex, regex_options
from ..topics.topic import Topic
from ..topics.topics_view import TopicsView

# Topics and groups are hashed as in hash4j, which Kafka uses: little-endian numbers, strings as
# UTF-16 followed by the number of their characters (upstream: Utils.computeTopicHash).
_MAGIC: Final = b"\x00"
_ID: Final = Struct("<QQ")
_INT32: Final = Struct("<i")
_INT64: Final = Struct("<q")

# The maximum memory of a set of compiled patterns.
_PATTERNS_BYTES_MAX: Final = 64 << 20
# Compiling a pattern, unlike matching, holds the interpreter lock (0.1 s for a hostile one).
_PATTERNS_AT_ONCE_MAX: Final = 16
# Maximum number of pairs (pattern, name) that are matched without threads. A pair takes 10 µs, or
# half a millisecond with a hostile pattern.
_INLINE_MAX: Final = 100
# Maximum number of names that are matched in one step of a task. With hostile patterns, a step may
# take a second.
_NAMES_AT_ONCE_MAX: Final = 64

# RE2/J's descriptions of syntax errors, as in Kafka, by RE2's descriptions.
_DESCRIPTIONS: Final = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "regexp/syntax: internal error",
}

# Matches all text up to a construct that RE2/J may reject, or the end. The text consists of quoted
# text, escapes, character classes and other characters. Each match takes 15 µs.
_NEXT: Final = re2.compile(
    r"(?s)(?:\\Q.*?(?:\\E|\z)|\\[^CQ]|[^\\[]"
    r"|\[\^?\]?(?:\\.|\[:\^?[a-z]{1,6}:\]|[^]\\])*\])*?"
    r"(?:(?P<escape>\\C)|\(\?P?<(?P<name>[^>]+)>"
    # RE2 rejects counts above 1,000, but treats a count that overflows an int as literal text.
    r"|(?P<count>\{0*[1-9]\d{4,}(?:,\d*)?\}|\{\d+,0*[1-9]\d{4,}\})|\z)"
)


class ClusterTopics:
    """The topics of the cluster. Implements TopicMetadata of coordinator/decision.py."""

    def __init__(self, view: TopicsView) -> None:
        self._view = view
        self._hashes: dict[TopicId, tuple[int, int]] = {}  # topic id -> partitions, hash

    @property
    def version(self) -> int:
        return self._view.version

    @property
    def created_version(self) -> int:
        return self._view.created_version

    def id_of(self, topic: str) -> TopicId | None:
        found = self._view.get(topic)
        return None if found is None else found.id

    def name_of(self, topic_id: TopicId) -> str | None:
        found = self._by_id(topic_id)
        return None if found is None else found.name

    def partition_count(self, topic_id: TopicId) -> int:
        found = self._by_id(topic_id)
        return 0 if found is None else len(found.partitions)

    def _by_id(self, topic_id: TopicId) -> Topic | None:
        assert isinstance(topic_id, UUID)
        return self._view.by_id(topic_id)

    # --- hashes

    def metadata_hash(self, topics: Iterable[str]) -> int:
        # Look up before sorting, because a group may subscribe to thousands of missing topics.
        found = [topic for topic in map(self._view.get, topics) if topic is not None]
        found.sort(key=attrgetter("name"))
        hashes = b"".join(_INT64.pack(self._topic_hash(each)) for each in found)
        return _signed(xxh3_64_intdigest(hashes)) if hashes else 0

    def _topic_hash(self, topic: Topic) -> int:
        partitions = len(topic.partitions)
        known = self._hashes.get(topic.id)
        if known is not None and known[0] == partitions:
            return known[1]
        high, low = divmod(topic.id.int, 1 << 64)
        name = topic.name
        fields = [_MAGIC, _ID.pack(high, low), name.encode("utf-16-le"), _INT32.pack(len(name))]
        # Partitions have no racks in kohort, because all nodes share one copy of the data.
        fields += map(_INT32.pack, (partitions, *range(partitions)))
        hashed = _signed(xxh3_64_intdigest(b"".join(fields)))
        self._hashes[topic.id] = partitions, hashed
        return hashed

    # --- regular expressions

    def regex_problem(self, regex: str) -> str | None:
        return regex_problem(regex)

    def matcher(
        self, regexes: Collection[str], describes_topic: TopicFilter | None = None
    ) -> RegexMatcher:
        topics = sorted(topic.name for topic in self._view)
        return partial(self._match, tuple(regexes), topics, describes_topic)

    def _match(
        self, regexes: Sequence[str], topics: Sequence[str], describes_topic: TopicFilter | None
    ) -> CooperativeTask[Mapping[str, tuple[str, ...]]]:
        """Match all names against all expressions, in batches."""
        found: dict[str, tuple[str, ...]] = dict.fromkeys(regexes, ())
        if describes_topic is not None:
            topics = yield from _filter(topics, describes_topic)
        call = in_thread if len(regexes) * len(topics) > _INLINE_MAX else at_once
        for some in _batches(regexes, _PATTERNS_AT_ONCE_MAX):
            valid, patterns = yield from call(partial(self._compile, some))
            matched: list[tuple[int, str]] = []
            for names in _batches(topics, _NAMES_AT_ONCE_MAX):
                matched += yield from call(partial(_matches, patterns, names))
            for place, regex in enumerate(valid):
                found[regex] = tuple(name for index, name in matched if index == place)
        return found

    def _compile(self, regexes: Sequence[str]) -> tuple[list[str], Any]:
        """Return the valid expressions and their compiled patterns."""
        valid = [regex for regex in regexes if regex_problem(regex) is None]
        patterns = re2.Set.FullMatchSet(regex_options(_PATTERNS_BYTES_MAX))
        for regex in valid:
            patterns.Add(regex)
        patterns.Compile()
        return valid, patterns


def _batches(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (texts[start : start + size] for start in range(0, len(texts), size))


def _filter(topics: Sequence[str], describes_topic: TopicFilter) -> CooperativeTask[list[str]]:
    described: list[str] = []
    for names in _batches(topics, _NAMES_AT_ONCE_MAX):
        described += filter(describes_topic, names)
        yield None
    return described


def _matches(patterns: Any, names: Sequence[str]) -> list[tuple[int, str]]:
    return [(index, name) for name in names for index in patterns.Match(name) or ()]


def regex_problem(regex: str) -> str | None:
    """Return RE2/J's description of an invalid expression, or None if it is valid."""
    try:
        compile_regex(regex)
    except re2.error as error:
        description: str = error.args[0].decode(errors="replace").partition(": ")[0]
        return _DESCRIPTIONS.get(description, description)
    return _problem_of_re2j(regex)


def _problem_of_re2j(regex: str) -> str | None:
    """Return RE2/J's error for an expression that RE2 accepts, or None."""
    names: set[str] = set()
    for found in _NEXT.finditer(regex):
        if found["escape"]:
            return "invalid escape sequence"
        if found["count"]:
            return "invalid repeat count"
        name = found["name"] or ""
        if name in names:
            return "duplicate capture group name"
        if not name.isascii():
            return "invalid named capture"
        if name:
            names.add(name)
    return None


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
