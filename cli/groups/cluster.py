"""A cluster's groups and logs, read and changed through kafka-python's admin client.

Nothing is decided here: requests go out, what comes back is told in the words of rows.py, and
errors in those of errors.py. Works with every broker that speaks Kafka's protocol.
"""

import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import GroupState, GroupType
from kafka.structs import OffsetAndMetadata

from . import describing
from .describing import PASSING, refused
from .errors import GROUP_ID_NOT_FOUND, CommandError, Refusal, RefusedError
from .rows import Committed, Group, ListedRow, Partition

T = TypeVar("T")

# Timestamps of ListOffsets that are none.
EARLIEST: Final = -2
LATEST: Final = -1

# Before what passes is asked again (retry.backoff.ms of the clients).
RETRY_SECONDS: Final = 0.1


@contextlib.contextmanager
def connected(bootstrap: str, timeout_ms: int, arguments: Mapping[str, Any]) -> "Iterator[Cluster]":
    """The cluster behind HOST:PORT[,HOST:PORT]; raises CommandError."""
    # kafka-python logs each attempt that fails; what came of them is told once, by an error.
    logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)
    if not all(re.fullmatch(r".*:\d+", address) for address in bootstrap.split(",")):
        raise CommandError(f"Invalid url in bootstrap.servers: {bootstrap}")
    client: Any = KafkaAdminClient
    try:
        admin = client(
            bootstrap_servers=bootstrap.split(","),
            bootstrap_timeout_ms=timeout_ms,
            request_timeout_ms=timeout_ms,
            **arguments,
        )
    except (kafka_errors.KafkaTimeoutError, kafka_errors.KafkaConnectionError) as error:
        raise _nobody(bootstrap, timeout_ms) from error
    except (kafka_errors.KafkaError, ValueError, OSError) as error:
        raise CommandError(str(error)) from error
    with contextlib.closing(admin):
        yield Cluster(admin, bootstrap, timeout_ms)


def _nobody(bootstrap: str, timeout_ms: int) -> CommandError:
    return CommandError(
        "org.apache.kafka.common.errors.TimeoutException: "
        f"No broker of {bootstrap} answered within {timeout_ms} ms."
    )


