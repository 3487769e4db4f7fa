"""Endpoints of consumer groups: what they are, what became of them, and waiting until it is so."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final, Literal

from ..testing.group import Group
from ..testing.topic import Topic
from ..testing.waiting import TIMEOUT_SECONDS
from .control import Control
from .endpoint import Endpoint
from .fields import Count, Name, Offset, Partition, Timeout
from .words import Json, of_generation, of_group, of_member

Until = Literal["stable", "generation", "owner", "committed", "empty", "gone"]


def groups(control: Control) -> Json:
    """All groups that exist, in the order of their names."""
    return {
        "groups": [
            {"group": each.group_id, "state": each.state, "members": len(each.members)}
            for each in control.kafka.groups
        ]
    }


def group(control: Control, group: Name) -> Json:
    """Its state, generation, coordinator and members with what they are assigned, and one sentence
    on what it waits for.

    A group that does not exist is Dead, as in Kafka."""
    return of_group(control.kafka.group(group))


def offsets(control: Control, group: Name) -> Json:
    """What it has committed."""
    committed = control.kafka.group(group).offsets
    return {
        "offsets": [
            {"topic": topic, "partition": partition, "offset": offset}
            for (topic, partition), offset in sorted(committed.items())
        ]
    }


def lag(control: Control, group: Name, *, topic: Name) -> Json:
    """How many records of the topic it is behind, in all and in each partition: where the log ends,
    less what is committed. Where nothing is committed all that the log has counts."""
    there = control.kafka.group(group)
    lags = [there.lag(topic, index) for index in range(Topic(control.kafka, topic).partitions)]
    each = [{"partition": index, "lag": lag} for index, lag in enumerate(lags)]
    return {"topic": topic, "lag": sum(lags), "partitions": each}


def story(control: Control, group: Name) -> Json:
    """All that can be said of it, as text over several lines: its state, its members, who has not
    rejoined, which timers run, the last requests."""
    return {"story": control.kafka.group(group).story()}


def generations(control: Control, group: Name) -> Json:
    """Every round that came to its end, with its cause."""
    found = control.kafka.group(group).generations
    return {"generations": [of_generation(each) for each in found]}


def commits(control: Control, group: Name) -> Json:
    """Every accepted commit: who, when, from where, to where."""
    return {"commits": [asdict(each) for each in control.kafka.group(group).commits]}


def refused_commits(control: Control, group: Name) -> Json:
    """Every commit that was answered with an error, by the coordinator or by a fault."""
    found = control.kafka.history.refused_commits(group)
    return {"refused_commits": [asdict(each) for each in found]}


def exits(control: Control, group: Name) -> Json:
    """Every member that is out, and why."""
    return {"exits": [asdict(each) for each in control.kafka.group(group).exits]}


def wait(
    control: Control,
    group: Name,
    *,
    until: Until,
    members: Count | None = None,
    generation: Count | None = None,
    topic: Name | None = None,
    partition: Partition | None = None,
    who: Name | None = None,
    offset: Offset | None = None,
    timeout: Timeout = TIMEOUT_SECONDS,
) -> Json:
    """A barrier: until the group is so. In vain, it is 408 with the group's story.

    `until` is `stable` (with so many `members`, each with its assignment), `generation` (this
    `generation` or a later one is reached), `owner` (of `topic` and `partition` is `who`: a member
    id, an instance id, a client id), `committed` (for `topic` and `partition`: this `offset` or a
    later one), `empty` or `gone`. Answers with the group; `owner` and `committed` with what was
    found besides."""
    given = {
        "members": members,
        "generation": generation,
        "topic": topic,
        "partition": partition,
        "who": who,
        "offset": offset,
    }
    barrier, wanted, needed = _BARRIERS[until]
    for name, value in given.items():
        if value is not None and name not in wanted:
            raise ValueError(f"to wait until {until} takes no {name}")
        if value is None and name in needed:
            raise ValueError(f"to wait until {until} needs {name}")
    waited = control.kafka.group(group)
    arguments = {name: given[name] for name in wanted}
    return {**barrier(waited, timeout=timeout, **arguments), **of_group(waited)}


def _until_stable(group: Group, **how: Any) -> Json:
    group.wait_stable(**how)
    return {}


def _until_generation(group: Group, **how: Any) -> Json:
    group.wait_generation(**how)
    return {}


def _until_owner(group: Group, **how: Any) -> Json:
    return {"owner": of_member(group.wait_owner(**how))}


def _until_committed(group: Group, **how: Any) -> Json:
    return {"committed": group.wait_committed(**how)}


def _until_empty(group: Group, **how: Any) -> Json:
    group.wait_empty(**how)
    return {}


def _until_gone(group: Group, **how: Any) -> Json:
    group.wait_gone(**how)
    return {}


_PLACE: Final = ("topic", "partition")
# What is waited for -> how; what it takes; what of that it needs.
_BARRIERS: Final[dict[Until, tuple[Callable[..., Json], tuple[str, ...], tuple[str, ...]]]] = {
    "stable": (_until_stable, ("members",), ()),
    "generation": (_until_generation, ("generation",), ("generation",)),
    "owner": (_until_owner, (*_PLACE, "who"), _PLACE),
    "committed": (_until_committed, (*_PLACE, "offset"), _PLACE),
    "empty": (_until_empty, (), ()),
    "gone": (_until_gone, (), ()),
}

ENDPOINTS: Final = (
    Endpoint("GET", "/groups", groups),
    Endpoint("GET", "/groups/{group}", group),
    Endpoint("POST", "/groups/{group}/wait", wait),
    Endpoint("GET", "/groups/{group}/offsets", offsets),
    Endpoint("GET", "/groups/{group}/lag", lag),
    Endpoint("GET", "/groups/{group}/story", story),
    Endpoint("GET", "/groups/{group}/generations", generations),
    Endpoint("GET", "/groups/{group}/commits", commits),
    Endpoint("GET", "/groups/{group}/refused-commits", refused_commits),
    Endpoint("GET", "/groups/{group}/exits", exits),
)
