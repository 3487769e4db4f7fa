"""What a case says: an assignor, the topics and the members of a group, from JSON or from flags.

Whatever is wrong raises CaseError with one sentence; nothing is guessed, and a name that nothing
reads is an error, as a typo in `owned` would silently change the answer.
"""

import binascii
import json
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

from ...assignors.model import Assignment, Assignor, Subscription, TopicPartition, Topics
from .finding import UnknownAssignor, assignor_named

__all__ = ["Case", "CaseError", "assigned", "case_of", "decoded", "failed", "partitions_by_member"]

# Kafka's largest own test of its assignors has 1,000,000 partitions and 2,000 members
# (AbstractStickyAssignorTest.testLargeAssignmentAndGroupWithUniformSubscription).
PARTITIONS_MAX: Final = 1_000_000
MEMBERS_MAX: Final = 10_000
NAME_BYTES_MAX: Final = 32_767  # a string of Kafka's protocol has an int16 for its length
INT32_MAX: Final = 2**31 - 1  # partitions and generations are int32 in Kafka's protocol
SHOWN_CHARS_MAX: Final = 60  # of a wrong value in a sentence that is to stay one

CASE_FIELDS: Final = frozenset(("assignor", "partitions", "members", "replica_racks"))
MEMBER_FIELDS: Final = frozenset(
    ("topics", "owned", "generation", "rack", "user_data", "group_instance_id")
)


class CaseError(Exception):
    """The message is one sentence that says what is wrong."""


@dataclass(frozen=True, slots=True)
class Case:
    assignor: Assignor
    topics: Topics
    members: dict[str, Subscription]


def decoded(text: bytes) -> Any:
    """JSON without names that come twice, of which Python would take the last."""
    try:
        return _DECODER.decode(text.decode())
    except UnicodeDecodeError as error:
        raise CaseError(f"byte {error.start} is not UTF-8") from error
    except json.JSONDecodeError as error:
        at = f"character {error.pos + 1}"
        raise CaseError(f"not JSON: {error.msg[0].lower()}{error.msg[1:]} at {at}") from error
    except RecursionError as error:
        raise CaseError("not a case: nested too deeply") from error
    except ValueError as error:  # the digits that Python converts at most
        raise CaseError("not a case: a number of thousands of digits") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise CaseError(f"{_shown(twice)} comes twice")
    return found


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique)


def case_of(content: Any) -> Case:
    """From the decoded JSON of one case; raises CaseError."""
    case = _object(content, "the case", CASE_FIELDS)
    name = _name(case.get("assignor"), "assignor")
    partitions = {
        _name(topic, "a topic"): _count(count, f"partitions of {_shown(topic)}", PARTITIONS_MAX)
        for topic, count in _object(case.get("partitions"), "partitions").items()
    }
    if (total := sum(partitions.values())) > PARTITIONS_MAX:
        raise CaseError(f"{total} partitions: {PARTITIONS_MAX} are the most")
    members = _object(case.get("members"), "members")
    if len(members) > MEMBERS_MAX:
        raise CaseError(f"{len(members)} members: {MEMBERS_MAX} are the most")
    topics = Topics(partitions, _replica_racks(case.get("replica_racks"), partitions))
    try:
        assignor = assignor_named(name)
    except UnknownAssignor as error:
        raise CaseError(str(error)) from error
    subscriptions = {
        _name(member, "a member"): _with_user_data(_subscription(told, member), assignor)
        for member, told in members.items()
    }
    return Case(assignor, topics, subscriptions)


def assigned(case: Case) -> Assignment:
    """By member, sorted. Raises CaseError for an assignor, maybe a user's own, that fails."""
    try:
        given = case.assignor.assign(case.topics, case.members)
    except Exception as error:
        raise failed(case.assignor, error) from error
    if flaw := _flaw(given, case):
        raise CaseError(f"the assignor {case.assignor.name} {flaw}")
    return {member: sorted(given[member]) for member in sorted(given)}


def _flaw(given: Assignment, case: Case) -> str | None:
    """What no leader may answer."""
    if given.keys() != case.members.keys():
        if left_out := case.members.keys() - given.keys():
            return f"left out the member {_shown(min(left_out))}"
        return f"made up the member {_shown(min(given.keys() - case.members.keys()))}"
    seen: set[TopicPartition] = set()
    for partitions in given.values():
        for at in partitions:
            topic, partition = at
            if not 0 <= partition < case.topics.partitions.get(topic, 0):
                return f"gave out {topic}-{partition}, which is not there"
            if at in seen:
                return f"gave out {topic}-{partition} twice"
            seen.add(at)
    return None


def failed(assignor: Assignor, error: Exception) -> CaseError:
    said = f"{type(error).__name__}: {error}".rstrip(": ")
    return CaseError(f"the assignor {assignor.name} failed: {said}")


def partitions_by_member(content: Any, what: str) -> Assignment:
    """`{"C0": [["t0", 0]]}`; raises CaseError."""
    return {
        _name(member, "a member"): list(_partitions(given, f"partitions of {_shown(member)}"))
        for member, given in _object(content, what).items()
    }


