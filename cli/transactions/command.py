"""The commands of kafka-transactions. Lists are sorted; Kafka's tool prints them in no particular
order."""

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafka import TopicPartition
from kafka.admin._transactions import AbortTransactionSpec, ProducerState
from kafka.protocol.metadata import CoordinatorType
from kafka.protocol.producer import InitProducerIdRequest

from ...printable import printable
from ..groups.cluster import Cluster, Partition, client_arguments
from ..groups.connecting import TIMEOUT_MS, admin_client, error_class
from ..groups.errors import CommandError, RequestFailed, UsageError

_TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
_TRANSACTIONAL_ID_NOT_FOUND: Final = 105
_NO_TRANSACTION: Final = -1
_MINUTE_MS: Final = 60_000


def run(args: argparse.Namespace) -> int:
    """Run the command. Return 1 if flags are invalid or the cluster returns an error, else 0."""
    action = ACTIONS[args.action]
    try:
        _check(args)
        config = client_arguments(Path(args.command_config)) if args.command_config else {}
        with admin_client(args.bootstrap_server, TIMEOUT_MS, config) as admin:
            action(args, Transactions(admin, args.bootstrap_server))
    except _Failed as error:
        message = printable(str(error)).rstrip(".")
        text = f"{message}. Enable debug logging for additional detail."
        print(text, file=sys.stderr)
        return 1
    except (UsageError, CommandError) as error:
        print(printable(str(error)), file=sys.stderr)
        return 1
    return 0


def _check(args: argparse.Namespace) -> None:
    """Check the flags in the order of Kafka's tool. Raises UsageError with Kafka's message."""
    if args.action == "abort" and args.start_offset is None:
        if args.producer_id is None:
            raise UsageError(
                "The transaction to abort must be identified either with --start-offset (for "
                "brokers on 3.0 or above) or with --producer-id, --producer-epoch, and "
                "--coordinator-epoch (for older brokers)"
            )
        for name in ("producer_epoch", "coordinator_epoch"):
            if getattr(args, name) is None:
                flag = name.replace("_", "-")
                raise UsageError(f"Missing required argument --{flag}")
    if args.action == "find-hanging":
        if args.topic is None and args.broker_id is None:
            raise UsageError(
                "The `find-hanging` command requires either --topic or --broker-id to limit the "
                "scope of the search"
            )
        if args.partition is not None and args.topic is None:
            raise UsageError("The --partition argument requires --topic to be provided")


class _Failed(CommandError):
    """A request failed."""

    @property
    def code(self) -> int | None:
        """The broker's error code; None if no broker responded."""
        cause = self.__cause__
        return cause.error.code if isinstance(cause, RequestFailed) else None


class OpenTransaction(NamedTuple):
    partition: TopicPartition
    producer: ProducerState


