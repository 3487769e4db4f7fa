"""Cases: an assignor, the topics and the members of a group, from JSON or from flags.

Unknown fields are errors, because a misspelled `owned` would silently change the result.
"""

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Final, NoReturn

from ...assignors.explain import Move, compare, moves
from ...assignors.model import Assignment, Assignor, Subscription, TopicPartition, Topics
from ...assignors.resolve import AssignorNameTaken, AssignorNotFound, NotAnAssignor, resolve

# Kafka's largest assignor test uses 1,000,000 partitions and 2,000 members
# (AbstractStickyAssignorTest.testLargeAssignmentAndGroupWithUniformSubscription).
PARTITIONS_MAX: Final = 1_000_000
MEMBERS_MAX: Final = 10_000
NAME_BYTES_MAX: Final = 32_767  # strings of Kafka's protocol have an int16 length
INT32_MAX: Final = 2**31 - 1  # partitions and generations are int32 in Kafka's protocol
QUOTED_CHARS_MAX: Final = 60  # an invalid value in an error message is cut to this length

CASE_FIELDS: Final = frozenset(("assignor", "partitions", "members", "replica_racks"))
MEMBER_FIELDS: Final = frozenset(
    ("topics", "owned", "generation", "rack", "user_data", "group_instance_id")
)


class CaseError(Exception):
    """Any error in a case, including errors of its assignor."""


@dataclass(frozen=True, slots=True)
class Case:
    assignor: Assignor
    topics: Topics
    members: dict[str, Subscription]


@dataclass(frozen=True, slots=True)
class Result:
    case: Case
    assignment: Assignment
    before: Assignment | None
    kept: Sequence[TopicPartition]
    """`kept` and `moves` are empty without `before`."""
    moves: Sequence[Move]


# --- the assignment


def assign(case: Case, before: Assignment | None = None) -> Result:
    """Return the sorted assignment and its moves. Raises CaseError if the assignor fails."""
    with _errors_of(case.assignor):
        assigned = case.assignor.assign(case.topics, case.members)
        problem = _problem(assigned, case)
        assignment = {
            member: sorted((topic, partition) for topic, partition in assigned[member])
            for member in sorted(assigned)
        }
    if problem:
        raise CaseError(f"assignor {case.assignor.name} {problem}")
    if before is None:
        return Result(case, assignment, None, (), ())
    kept, _ = compare(before, assignment)
    with _errors_of(case.assignor):
        moved = moves(case.assignor, case.topics, case.members, before, assignment)
    return Result(case, assignment, before, kept, moved)


def _problem(assigned: Assignment, case: Case) -> str | None:
    """Return why the assignment is invalid, or None."""
    if missing := case.members.keys() - assigned.keys():
        return f"omitted member {_quoted(min(missing))}"
    if unknown := assigned.keys() - case.members.keys():
        return f"returned unknown member {_quoted(min(unknown))}"
    seen: set[TopicPartition] = set()
    for topic, partition in chain.from_iterable(assigned.values()):
        if not 0 <= partition < case.topics.partitions.get(topic, 0):
            return f"assigned {topic}-{partition}, which does not exist"
        if (topic, partition) in seen:
            return f"assigned {topic}-{partition} twice"
        seen.add((topic, partition))
    return None


@contextmanager
def _errors_of(assignor: Assignor) -> Iterator[None]:
    """Convert all exceptions to CaseError, because the assignor may be the user's own code."""
    try:
        yield
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        raise CaseError(f"assignor {assignor.name} failed: {reason}") from error


@lru_cache(maxsize=1_000)  # resolving a name reads the metadata of all installed packages
def resolve_cached(name: str) -> Assignor | str:
    """Return the assignor, or the error message."""
    try:
        return resolve(name)
    except (AssignorNotFound, AssignorNameTaken, NotAnAssignor) as error:
        return str(error)
    except (Exception, SystemExit) as error:  # raised by importing the user's module
        return f"{name} cannot be imported: {type(error).__name__}: {error}"


# --- from JSON


def decode(text: bytes) -> Any:
    """Decode JSON. Duplicate names raise CaseError, because Python would use only the last one."""
    try:
        return _DECODER.decode(text.decode())
    except UnicodeDecodeError as error:
        raise CaseError(f"invalid UTF-8 at byte {error.start}") from error
    except json.JSONDecodeError as error:
        at = f"character {error.pos + 1}"
        raise CaseError(f"invalid JSON: {error.msg[0].lower()}{error.msg[1:]} at {at}") from error
    except RecursionError as error:
        raise CaseError("invalid case: nested too deeply") from error
    except ValueError as error:  # Python limits the number of digits that int() converts
        raise CaseError("invalid case: a number with thousands of digits") from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name in fields:
            raise CaseError(f"duplicate name {_quoted(name)}")
        fields[name] = value
    return fields


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_without_duplicates)


def parse_case(content: Any) -> Case:
    """Parse a case from decoded JSON. Raises CaseError."""
    case = _object(content, "case", CASE_FIELDS)
    name = _name(case.get("assignor"), "assignor")
    partitions = {
        _name(topic, "topic"): _int(count, f"partitions of {_quoted(topic)}", 0, PARTITIONS_MAX)
        for topic, count in _object(case.get("partitions"), "partitions").items()
    }
    if (total := sum(partitions.values())) > PARTITIONS_MAX:
        raise CaseError(f"{total} partitions: at most {PARTITIONS_MAX} are allowed")
    members = _object(case.get("members"), "members")
    if len(members) > MEMBERS_MAX:
        raise CaseError(f"{len(members)} members: at most {MEMBERS_MAX} are allowed")
    topics = Topics(partitions, _replica_racks(case.get("replica_racks"), partitions))
    assignor = resolve_cached(name)
    if isinstance(assignor, str):
        raise CaseError(assignor)
    subscriptions = {
        _name(member, "member"): _with_user_data(_subscription(fields, member), assignor)
        for member, fields in members.items()
    }
    return Case(assignor, topics, subscriptions)