def _subscription(told: Any, member: str) -> Subscription:
    """Lists that are sets in Kafka (topics, owned partitions) are read as such."""
    where = f"of {_shown(member)}"
    fields = _object(told, f"the member {_shown(member)}", MEMBER_FIELDS)
    topics = (_name(topic, f"a topic {where}") for topic in _list(fields, "topics", where))
    generation = fields.get("generation")
    if generation is not None:
        # Below 0 is what a member sends before its first generation (ConsumerProtocol).
        _int(generation, f"generation {where}", -INT32_MAX - 1, INT32_MAX)
    rack, instance = fields.get("rack"), fields.get("group_instance_id")
    return Subscription(
        topics=tuple(dict.fromkeys(topics)),
        owned=_partitions(fields.get("owned", []), f"owned {where}"),
        generation=None if generation is None or generation < 0 else generation,
        rack=None if rack is None else _text(rack, f"rack {where}"),
        user_data=_bytes(fields.get("user_data"), f"user_data {where}"),
        group_instance_id=None
        if instance is None
        else _name(instance, f"group_instance_id {where}"),
    )


def _with_user_data(member: Subscription, assignor: Assignor) -> Subscription:
    """As the member itself would add it: `sticky` looks at nothing else, whatever is owned."""
    if member.user_data is not None:
        return member
    generation = member.generation
    if generation is None and member.owned:
        generation = -1  # it had a first one, and does not tell which
    try:
        user_data = assignor.user_data(member.topics, member.owned, generation)
    except Exception as error:
        raise failed(assignor, error) from error
    return replace(member, user_data=user_data)


def _partitions(content: Any, what: str) -> tuple[TopicPartition, ...]:
    if type(content) is not list:
        _wrong(content, what, 'a list like [["t0", 0]]')
    found = []
    for pair in content:
        if type(pair) is not list or len(pair) != 2:
            _wrong(pair, f"one of {what}", 'a pair like ["t0", 0]')
        topic, partition = pair
        _name(topic, f"a topic in {what}")
        found.append((topic, _count(partition, f"a partition in {what}", INT32_MAX)))
    return tuple(dict.fromkeys(found))


def _replica_racks(
    content: Any, partitions: dict[str, int]
) -> dict[str, tuple[tuple[str | None, ...], ...]]:
    if content is None:
        return {}
    found = {}
    for topic, racks_of in _object(content, "replica_racks").items():
        what = f"replica_racks of {_shown(topic)}"
        if topic not in partitions:
            raise CaseError(f"{what}: partitions has no such topic")
        if type(racks_of) is not list or len(racks_of) != partitions[topic]:
            raise CaseError(f"{what}: a list for each of {partitions[topic]} partitions is wanted")
        found[topic] = tuple(_racks(racks, what) for racks in racks_of)
    return found


def _racks(content: Any, what: str) -> tuple[str | None, ...]:
    if type(content) is not list:
        _wrong(content, f"one of {what}", 'a list like ["a", "b"]')
    return tuple(None if rack is None else _text(rack, f"a rack in {what}") for rack in content)


def _object(content: Any, what: str, known: Iterable[str] | None = None) -> dict[str, Any]:
    if type(content) is not dict:
        _wrong(content, what, "an object")
    if known is not None and (unknown := content.keys() - set(known)):
        names = ", ".join(sorted(known))
        raise CaseError(f"{what} has no field {_shown(min(unknown))}, but these: {names}")
    return content


def _list(fields: dict[str, Any], name: str, where: str) -> list[Any]:
    content = fields.get(name)
    if type(content) is not list:
        _wrong(content, f"{name} {where}", "a list")
    return content


def _name(content: Any, what: str) -> str:
    if not (name := _text(content, what)):
        raise CaseError(f"{what} is empty")
    return name


def _text(content: Any, what: str) -> str:
    if type(content) is not str:
        _wrong(content, what, "a string")
    try:
        if len(content.encode()) > NAME_BYTES_MAX:
            raise CaseError(f"{what} has more than {NAME_BYTES_MAX} bytes")
    except UnicodeEncodeError as error:
        raise CaseError(f"{what} is not text: half a surrogate pair stands in it") from error
    return content


def _bytes(content: Any, what: str) -> bytes | None:
    if content is None:
        return None
    try:
        return b64decode(content, validate=True)
    except (TypeError, ValueError, binascii.Error):
        _wrong(content, what, "base64")


def _count(content: Any, what: str, most: int) -> int:
    return _int(content, what, 0, most)


def _int(content: Any, what: str, least: int, most: int) -> int:
    if type(content) is not int or not least <= content <= most:
        _wrong(content, what, f"a whole number from {least} to {most}")
    return content


def _wrong(content: Any, what: str, wanted: str) -> NoReturn:
    said = "nothing" if content is None else _shown(content)
    raise CaseError(f"{what}: {said}, where {wanted} is wanted")


def _shown(content: Any) -> str:
    """A name bare, other things as JSON; the beginning of what is long."""
    text = content if type(content) is str and content else json.dumps(content)
    short = text[:SHOWN_CHARS_MAX]
    return short + "…" * (len(text) > len(short))
