"""What of an answer is compared: everything, but for ids and addresses that differ from run to run
and the order of what has none."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from .wire import plain

# Of a random UUID as Java and Python write it (version 4), after what Kafka puts before it.
MEMBER_ID = re.compile(
    r"(?P<prefix>[\w.]*)-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
)

# More of a list than this is told by its number.
ITEMS_MAX = 100


class Normaliser:
    """Member ids get the names of those who asked for them: the second id of A is `A-2`."""

    def __init__(self, group: str, port: int, topic_ids: Mapping[str, UUID]) -> None:
        self._group, self._port = group, port
        self._topics = {str(topic_id): name for name, topic_id in topic_ids.items()}
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._sessions: dict[int, str] = {}

    def topic_is(self, name: str, topic_id: UUID) -> None:
        self._topics[str(topic_id)] = name

    def text(self, text: str) -> str:
        for topic_id, name in self._topics.items():
            text = text.replace(topic_id, f"id of {name}")
        for session_id, name in self._sessions.items():
            text = text.replace(f"session_id {session_id},", f"session_id {name},")
        return MEMBER_ID.sub(self._name, text).replace(self._group, "G")

    def answer(self, api: str, message: Any) -> Any:
        return _arranged(api, self._normal(plain(message)))

    def _normal(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            if len(value) > ITEMS_MAX and all(item == value[0] for item in value):
                return [{f"{len(value)} times": self._normal(value[0])}]
            return [self._normal(item) for item in value]
        if isinstance(value, dict):
            return {key: self._field(key, item) for key, item in value.items()}
        return value

    def _field(self, key: str, value: Any) -> Any:
        if key == "port" and value == self._port:
            return "PORT"
        if key == "session_id" and value:
            return self._sessions.setdefault(value, f"session {len(self._sessions) + 1}")
        return self._normal(value)

    def _name(self, match: re.Match[str]) -> str:
        member_id, prefix = match[0], match["prefix"]
        if member_id not in self._names:
            self._counts[prefix] = self._counts.get(prefix, 0) + 1
            self._names[member_id] = f"{prefix}-{self._counts[prefix]}"
        return self._names[member_id]


def _arranged(api: str, answer: Any) -> Any:
    """Kafka's lists of members, groups and fetched topics come from hash maps."""
    if not isinstance(answer, dict):
        return answer
    if api == "JoinGroup":
        _sort(answer["members"], "member_id")
    elif api == "DescribeGroups":
        _sort(answer["groups"], "group_id")
        for group in answer["groups"]:
            _sort(group["members"], "member_id")
    elif api == "ListGroups":
        # Other scripts run beside this one, on the same broker.
        answer["groups"] = [g for g in answer["groups"] if g["group_id"].startswith("G")]
        _sort(answer["groups"], "group_id")
    elif api == "OffsetFetch":
        for group in answer.get("groups", [answer]):
            _sort(
                group["topics"], "name" if "name" in next(iter(group["topics"]), {}) else "topic_id"
            )
    return answer


def _sort(items: list[Any], key: str) -> None:
    items.sort(key=lambda item: str(item[key]))
    for item in items:
        if isinstance(item.get("partitions"), list):
            item["partitions"].sort(key=lambda each: each["partition_index"])


def without(line: Any, fields: Sequence[str]) -> Any:
    """A line of a transcript with some fields hidden, however deep they are."""
    if isinstance(line, list):
        return [without(item, fields) for item in line]
    if isinstance(line, dict):
        return {key: "…" if key in fields else without(item, fields) for key, item in line.items()}
    return line


def first_difference(theirs: Sequence[Any], ours: Sequence[Any]) -> str | None:
    """The first line in which two transcripts differ, for a person to read; None if none does."""
    for number, (a, b) in enumerate(zip(theirs, ours, strict=False)):
        if a != b:
            before = "".join(f"       {line['step']}\n" for line in theirs[:number])
            return f"\n{before}Kafka: {a}\nours:  {b}\n"
    if len(theirs) != len(ours):
        return f"\nKafka's transcript has {len(theirs)} lines, ours {len(ours)}\n"
    return None
