"""One request as a test sees it, whatever its API and version: words, not wire structs.

kio's messages have Kafka's field names, and those are the same thing in nearly all of them: what
is looked for is found by name. So a new version of an API breaks nobody's test.
"""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from ..protocol.apis import APIS, BY_KEY
from ..protocol.consumer_protocol import decode_assignment
from ..protocol.errors import ErrorCode, ProtocolError
from ..protocol.messages import response_decoder

TopicPartition = tuple[str, int]

# How Kafka's messages call a group's id, a topic's name, its partitions, a partition's number.
GROUP = ("group_id", "groups", "groups_names", "coordinator_keys", "key")
TOPICS = ("topics", "topic_data", "responses")
_NAMES = ("name", "topic")
PARTITIONS = ("partitions", "partition_indexes", "partition_data", "partition_index")
_INDEXES = ("partition_index", "partition", "index")
_APIS = {api.name.lower(): api.name for api in APIS}


@dataclass(eq=False)
class Asked:
    """A request that arrived, and what became of it."""

    number: int
    """Counts from 1, in the order of arrival at all nodes."""
    at_ms: int
    """By the broker's clock."""
    node_id: int
    key: int
    version: int
    client_id: str | None
    client_host: str
    message: Any
    """kio's request, for who needs a field that has no word here. A Fetch of a session has all
    partitions of that (spelled_out.py)."""
    answered_ms: int | None = None
    answer: bytes | None = None
    """The frame, or several of them; empty: it gets none (Produce with acks 0)."""
    faults: list[str] = field(default_factory=list)
    """What was done to it (faults.py)."""
    is_held: bool = False
    """It waits at the door until a test lets it in (choreography.py)."""
    topic_names: Any = None
    """Topic id -> name, as far as the broker knew when it arrived."""
    connection: int = 0
    """The client's connection; they count from 1 in the order of their first requests."""
    wall_s: float = 0.0
    """Seconds of wall time since the broker was made."""
    answered_wall_s: float | None = None
    kept_bytes: int = 0
    """What the history holds of it: its records, its answer."""
    _decoded: tuple[bytes, Any] | None = field(default=None, init=False, repr=False)
    """An answer, and what it says."""

    @property
    def api(self) -> str:
        """Kafka's name: `OffsetCommit`."""
        return BY_KEY[self.key].name

    @property
    def group(self) -> str | None:
        """Of several (OffsetFetch since v8, DescribeGroups) the first."""
        return next(iter(self.groups), None)

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """All groups that it names."""
        message = self.message
        if self.key == 10 and getattr(message, "key_type", 0) != 0:  # FindCoordinator
            return ()
        for name in GROUP:
            found = getattr(message, name, None)
            if isinstance(found, str):
                return (found,)
            if isinstance(found, tuple):
                return tuple(each if isinstance(each, str) else each.group_id for each in found)
        return ()

    @property
    def member_id(self) -> str | None:
        """Whose it says it is; None: it is of no member, or of one that has no id yet."""
        return getattr(self.message, "member_id", None) or None

    @property
    def instance_id(self) -> str | None:
        """group.instance.id, of a static member."""
        return getattr(self.message, "group_instance_id", None)

    @property
    def members(self) -> tuple[tuple[str | None, str | None], ...]:
        """Member id and instance id of whom it is about: with LeaveGroup several may go."""
        leaving = _several(self.message, ("members",)) if self.key == 13 else ()
        several = tuple((each.member_id or None, each.group_instance_id) for each in leaving)
        return several or ((self.member_id, self.instance_id),)

    @property
    def generation(self) -> int | None:
        """In which its sender believes to be (-1: in none); None: it does not say."""
        for name in ("generation_id", "generation_id_or_member_epoch"):
            found = getattr(self.message, name, None)
            if found is not None:
                return int(found)
        return None

    @cached_property
    def topics(self) -> tuple[str, ...]:
        """Every topic that it names."""
        return tuple(dict.fromkeys(name for name, _ in self._topics(self.message)))

    @cached_property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Every topic partition that it names."""
        return tuple((topic, int(index)) for topic, _, index in self.named(self.message))

    @cached_property
    def offsets(self) -> dict[TopicPartition, int]:
        """What an OffsetCommit wants to commit."""
        return {
            (topic, int(index)): int(each.committed_offset)
            for topic, each, index in self.named(self.message)
            if hasattr(each, "committed_offset")
        }

    @property
    def records_bytes(self) -> int:
        """What a Produce brings."""
        if self.key != 0:
            return 0
        return sum(len(each.records or b"") for _, each, _ in self.named(self.message))

    @cached_property
    def assignments(self) -> dict[str, tuple[TopicPartition, ...]]:
        """What a leader's SyncGroup gives to each member; empty: it is no leader's."""
        if self.key != 14:  # SyncGroup
            return {}
        return {each.member_id: partitions_in(each.assignment) for each in self.message.assignments}

    def named(self, message: Any) -> Iterator[tuple[str, Any, int]]:
        """Topic, part and partition for each part of a partition in this request, or in its answer
        (which may name topics by ids)."""
        for name, topic in self._topics(message):
            for each in _several(topic, PARTITIONS):
                if isinstance(each, int):
                    yield name, each, each
                else:
                    index = next(getattr(each, key) for key in _INDEXES if hasattr(each, key))
                    yield name, each, index

    def _topics(self, message: Any) -> Iterator[tuple[str, Any]]:
        for holder in (message, *_several(message, ("groups",))):
            for topic in _several(holder, TOPICS):
                yield topic if isinstance(topic, str) else self._name(topic), topic

    def _name(self, topic: Any) -> str:
        for key in _NAMES:
            found = getattr(topic, key, None)
            if isinstance(found, str) and found:
                return found
        topic_id = getattr(topic, "topic_id", None)
        names = self.topic_names
        return (names(topic_id) if names is not None else None) or str(topic_id)

    @property
    def response(self) -> Any:
        """kio's response; None while there is none."""
        answer, decoded = self.answer, self._decoded
        if not answer:
            return None
        # A fault may have replaced the one that was looked at.
        if decoded is None or decoded[0] is not answer:
            decoded = answer, response_decoder(self.key, self.version)(answer)
            self._decoded = decoded
        return decoded[1]

    @property
    def errors(self) -> tuple[str, ...]:
        """Kafka's names of all errors in the answer, in their order; () is a success."""
        found = (ErrorCode(code) for code in _error_codes(self.response))
        return tuple(code.name.upper() for code in found if code is not ErrorCode.none)

    @property
    def errors_of_partitions(self) -> dict[TopicPartition, str]:
        """Kafka's names of the errors that its answer has for single partitions."""
        found = {
            (topic, int(index)): ErrorCode(each.error_code)
            for topic, each, index in self.named(self.response)
            if hasattr(each, "error_code")
        }
        return {
            place: code.name.upper() for place, code in found.items() if code is not ErrorCode.none
        }

    def __str__(self) -> str:
        whose = f" {self.group}" if self.group else ""
        member = f" by {self.member_id}" if self.member_id else ""
        waits = "held by the test" if self.is_held else "not answered"
        said = waits if self.answer is None else ", ".join(self.errors) or "ok"
        return f"{self.api} v{self.version}{whose}{member} from {self.client_id or '?'}: {said}"


def api_named(name: str) -> str:
    """Kafka's spelling of an API's name, whatever its case. Raises ValueError for another name:
    a test would wait in vain for its requests."""
    found = _APIS.get(name.lower())
    if found is None:
        raise ValueError(f"there is no API called {name}{nearest(name, _APIS.values())}")
    return found


def nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f": did you mean {near[0]}?" if near else "."


def partitions_in(assignment: bytes) -> tuple[TopicPartition, ...]:
    """What a ConsumerProtocol assignment gives; () for one that is none."""
    if not assignment:
        return ()
    try:
        read = decode_assignment(assignment)
    except ProtocolError:
        return ()
    return tuple((topic, index) for topic, indexes in read.assigned_partitions for index in indexes)


def _several(holder: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    for name in names:
        found = getattr(holder, name, None)
        if isinstance(found, tuple):
            return found
    return ()


def _error_codes(response: Any) -> Iterator[int]:
    if isinstance(response, tuple):
        for each in response:
            yield from _error_codes(each)
        return
    for name in getattr(response, "__dataclass_fields__", ()):
        value = getattr(response, name)
        if name == "error_code":
            yield int(value)
        elif isinstance(value, tuple):
            yield from _error_codes(value)