class Transactions:
    """The transactions and producers of a cluster. All methods raise CommandError; `what` is the
    beginning of the error's message."""

    def __init__(self, admin: Any, bootstrap: str) -> None:
        self._admin = admin
        self._cluster = Cluster(admin, bootstrap, TIMEOUT_MS)

    def listed(self, what: str, **filters: Any) -> list[tuple[str, int, int, str]]:
        """Return (transactional id, coordinator, producer id, state)."""
        listed = self._send(what, partial(self._admin.list_transactions, **filters))
        return sorted(
            (each.transactional_id, node_id, each.producer_id, each.state.value)
            for node_id, transactions in listed.items()
            for each in transactions
        )

    def describe(self, what: str, transactional_id: str) -> Any | None:
        """Return kafka-python's description, or None if the id does not exist."""
        # Given several ids, kafka-python describes no transaction if one of the ids does not exist.
        describe = partial(self._admin.describe_transactions, [transactional_id])
        try:
            return self._send(what, describe)[transactional_id]
        except _Failed as error:
            if error.code == _TRANSACTIONAL_ID_NOT_FOUND:
                return None
            raise

    def producers(
        self, what: str, partitions: Sequence[TopicPartition], broker_id: int | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        describe = partial(self._admin.describe_producers, partitions, broker_id)
        described = self._send(what, describe)
        return {partition: list(each.active_producers) for partition, each in described.items()}

    def abort(self, what: str, spec: AbortTransactionSpec) -> None:
        self._send(what, partial(self._admin.abort_transaction, spec))

    def fence(self, what: str, transactional_id: str) -> None:
        """Initialize a producer, which fences the current one and aborts its open transaction."""
        # kafka-python has no public method for these requests.
        manager, find = self._admin._manager, self._admin._find_coordinator_id
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS
        )

        def initialize() -> None:
            node_id = manager.run(find, transactional_id, CoordinatorType.TRANSACTION)
            response = manager.run(partial(manager.send, request, node_id=node_id))
            if response.error_code:
                raise error_class(response.error_code)

        self._send(what, initialize)

    def partitions(
        self, what: str, topic: str | None, broker_id: int | None
    ) -> list[TopicPartition]:
        """Return the partitions of a topic, or of all topics, that have a replica on the broker."""
        names = None if topic is None else [topic]

        def describe() -> Any:
            topics = self._admin.describe_topics(names)
            for each in topics:
                if each["error_code"]:
                    raise error_class(each["error_code"])
            return topics

        return sorted(
            TopicPartition(each["name"], partition["partition_index"])
            for each in self._send(what, describe)
            for partition in each["partitions"]
            if broker_id is None or broker_id in partition["replica_nodes"]
        )

    def _send(self, what: str, request: Any) -> Any:
        try:
            return self._cluster.retry(request)
        except RequestFailed as error:
            raise _Failed(f"{what}: {error.error.message}") from error
        except CommandError as error:
            raise _Failed(f"{what}: {error}") from error


# --- commands


