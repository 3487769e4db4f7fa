"""Groups and logs of a cluster of kohort or Kafka, through kafka-python's admin client."""

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from kafka import errors as kafka_errors
from kafka.admin import GroupState, GroupType
from kafka.structs import OffsetAndMetadata

from ...client_properties import read_client_arguments
from ...testing.kafka_python.consumer_group_describe import (
    coordinator_id,
    describe_consumer_group,
    forget_coordinators,
)
from .connecting import ERRORS, admin_client, error_class, timed_out
from .errors import (
    GROUP_ID_NOT_FOUND,
    BrokerError,
    CommandError,
    NotConnected,
    RequestFailed,
    broker_error,
)

T = TypeVar("T")

# Special timestamps of ListOffsets.
EARLIEST: Final = -2
LATEST: Final = -1

RETRY_SECONDS: Final = 0.1  # the default of the clients' retry.backoff.ms
RETRIABLE: Final = (
    kafka_errors.CoordinatorLoadInProgressError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.ConcurrentTransactionsError,
    kafka_errors.NotCoordinatorError,
    kafka_errors.KafkaConnectionError,
    kafka_errors.NodeNotReadyError,
)
# A group that only has commits has no protocol type.
CONSUMER_PROTOCOLS: Final = ("consumer", "")


class Partition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Committed(NamedTuple):
    offset: int
    leader_epoch: int | None


class Member(NamedTuple):
    consumer_id: str
    group_instance_id: str | None
    host: str
    client_id: str
    partitions: tuple[Partition, ...]
    # In groups of the consumer protocol (KIP-848):
    epoch: int | None = None
    target: tuple[Partition, ...] = ()
    """The target assignment."""
    upgraded: bool | None = None
    """True if the member uses the consumer protocol, None if the broker does not report it."""


class Group(NamedTuple):
    group: str
    state: str
    protocol: str
    """The assignor, such as `range`, or empty."""
    members: tuple[Member, ...]
    # In groups of the consumer protocol:
    epoch: int | None = None
    assignment_epoch: int | None = None


# --- --command-config


def client_arguments(path: Path) -> dict[str, Any]:
    """Return arguments of KafkaAdminClient from a properties file. Raises CommandError."""
    try:
        return read_client_arguments(path)
    except FileNotFoundError:
        raise CommandError(f"java.nio.file.NoSuchFileException: {path}") from None
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise CommandError(str(error)) from error


# --- the cluster


@contextlib.contextmanager
def connected(bootstrap: str, timeout_ms: int, arguments: Mapping[str, Any]) -> "Iterator[Cluster]":
    """Connect to the cluster at HOST:PORT[,HOST:PORT]. Raises CommandError."""
    with admin_client(bootstrap, timeout_ms, arguments) as admin:
        yield Cluster(admin, bootstrap, timeout_ms)