def parse_assignment(content: Any, what: str) -> Assignment:
    """Parse `{"C0": [["t0", 0]]}`. Raises CaseError."""
    return {
        _name(member, "member"): list(_partitions(pairs, f"partitions of {_quoted(member)}"))
        for member, pairs in _object(content, what).items()
    }


def _subscription(content: Any, member: str) -> Subscription:
    of_member = f"of {_quoted(member)}"
    fields = _object(content, f"member {_quoted(member)}", MEMBER_FIELDS)
    topics = fields.get("topics")
    if type(topics) is not list:
        _invalid(topics, f"topics {of_member}", "a list")
    names = (_name(topic, f"topic {of_member}") for topic in topics)
    generation = fields.get("generation")
    if generation is not None:
        # Members send a negative generation before their first assignment (ConsumerProtocol).
        _int(generation, f"generation {of_member}", -INT32_MAX - 1, INT32_MAX)
    rack, instance_id = fields.get("rack"), fields.get("group_instance_id")
    if instance_id is not None:
        _name(instance_id, f"group_instance_id {of_member}")
    return Subscription(
        topics=tuple(dict.fromkeys(names)),  # Kafka uses a set here and for owned partitions
        owned_partitions=_partitions(fields.get("owned", []), f"owned {of_member}"),
        generation_id=None if generation is None or generation < 0 else generation,
        rack_id=None if rack is None else _text(rack, f"rack {of_member}"),
        user_data=_bytes(fields.get("user_data"), f"user_data {of_member}"),
        group_instance_id=instance_id,
    )


def _with_user_data(member: Subscription, assignor: Assignor) -> Subscription:
    """Add the user data that the member would send. `sticky` reads owned partitions from it."""
    if member.user_data is not None:
        return member
    generation = member.generation_id
    if generation is None and member.owned_partitions:
        generation = -1  # the member already had an assignment
    with _errors_of(assignor):
        owned = member.owned_partitions
        user_data = assignor.subscription_user_data(member.topics, owned, generation)
    return replace(member, user_data=user_data)


def _partitions(content: Any, what: str) -> tuple[TopicPartition, ...]:
    if type(content) is not list:
        _invalid(content, what, 'a list like [["t0", 0]]')
    partitions = []
    for pair in content:
        if type(pair) is not list or len(pair) != 2:
            _invalid(pair, f"entry of {what}", 'a pair like ["t0", 0]')
        topic = _name(pair[0], f"topic in {what}")
        partitions.append((topic, _int(pair[1], f"partition in {what}", 0, INT32_MAX)))
    return tuple(dict.fromkeys(partitions))


def _replica_racks(
    content: Any, partitions: dict[str, int]
) -> dict[str, tuple[tuple[str | None, ...], ...]]:
    replica_racks = {}
    for topic, by_partition in _object({} if content is None else content, "replica_racks").items():
        what = f"replica_racks of {_quoted(topic)}"
        if topic not in partitions:
            raise CaseError(f"{what}: no such topic in partitions")
        if type(by_partition) is not list or len(by_partition) != partitions[topic]:
            raise CaseError(f"{what}: expected a list for each of {partitions[topic]} partitions")
        replica_racks[topic] = tuple(_racks(racks, what) for racks in by_partition)
    return replica_racks


def _racks(content: Any, what: str) -> tuple[str | None, ...]:
    if type(content) is not list:
        _invalid(content, f"entry of {what}", 'a list like ["a", "b"]')
    return tuple(None if rack is None else _text(rack, f"rack in {what}") for rack in content)


def _object(content: Any, what: str, known: Iterable[str] | None = None) -> dict[str, Any]:
    if type(content) is not dict:
        _invalid(content, what, "an object")
    if known is not None and (unknown := content.keys() - set(known)):
        names = ", ".join(sorted(known))
        raise CaseError(f"unknown field {_quoted(min(unknown))} in {what}: expected {names}")
    return content


def _name(content: Any, what: str) -> str:
    if not (name := _text(content, what)):
        raise CaseError(f"empty {what}")
    return name


def _text(content: Any, what: str) -> str:
    if type(content) is not str:
        _invalid(content, what, "a string")
    try:
        if len(content.encode()) > NAME_BYTES_MAX:
            raise CaseError(f"{what} is longer than {NAME_BYTES_MAX} bytes")
    except UnicodeEncodeError as error:
        raise CaseError(f"{what} contains an unpaired surrogate") from error
    return content


def _bytes(content: Any, what: str) -> bytes | None:
    if content is None:
        return None
    try:
        return b64decode(content, validate=True)
    except (TypeError, ValueError):
        _invalid(content, what, "base64")


def _int(content: Any, what: str, minimum: int, maximum: int) -> int:
    if type(content) is not int or not minimum <= content <= maximum:
        _invalid(content, what, f"an integer from {minimum} to {maximum}")
    return content


def _invalid(content: Any, what: str, expected: str) -> NoReturn:
    if content is None:
        raise CaseError(f"missing {what}: expected {expected}")
    raise CaseError(f"invalid {what}: {_quoted(content)}, expected {expected}")


def _quoted(content: Any) -> str:
    """Return names unchanged and other values as JSON, truncated if long."""
    try:
        text = content if type(content) is str and content else json.dumps(content)
    except RecursionError as error:
        raise CaseError("invalid case: nested too deeply") from error
    short = text[:QUOTED_CHARS_MAX]
    return short + "…" * (len(text) > len(short))
