"""What clients may do to topics: the checks of CreateTopics, CreatePartitions and DeleteTopics, in
Kafka's order and words (upstream: ReplicationControlManager). Each raises Refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from ..protocol.errors import ErrorCode
from .config_def import InvalidConfigValue
from .configs import checked
from .errors import Refused
from .names import invalid_name, is_internal
from .nodes import Nodes
from .registry import Topics
from .topic import Topic

__all__ = [
    "NewTopic",
    "PlannedTopic",
    "check_growth",
    "check_new_topic",
    "check_not_internal",
    "check_partitions_in_request",
    "default_partitions",
    "plan_topic",
]

# Upstream: ReplicationControlManager.MAX_PARTITIONS_PER_BATCH.
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
DEFAULT: Final = -1


class NewTopic(NamedTuple):
    """What a client wants. -1 stands for the broker's default; `assignments` are partitions with
    their broker ids, empty where the client leaves that to the broker."""

    name: str
    partitions: int
    replication_factor: int
    assignments: Sequence[tuple[int, Sequence[int]]]
    configs: Mapping[str, str | None]


class PlannedTopic(NamedTuple):
    partitions: int
    overrides: Mapping[str, str]


def check_new_topic(topics: Topics, name: str) -> None:
    """Whether a topic of this name may be made."""
    if complaint := invalid_name(name):
        raise Refused(ErrorCode.invalid_topic_exception, complaint)
    if topics.get(name) is not None:
        raise Refused(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    check_not_internal(name)
    if topics.is_leaving(name):
        raise Refused(ErrorCode.topic_already_exists, f"Topic '{name}' is being deleted.")
    if other := topics.colliding(name):
        raise Refused(
            ErrorCode.invalid_topic_exception,
            f"Topic '{name}' collides with existing topic: {other}",
        )


def check_not_internal(name: str) -> None:
    """Clients neither make nor change nor remove the offsets topic: its partitions decide where
    groups are, and the coordinator has it open. (Kafka lets them, and then loses groups.)"""
    if is_internal(name):
        raise Refused(
            ErrorCode.invalid_topic_exception, f"Topic '{name}' is kept by the broker itself."
        )


def plan_topic(topics: Topics, new: NewTopic) -> PlannedTopic:
    """What `new` comes to, if it is allowed."""
    check_new_topic(topics, new.name)
    try:
        overrides = checked(topics.configs, new.configs)
    except InvalidConfigValue as error:
        raise Refused(ErrorCode.invalid_config, str(error)) from error
    if new.assignments:
        return PlannedTopic(_assigned_partitions(topics, new), overrides)
    if new.partitions != DEFAULT and new.partitions <= 0:
        raise Refused(
            ErrorCode.invalid_partitions,
            "Number of partitions was set to an invalid non-positive value.",
        )
    _check_replication_factor(topics, new.replication_factor)
    partitions = default_partitions(topics) if new.partitions == DEFAULT else new.partitions
    return PlannedTopic(partitions, overrides)


def check_partitions_in_request(count: int) -> None:
    """Whether one request may make so many partitions."""
    if count > PARTITIONS_PER_REQUEST_MAX:
        raise Refused(
            ErrorCode.policy_violation, "Excessively large number of partitions per request."
        )


def check_growth(
    topic: Topic, count: int, assignments: Sequence[Sequence[int]] | None, nodes: Nodes
) -> None:
    """Whether `topic` may get `count` partitions; `assignments`: broker ids of each new one."""
    have = len(topic.partitions)
    if count == have:
        raise Refused(ErrorCode.invalid_partitions, f"Topic already has {have} partition(s).")
    if count < have:
        raise Refused(
            ErrorCode.invalid_partitions,
            f"The topic {topic.name} currently has {have} partition(s); "
            f"{count} would not be an increase.",
        )
    check_partitions_in_request(count - have)
    _check_new_assignments(assignments, count - have, nodes)
    check_not_internal(topic.name)


def _check_new_assignments(
    assignments: Sequence[Sequence[int]] | None, added: int, nodes: Nodes
) -> None:
    if assignments is None:
        return
    if len(assignments) != added:
        raise Refused(
            ErrorCode.invalid_replica_assignment,
            f"Attempted to add {added} additional partition(s), "
            f"but only {len(assignments)} assignment(s) were specified.",
        )
    for broker_ids in assignments:
        _check_replicas(broker_ids, len(assignments[0]), nodes)


def default_partitions(topics: Topics) -> int:
    """How many partitions a topic gets if nobody says."""
    partitions = topics.configs.broker["num.partitions"]
    assert isinstance(partitions, int)
    return partitions


def _check_replication_factor(topics: Topics, wanted: int) -> None:
    if wanted == 0 or wanted < DEFAULT:
        raise Refused(
            ErrorCode.invalid_replication_factor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    factor = wanted
    if wanted == DEFAULT:
        default = topics.configs.broker["default.replication.factor"]
        assert isinstance(default, int)
        factor = default
    brokers = len(topics.nodes.up)
    if factor > brokers:
        raise Refused(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {factor} time(s): The target replication factor "
            f"of {factor} cannot be reached because only {brokers} broker(s) are registered "
            "or some brokers have all their log directories cordoned.",
        )


def _assigned_partitions(topics: Topics, new: NewTopic) -> int:
    for asked, what in (
        (new.replication_factor, "replication factor"),
        (new.partitions, "numPartitions"),
    ):
        if asked != DEFAULT:
            raise Refused(
                ErrorCode.invalid_request,
                f"A manual partition assignment was specified, but {what} was not set to -1.",
            )
    seen: set[int] = set()
    factor = len(new.assignments[0][1])
    for partition, broker_ids in new.assignments:
        if partition in seen:
            raise Refused(
                ErrorCode.invalid_replica_assignment,
                f"Found multiple manual partition assignments for partition {partition}",
            )
        seen.add(partition)
        _check_replicas(broker_ids, factor, topics.nodes)
    if seen != set(range(len(seen))):
        raise Refused(
            ErrorCode.invalid_replica_assignment,
            "partitions should be a consecutive 0-based integer sequence",
        )
    return len(seen)


def _check_replicas(broker_ids: Iterable[int], factor: int, nodes: Nodes) -> None:
    """Replicas must be nodes, each once, as many as the first partition has. (All nodes are
    replicas then: see topics/nodes.py.)"""
    replicas = sorted(broker_ids)
    if not replicas:
        complaint = "an empty replica list."
    elif strangers := [broker_id for broker_id in replicas if broker_id not in nodes.up]:
        complaint = f"broker {strangers[0]}, but no such broker is registered."
    elif twice := [a for a, b in pairwise(replicas) if a == b]:
        complaint = f"the broker {twice[0]} more than once."
    elif len(replicas) != factor:
        complaint = (
            f"a partition with {len(replicas)} replica(s), but this is not consistent with "
            f"previous partitions, which have {factor} replica(s)."
        )
    else:
        return
    raise Refused(
        ErrorCode.invalid_replica_assignment,
        f"The manual partition assignment includes {complaint}",
    )
