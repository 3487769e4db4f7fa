"""Validation of CreateTopics, CreatePartitions, AlterPartitionReassignments and DeleteTopics, in
Kafka's order and with its messages (upstream: ReplicationControlManager). A failed check raises
ApiError.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from ..protocol.errors import ApiError, ErrorCode
from .configs.config_def import ConfigSource, InvalidConfigValue
from .configs.effective import static_number, validate_overrides
from .names import KAFKA_METADATA_TOPIC, is_reserved, topic_name_error
from .registry import TopicRegistry
from .registry_log import Assignment
from .topic import Topic, rotated

# Upstream: ReplicationControlManager.MAX_PARTITIONS_PER_BATCH.
PARTITIONS_PER_REQUEST_MAX: Final = 10_000
DEFAULT: Final = -1


class NewTopic(NamedTuple):
    """A topic to create. -1 stands for the broker's default. `assignments` maps partitions to
    broker ids, and is empty if the broker assigns replicas."""

    name: str
    partitions: int
    replication_factor: int
    assignments: Sequence[tuple[int, Sequence[int]]]
    configs: Mapping[str, str | None]


class PlannedTopic(NamedTuple):
    partitions: int
    overrides: Mapping[str, str]
    assignment: Assignment
    replication_factor: int


def check_new_topic(topics: TopicRegistry, name: str, created: Container[str] = ()) -> None:
    """Validate that the topic can be created. As in Kafka, its name may collide with the names of
    topics `created` by the same request."""
    if name == KAFKA_METADATA_TOPIC:
        prohibited = f"Creation of internal topic {name} is prohibited."
        raise ApiError(ErrorCode.invalid_request, prohibited)
    if message := topic_name_error(name):
        raise ApiError(ErrorCode.invalid_topic_exception, message)
    if topics.get(name) is not None:
        raise ApiError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    check_not_reserved(name)
    if topics.is_being_deleted(name):
        raise ApiError(ErrorCode.topic_already_exists, f"Topic '{name}' is being deleted.")
    if existing := [each for each in topics.colliding_topics(name) if each not in created]:
        message = f"Topic '{name}' collides with existing topic: {existing[0]}"
        raise ApiError(ErrorCode.invalid_topic_exception, message)


def check_not_reserved(name: str) -> None:
    """Reject changes to the coordinators' topics. Their partition count determines the partition of
    each group and transactional id, and the coordinators keep the partitions open. (Kafka allows
    such changes, but then loses groups.)"""
    if is_reserved(name):
        message = f"Topic '{name}' is reserved by the broker."
        raise ApiError(ErrorCode.invalid_topic_exception, message)


def plan_topic(topics: TopicRegistry, new: NewTopic, created: Container[str] = ()) -> PlannedTopic:
    """Validate a new topic (see check_new_topic), and determine its partitions, replicas and
    overrides."""
    check_new_topic(topics, new.name, created)
    try:
        overrides = validate_overrides(topics.configs, new.configs)
    except InvalidConfigValue as error:
        raise ApiError(ErrorCode.invalid_config, str(error)) from error
    if new.assignments:
        assignment = _assigned_partitions(topics, new)
        return PlannedTopic(len(assignment), overrides, assignment, len(assignment[0]))
    if new.replication_factor != DEFAULT and new.replication_factor <= 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        raise ApiError(ErrorCode.invalid_replication_factor, message)
    if new.partitions != DEFAULT and new.partitions <= 0:
        message = "Number of partitions was set to an invalid non-positive value."
        raise ApiError(ErrorCode.invalid_partitions, message)
    partitions = default_partitions(topics) if new.partitions == DEFAULT else new.partitions
    assignment, factor = place_new_topic(topics, partitions, new.replication_factor)
    return PlannedTopic(partitions, overrides, assignment, factor)


def check_partition_count(count: int) -> None:
    """Validate the number of partitions added by one request."""
    if count > PARTITIONS_PER_REQUEST_MAX:
        message = "Excessively large number of partitions per request."
        raise ApiError(ErrorCode.policy_violation, message)


def plan_new_partitions(
    topics: TopicRegistry, topic: Topic, count: int, assignments: Sequence[Sequence[int]] | None
) -> Assignment:
    """Validate a new partition count, and determine the replicas of the new partitions.
    `assignments` contains the requested replicas, or is None."""
    current = len(topic.partitions)
    if count == current:
        raise ApiError(ErrorCode.invalid_partitions, f"Topic already has {current} partition(s).")
    if count < current:
        raise ApiError(
            ErrorCode.invalid_partitions,
            f"The topic {topic.name} currently has {current} partition(s); "
            f"{count} would not be an increase.",
        )
    added, factor = count - current, len(topic.partitions[0].replicas)
    if assignments is None:
        # More partitions are rejected below.
        placed = min(added, PARTITIONS_PER_REQUEST_MAX)
        assignment = place_replicas(topics, range(current, current + placed), factor)
    else:
        assignment = tuple(map(tuple, assignments))
        if len(assignments) != added:
            raise ApiError(
                ErrorCode.invalid_replica_assignment,
                f"Attempted to add {added} additional partition(s), "
                f"but only {len(assignments)} assignment(s) were specified.",
            )
        for index, replicas in enumerate(assignments, current):
            _check_replicas(replicas, topics.nodes.ids, factor)
            _check_any_up(topics, index, replicas)
    check_partition_count(added)
    check_not_reserved(topic.name)
    return assignment


def default_partitions(topics: TopicRegistry) -> int:
    """Return the default partition count of new topics."""
    return static_number(topics.configs.broker, "num.partitions")


def place_new_topic(
    topics: TopicRegistry, partitions: int, factor: int = DEFAULT
) -> tuple[Assignment, int]:
    """Place the replicas of a new topic. Return them and the replication factor."""
    if factor == DEFAULT:
        broker, default = topics.configs.broker, "default.replication.factor"
        factor = static_number(broker, default)
        if broker.source(default) is ConfigSource.DEFAULT:
            # A cluster in one process is for testing failures, so by default, a topic has a replica
            # on each usable node.
            factor = max(len(_usable_nodes(topics)), 1)
    prefix = f"Unable to replicate the partition {factor} time(s): "
    return place_replicas(topics, range(partitions), factor, prefix), factor


def place_replicas(
    topics: TopicRegistry, indexes: range, factor: int, prefix: str = ""
) -> Assignment:
    """Place `factor` replicas of each new partition on nodes that are not cordoned: round-robin,
    first on the nodes that are up, then on stopped nodes. Error messages begin with `prefix`.
    (Kafka chooses a random order, and spreads replicas over racks; upstream:
    StripedReplicaPlacer.)"""
    nodes, usable = topics.nodes, _usable_nodes(topics)
    up = tuple(each for each in usable if each in nodes.up)
    stopped = tuple(each for each in usable if each not in nodes.up)
    if not up:
        problem = "All brokers are currently fenced, or have all their log directories cordoned."
    elif factor > len(usable):
        problem = (
            f"The target replication factor of {factor} cannot be reached because only "
            f"{len(usable)} broker(s) are registered or some brokers have all their log "
            "directories cordoned."
        )
    elif factor == len(up) == len(nodes.ids):
        return ()
    else:
        return tuple((*rotated(up, index), *stopped)[:factor] for index in indexes)
    raise ApiError(ErrorCode.invalid_replication_factor, prefix + problem)


def _usable_nodes(topics: TopicRegistry) -> list[int]:
    """Return the nodes that are not cordoned, including stopped ones."""
    ids = topics.nodes.ids
    return [each for each in ids if not topics.is_cordoned(topics.configs.at(each))]


def _assigned_partitions(topics: TopicRegistry, new: NewTopic) -> Assignment:
    fields = {"replication factor": new.replication_factor, "numPartitions": new.partitions}
    for field, value in fields.items():
        if value != DEFAULT:
            message = f"A manual partition assignment was specified, but {field} was not set to -1."
            raise ApiError(ErrorCode.invalid_request, message)
    assigned: dict[int, tuple[int, ...]] = {}
    factor = len(new.assignments[0][1])
    for partition, replicas in new.assignments:
        if partition in assigned:
            message = f"Found multiple manual partition assignments for partition {partition}"
            raise ApiError(ErrorCode.invalid_replica_assignment, message)
        assigned[partition] = tuple(replicas)
        _check_replicas(replicas, topics.nodes.ids, factor)
        _check_any_up(topics, partition, replicas)
    if assigned.keys() != set(range(len(assigned))):
        message = "partitions should be a consecutive 0-based integer sequence"
        raise ApiError(ErrorCode.invalid_replica_assignment, message)
    return tuple(assigned[index] for index in range(len(assigned)))


def _check_any_up(topics: TopicRegistry, partition: int, replicas: Sequence[int]) -> None:
    if topics.nodes.up.isdisjoint(replicas):
        raise ApiError(
            ErrorCode.invalid_replica_assignment,
            f"All brokers specified in the manual partition assignment for partition {partition} "
            "are fenced or in controlled shutdown.",
        )


def check_reassignment(
    topics: TopicRegistry,
    name: str,
    index: int,
    replicas: Sequence[int] | None,
    *,
    allows_factor_change: bool,
) -> Topic:
    """Validate that a partition can get these replicas. Return its topic. If `replicas` is None,
    the request is to cancel a reassignment. It is rejected, because no reassignment is ever in
    progress."""
    topic = topics.get(name)
    if topic is None:
        message = f"Unable to find a topic named {name}."
        raise ApiError(ErrorCode.unknown_topic_or_partition, message)
    partition = topic.partition(index)
    if partition is None:
        message = f"Unable to find partition {name}:{index}."
        raise ApiError(ErrorCode.unknown_topic_or_partition, message)
    if replicas is None:
        raise ApiError(ErrorCode.no_reassignment_in_progress)
    _check_replicas(replicas, topics.nodes.ids)
    current = len(partition.replicas)
    if len(replicas) != current and not allows_factor_change:
        message = f"The replication factor is changed from {current} to {len(replicas)}"
        raise ApiError(ErrorCode.invalid_replication_factor, message)
    if stopped := [each for each in replicas if each not in topics.nodes.up]:
        raise ApiError(
            ErrorCode.invalid_replica_assignment,
            f"Partition {partition.name} cannot be reassigned to {list(replicas)} while node "
            f"{stopped[0]} is stopped: start it, or choose other nodes.",
        )
    return topic


def _check_replicas(
    broker_ids: Iterable[int], registered: Container[int], factor: int | None = None
) -> None:
    """Validate that the replicas are `registered` nodes, without duplicates, and that there are
    `factor` of them, unless `factor` is None."""
    replicas = sorted(broker_ids)
    problem = next(_problems_of(replicas, registered), None)
    if not replicas:
        problem = "an empty replica list."
    elif problem is None and factor not in (None, len(replicas)):
        problem = (
            f"a partition with {len(replicas)} replica(s), but this is not consistent with "
            f"previous partitions, which have {factor} replica(s)."
        )
    if problem is not None:
        message = f"The manual partition assignment includes {problem}"
        raise ApiError(ErrorCode.invalid_replica_assignment, message)


def _problems_of(replicas: Iterable[int], registered: Container[int]) -> Iterator[str]:
    for before, broker_id in pairwise((None, *replicas)):
        if broker_id not in registered:
            yield f"broker {broker_id}, but no such broker is registered."
        elif broker_id == before:
            yield f"the broker {broker_id} more than once."