def list_transactions(args: argparse.Namespace, transactions: Transactions) -> None:
    filters = {
        "duration_filter_ms": args.duration_filter,
        "transactional_id_pattern": args.transactional_id_pattern,
    }
    rows = transactions.listed("Failed to list transactions", **filters)
    _print_table(("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), rows)


def describe(args: argparse.Namespace, transactions: Transactions) -> None:
    name = args.transactional_id
    what = f"Failed to describe transaction state of transactional-id `{name}`"
    found = transactions.describe(what, name)
    if found is None:
        raise _Failed(
            f"{what}: DescribeTransactions request for transactionalId `{name}` failed because "
            "the ID could not be found"
        )
    start_ms = found.transaction_start_time_ms
    row = (
        found.coordinator_id,
        name,
        found.producer_id,
        found.producer_epoch,
        found.state.value,
        found.transaction_timeout_ms,
        *((start_ms, _now_ms() - start_ms) if start_ms >= 0 else (None, None)),
        ",".join(str(Partition(*each)) for each in sorted(found.topic_partitions)),
    )
    heading = (
        *("CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState"),
        *("TransactionTimeoutMs", "CurrentTransactionStartTimeMs", "TransactionDurationMs"),
        "TopicPartitions",
    )
    _print_table(heading, [row])


def describe_producers(args: argparse.Namespace, transactions: Transactions) -> None:
    partition = TopicPartition(args.topic, args.partition)
    where = "leader" if args.broker_id is None else f"broker {args.broker_id}"
    what = f"Failed to describe producers for partition {Partition(*partition)} on {where}"
    found = transactions.producers(what, [partition], args.broker_id)[partition]
    rows = [
        (
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp,
            _start_offset(each),
        )
        for each in sorted(found)
    ]
    heading = (
        *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence"),
        *("LastTimestamp", "CurrentTransactionStartOffset"),
    )
    _print_table(heading, rows)


def abort(args: argparse.Namespace, transactions: Transactions) -> None:
    partition = TopicPartition(args.topic, args.partition)
    name = Partition(*partition)
    if args.start_offset is None:
        producer = args.producer_id, args.producer_epoch, max(args.coordinator_epoch, 0)
    else:
        what = f"Failed to validate producer state for partition {name}"
        found = transactions.producers(what, [partition])[partition]
        same = [each for each in found if _start_offset(each) == args.start_offset]
        if not same:
            raise CommandError(
                "Could not find any open transactions starting at offset "
                f"{args.start_offset} on partition {name}"
            )
        epoch = max(same[0].coordinator_epoch, 0)
        producer = same[0].producer_id, same[0].producer_epoch, epoch
    spec = AbortTransactionSpec(partition, *producer)
    fields = f"topicPartition={name}, producerId={spec.producer_id}, "
    fields += f"producerEpoch={spec.producer_epoch}, coordinatorEpoch={spec.coordinator_epoch}"
    transactions.abort(f"Failed to abort transaction AbortTransactionSpec({fields})", spec)


def terminate(args: argparse.Namespace, transactions: Transactions) -> None:
    name = args.transactional_id
    what = f"Failed to force terminate transactionalId `{name}`"
    try:
        transactions.fence(what, name)
    except _Failed as error:
        if error.code is None:
            raise
        is_denied = error.code == _TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        reason = "transactional ID authorization failure" if is_denied else "unexpected error"
        text = f"{what}: InitProducerId request for transactionalId `{name}` failed due to {reason}"
        raise _Failed(text) from error


def find_hanging(args: argparse.Namespace, transactions: Transactions) -> None:
    before_ms = _now_ms() - args.max_transaction_timeout * _MINUTE_MS
    if args.partition is None:
        what = "Failed to list topics" if args.topic is None else "Failed to describe 1 topics"
        partitions = transactions.partitions(what, args.topic, args.broker_id)
    else:
        partitions = [TopicPartition(args.topic, args.partition)]
    what = f"Failed to describe producers for {len(partitions)} partitions"
    candidates = [
        OpenTransaction(partition, each)
        for partition, producers in transactions.producers(what, partitions, args.broker_id).items()
        for each in producers
        if _start_offset(each) is not None and each.last_timestamp < before_ms
    ]
    now_ms = _now_ms()
    rows = [
        (
            each.partition.topic,
            each.partition.partition,
            each.producer.producer_id,
            each.producer.producer_epoch,
            each.producer.coordinator_epoch,
            _start_offset(each.producer),
            each.producer.last_timestamp,
            (now_ms - each.producer.last_timestamp) // _MINUTE_MS,
        )
        for each in sorted(_hanging(candidates, transactions))
    ]
    heading = (
        *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch"),
        *("StartOffset", "LastTimestamp", "Duration(min)"),
    )
    _print_table(heading, rows)


def _hanging(
    candidates: Sequence[OpenTransaction], transactions: Transactions
) -> Iterator[OpenTransaction]:
    """Yield the candidates that belong to no ongoing transaction of a coordinator."""
    producer_ids = sorted({each.producer.producer_id for each in candidates})
    if not producer_ids:
        return
    what = f"Failed to list transactions for {len(producer_ids)} producers"
    listed = transactions.listed(what, producer_id_filters=producer_ids)
    names = {producer_id: name for name, _, producer_id, _ in listed}
    what = f"Failed to describe {len(names)} transactions"
    described = {
        producer_id: transactions.describe(what, name) for producer_id, name in names.items()
    }
    for each in candidates:
        found = described.get(each.producer.producer_id)
        if found is None or each.partition not in found.topic_partitions:
            yield each


ACTIONS: Final = {
    "list": list_transactions,
    "describe": describe,
    "describe-producers": describe_producers,
    "abort": abort,
    "forceTerminateTransaction": terminate,
    "find-hanging": find_hanging,
}


def _start_offset(producer: ProducerState) -> int | None:
    offset: int = producer.current_transaction_start_offset
    return None if offset == _NO_TRANSACTION else offset


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _print_table(heading: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table like ToolsUtils.prettyPrintTable, with escaped names."""
    lines = [heading, *([printable(str(each)) for each in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (f"{cell:<{width}}\t" for cell, width in zip(line, widths, strict=True))
        print("".join(cells))