class Cluster:
    """Access to a cluster. The methods raise RequestFailed for an error of the whole request, and
    CommandError if no broker responds."""

    def __init__(self, admin: Any, bootstrap: str, timeout_ms: int) -> None:
        self._admin = admin
        self._bootstrap = bootstrap
        self._timeout_ms = timeout_ms

    def list_groups(
        self, states: Iterable[str], types: Iterable[str]
    ) -> list[tuple[str, str, str]]:
        """Return (group, type, state) of consumer groups in these states and of these types; empty
        filters select all."""
        listed = self.retry(
            lambda: self._admin.list_groups(
                states_filter=[GroupState(state) for state in states],
                types_filter=[GroupType(type_.lower()) for type_ in types],
            )
        )
        return sorted(
            (
                group["group_id"],
                group.get("group_type", "unknown").capitalize(),
                group.get("group_state") or "Unknown",
            )
            for group in listed
            # As in ListGroupsOptions.forConsumerGroups.
            if group["protocol_type"] in CONSUMER_PROTOCOLS
            and group.get("group_type", "classic") in ("classic", "consumer")
        )

    def describe(self, groups: Iterable[str]) -> dict[str, Group | BrokerError]:
        """Describe groups of the classic and the consumer protocol. Raises CommandError for groups
        of clients other than consumers."""
        names = list(dict.fromkeys(groups))
        if not names:
            return {}
        try:
            described = self.retry(
                lambda: {
                    name: classic_group(group)
                    for name, group in self._admin.describe_groups(names).items()
                }
            )
        except ValueError:  # kafka-python decodes the members of every group as consumers
            for group in self.retry(self._admin.list_groups):
                if group["group_id"] in names:
                    _check_consumers(group["group_id"], group["protocol_type"])
            raise
        for name, group in described.items():
            if isinstance(group, BrokerError) and group.code == GROUP_ID_NOT_FOUND:
                described[name] = self.retry(partial(self._describe_consumer, name)) or group
        return described

    def _describe_consumer(self, group: str) -> Group | BrokerError | None:
        """Describe a group of the consumer protocol; None if it does not exist."""
        described = describe_consumer_group(self._admin, group)
        return None if described is None else consumer_group(described)

    def coordinator(self, group: str) -> tuple[str, int, int]:
        """Return host, port and node id."""

        def find() -> tuple[str, int, int]:
            node_id = coordinator_id(self._admin, group)
            for broker in self._admin.describe_cluster()["brokers"]:
                if broker["broker_id"] == node_id:
                    return broker["host"], broker["port"], node_id
            raise kafka_errors.CoordinatorNotAvailableError  # stopped between the two responses

        return self.retry(find)

    def committed(self, group: str) -> dict[Partition, Committed]:
        """Return the committed offsets. The result is empty for an unknown group."""
        offsets = self.retry(lambda: self._admin.list_group_offsets({group: None}))[group]
        return {
            Partition(*at): Committed(offset, None if epoch == -1 else epoch)
            for at, (offset, _, epoch) in sorted(offsets.items())
            if offset >= 0
        }

    def leaders(self, topics: Iterable[str]) -> tuple[dict[Partition, int], dict[str, BrokerError]]:
        """Return the leader of each partition (-1: no leader), and the errors of topics."""
        names = sorted(set(topics))
        leaders: dict[Partition, int] = {}
        errors: dict[str, BrokerError] = {}
        for topic in self.retry(lambda: self._admin.describe_topics(names)) if names else ():
            if topic["error_code"]:
                errors[topic["name"]] = error_of(topic["error_code"])
            for partition in topic["partitions"]:
                at = Partition(topic["name"], partition["partition_index"])
                leaders[at] = partition["leader_id"]
        return dict(sorted(leaders.items())), errors

    def start_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return self._offsets(partitions, EARLIEST)

    def end_offsets(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return self._offsets(partitions, LATEST)

    def offsets_for_time(
        self, partitions: Iterable[Partition], timestamp_ms: int
    ) -> dict[Partition, int | None]:
        """Return the first offset with this timestamp or a later one, or None."""
        offsets = self._offsets(partitions, timestamp_ms)
        return {at: None if offset < 0 else offset for at, offset in offsets.items()}

    def _offsets(self, partitions: Iterable[Partition], timestamp: int) -> dict[Partition, int]:
        query = dict.fromkeys(partitions, timestamp)
        if not query:
            return {}
        # The lookup works because kafka-python's TopicPartition is also a named tuple.
        offsets = self.retry(lambda: self._admin.list_partition_offsets(dict(query)))
        return {at: offsets[at].offset for at in query}

    def commit(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets for a group without members. Raises RequestFailed if any commit fails."""
        commits = {at: OffsetAndMetadata(offset, "", -1) for at, offset in offsets.items()}

        def commit() -> None:
            for error in self._admin.alter_group_offsets(group, commits).values():
                if error is not kafka_errors.NoError:
                    raise error

        self.retry(commit)

    def delete_groups(self, groups: Iterable[str]) -> dict[str, BrokerError | None]:
        """Delete groups; return the error of each group, or None. A retriable error is returned if
        it persists until the timeout."""
        remaining = list(dict.fromkeys(groups))
        results: dict[str, BrokerError | None] = {}

        def delete() -> None:
            for name, status in self._admin.delete_groups(list(remaining)).items():
                error = kafka_errors.NoError if status == "OK" else getattr(kafka_errors, status)
                results[name] = None if status == "OK" else error_of(error.errno)
                if not issubclass(error, RETRIABLE):
                    remaining.remove(name)
            if remaining:
                raise kafka_errors.NotCoordinatorError  # retry with the remaining groups

        if remaining:
            try:
                self.retry(delete)
            except CommandError:
                if not results:
                    raise
        return results

    def delete_offsets(
        self, group: str, partitions: list[Partition]
    ) -> dict[Partition, BrokerError | None]:
        """Delete offsets; return the error of each partition, or None. Raises RequestFailed for an
        error of the group."""
        results = self.retry(lambda: self._admin.delete_group_offsets(group, partitions))
        return {
            Partition(*at): None if error is kafka_errors.NoError else error_of(error.errno)
            for at, error in results.items()
        }

    def retry(self, request: Callable[[], T]) -> T:
        """Call `request` until it succeeds, fails with an error that is not retriable, or times
        out."""
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            try:
                return request()
            except RETRIABLE as error:
                if time.monotonic() > deadline:
                    raise self._timed_out(error) from error
                forget_coordinators(self._admin)
            except kafka_errors.BrokerResponseError as error:
                raise RequestFailed(error_of(error.errno or -1)) from error
            except kafka_errors.KafkaTimeoutError as error:
                raise self._timed_out() from error
            except kafka_errors.KafkaError as error:
                raise CommandError(str(error)) from error
            time.sleep(RETRY_SECONDS)

    def _timed_out(self, error: Exception | None = None) -> NotConnected:
        if isinstance(error, kafka_errors.BrokerResponseError):
            text = f"{error_of(error.errno or -1).message} (retried for {self._timeout_ms} ms)"
            return NotConnected(f"{ERRORS}.TimeoutException: {text}")
        return timed_out(self._bootstrap, self._timeout_ms, self._admin._manager.reason)


# --- group descriptions


def classic_group(description: Mapping[str, Any]) -> Group | BrokerError:
    """Convert the result of kafka-python's describe_groups. Raises retriable errors."""
    # The result has no error code, only `[Error 69] GroupIdNotFoundError: Group g not found.`
    error = re.fullmatch(r"(?s)\[Error (-?\d+)\] \w+(?:: (.*))?", description["error"] or "")
    if error is not None:
        return _error_or_retry(int(error[1]), error[2])
    group_id, state = description["group_id"], description["group_state"]
    _check_consumers(group_id, description["protocol_type"])
    members = tuple(map(_classic_member, description["members"]))
    return Group(group_id, state, description["protocol_data"], members)


def _check_consumers(group: str, protocol: str) -> None:
    if protocol not in CONSUMER_PROTOCOLS:  # as in Kafka's DescribeConsumerGroupsHandler
        raise CommandError(
            f"java.lang.IllegalArgumentException: GroupId {group} is not a consumer group "
            f"({protocol})."
        )


def _classic_member(description: Mapping[str, Any]) -> Member:
    # Empty bytes if the group has no assignment.
    topics = (description["member_assignment"] or {}).get("assigned_partitions", ())
    return Member(
        description["member_id"],
        description.get("group_instance_id"),
        description["client_host"],
        description["client_id"],
        tuple(Partition(topic["topic"], n) for topic in topics for n in topic["partitions"]),
    )


def consumer_group(description: Mapping[str, Any]) -> Group | BrokerError | None:
    """Convert a ConsumerGroupDescribe response, to None if the group does not exist. Raises
    retriable errors."""
    if (code := description["error_code"]) == GROUP_ID_NOT_FOUND:
        return None
    if code:
        return _error_or_retry(code, description["error_message"])
    return Group(
        description["group_id"],
        description["group_state"],
        description["assignor_name"],
        tuple(map(_consumer_member, description["members"])),
        description["group_epoch"],
        description["assignment_epoch"],
    )


def _consumer_member(description: Mapping[str, Any]) -> Member:
    def partitions(assignment: Mapping[str, Any]) -> tuple[Partition, ...]:
        topics = assignment["topic_partitions"]
        return tuple(
            Partition(each["topic_name"], n) for each in topics for n in each["partitions"]
        )

    # 0: classic protocol, 1: consumer protocol, -1: unknown. Version 1 added the field.
    member_type = description.get("member_type", -1)
    return Member(
        description["member_id"],
        description["instance_id"],
        description["client_host"],
        description["client_id"],
        partitions(description["assignment"]),
        description["member_epoch"],
        partitions(description["target_assignment"]),
        None if member_type < 0 else member_type == 1,
    )


def _error_or_retry(code: int, message: str | None) -> BrokerError:
    error = error_class(code)
    if issubclass(error, RETRIABLE):
        raise error(message)
    # The broker's own message may contain the group and its type.
    return error_of(code, message)


def error_of(code: int, message: str | None = None) -> BrokerError:
    """Return the error with the broker's message, if there is one, or with Kafka's text."""
    error = error_class(code)
    found = broker_error(code, error.message or "UNKNOWN", error.description or "")
    return found._replace(message=message) if message else found