class Cluster:
    """All methods raise RefusedError when a broker refuses the whole, CommandError when none
    answers."""

    def __init__(self, admin: Any, bootstrap: str, timeout_ms: int) -> None:
        self._admin = admin
        self._bootstrap = bootstrap
        self._timeout_ms = timeout_ms

    def list_groups(self, states: Iterable[str], types: Iterable[str]) -> list[ListedRow]:
        """Consumer groups in these states and of these types, all where none are given."""
        listed = self._ask(
            lambda: self._admin.list_groups(
                states_filter=[GroupState(state) for state in states],
                types_filter=[GroupType(type_.lower()) for type_ in types],
            )
        )
        return sorted(
            ListedRow(
                group["group_id"],
                group.get("group_type", "unknown").capitalize(),
                group.get("group_state") or "Unknown",
            )
            for group in listed
            # ListGroupsOptions.forConsumerGroups: a group that only commits has no protocol type.
            if group["protocol_type"] in ("consumer", "")
            and group.get("group_type", "classic") in ("classic", "consumer")
        )

    def describe(self, groups: Iterable[str]) -> dict[str, Group | Refusal]:
        """Groups of the classic protocol and of KIP-848's."""
        names = list(dict.fromkeys(groups))
        if not names:
            return {}
        described = self._ask(
            lambda: {
                name: describing.classic(told)
                for name, told in self._admin.describe_groups(names).items()
            }
        )
        for name, found in described.items():
            if isinstance(found, Refusal) and found.code == GROUP_ID_NOT_FOUND:
                described[name] = self._ask(partial(self._consumer_group, name)) or found
        return described

    def _consumer_group(self, group: str) -> Group | Refusal | None:
        """None where there is no such KIP-848 group."""
        node_id = self._coordinator_id(group)
        manager = self._admin._manager
        message: Any = describing.ConsumerGroupDescribeRequest
        request = message(group_ids=[group], include_authorized_operations=False)
        try:
            # kafka-python has no public way to send a message that it does not know.
            answer = manager.run(partial(manager.send, request, node_id=node_id))
        except kafka_errors.IncompatibleBrokerVersion:
            return None
        return describing.consumer(answer.to_dict()["groups"][0])

    def coordinator(self, group: str) -> tuple[str, int, int]:
        """Host, port and node id."""
        return self._ask(partial(self._coordinator, group))

    def _coordinator(self, group: str) -> tuple[str, int, int]:
        node_id = self._coordinator_id(group)
        for broker in self._admin.describe_cluster()["brokers"]:
            if broker["broker_id"] == node_id:
                return broker["host"], broker["port"], node_id
        raise kafka_errors.CoordinatorNotAvailableError  # it went between the two answers

    def _coordinator_id(self, group: str) -> int:
        # kafka-python has no public way to ask FindCoordinator.
        node_id: int = self._admin._manager.run(self._admin._find_coordinator_id, group)
        return node_id

    def committed(self, group: str) -> dict[Partition, Committed]:
        """Nothing where the group is unknown."""
        offsets = self._ask(lambda: self._admin.list_group_offsets({group: None}))[group]
        return {
            Partition(*at): Committed(
                found.offset, None if (found.leader_epoch or 0) < 0 else found.leader_epoch
            )
            for at, found in sorted(offsets.items())
            if found.offset >= 0
        }

    def leaders(self, topics: Iterable[str]) -> tuple[dict[Partition, int], dict[str, Refusal]]:
        """The leader of each partition of the topics, -1 for none; the topics without partitions
        and why."""
        names = sorted(set(topics))
        told = self._ask(lambda: self._admin.describe_topics(names)) if names else []
        unknown = {
            topic["name"]: refused(topic["error_code"]) for topic in told if topic["error_code"]
        }
        leaders = {
            Partition(topic["name"], partition["partition_index"]): partition["leader_id"]
            for topic in told
            for partition in topic["partitions"]
        }
        return dict(sorted(leaders.items())), unknown

    def starts(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return self._offsets(partitions, EARLIEST)

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        return self._offsets(partitions, LATEST)

    def since(
        self, partitions: Iterable[Partition], timestamp_ms: int
    ) -> dict[Partition, int | None]:
        """The first offset with this timestamp or a later one; None where there is none."""
        found = self._offsets(partitions, timestamp_ms)
        return {at: None if offset < 0 else offset for at, offset in found.items()}

    def _offsets(self, partitions: Iterable[Partition], timestamp: int) -> dict[Partition, int]:
        asked = {TopicPartition(*at): timestamp for at in partitions}
        found = self._ask(lambda: self._admin.list_partition_offsets(dict(asked))) if asked else {}
        return {Partition(*at): found[at].offset for at in asked}

    def alter(self, group: str, offsets: Mapping[Partition, int]) -> None:
        """Commit the offsets for a group without members; raises RefusedError for any refused."""
        asked = {
            TopicPartition(*at): OffsetAndMetadata(offset, "", -1) for at, offset in offsets.items()
        }
        self._ask(partial(self._alter, group, asked))

    def _alter(self, group: str, asked: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for error in self._admin.alter_group_offsets(group, asked).values():
            if error is not kafka_errors.NoError:
                raise error

    def delete_groups(self, groups: Iterable[str]) -> dict[str, Refusal | None]:
        left = list(dict.fromkeys(groups))
        results: dict[str, Refusal | None] = {}

        def delete() -> None:
            for name, said in self._admin.delete_groups(list(left)).items():
                error = kafka_errors.NoError if said == "OK" else getattr(kafka_errors, said)
                if not issubclass(error, PASSING):
                    results[name] = None if said == "OK" else refused(error.errno)
                    left.remove(name)
            if left:
                # Those that are gone must not be asked for again.
                raise kafka_errors.NotCoordinatorError

        if left:
            self._ask(delete)
        return results

    def delete_offsets(
        self, group: str, partitions: Iterable[Partition]
    ) -> dict[Partition, Refusal | None]:
        """Raises RefusedError where the group is refused."""
        asked = [TopicPartition(*at) for at in partitions]
        results = self._ask(lambda: self._admin.delete_group_offsets(group, asked))
        return {
            Partition(*at): None if error is kafka_errors.NoError else refused(error.errno)
            for at, error in results.items()
        }

    def _ask(self, request: Callable[[], T]) -> T:
        """The answer, waiting for what passes; raises CommandError."""
        deadline = time.monotonic() + self._timeout_ms / 1000
        while True:
            try:
                return request()
            except PASSING as error:
                if time.monotonic() > deadline:
                    raise _nobody(self._bootstrap, self._timeout_ms) from error
                # kafka-python remembers who coordinates, and has no public way to forget it.
                self._admin._manager.cluster._coordinators.clear()
            except kafka_errors.BrokerResponseError as error:
                raise RefusedError(refused(error.errno or -1)) from error
            except kafka_errors.KafkaTimeoutError as error:
                raise _nobody(self._bootstrap, self._timeout_ms) from error
            except kafka_errors.KafkaError as error:
                raise CommandError(str(error)) from error
            time.sleep(RETRY_SECONDS)
