"""Helpers for transactional requests: submit a command, and verify that partitions are in a
producer's transaction.

Upstream: AddPartitionsToTxnManager, ReplicaManager.maybeSendPartitionsToTransactionCoordinator.
"""

from collections.abc import Callable, Collection, Mapping
from enum import IntEnum
from functools import partial
from typing import Any

from ...coordinator.transactions.commands import (
    AddPartitions,
    PartitionsResult,
    TransactionCommand,
    transaction_error,
)
from ...coordinator.transactions.states import EPOCH_BUMP_VERSION, TopicPartition
from ...protocol.errors import ErrorCode
from ...topics.names import TRANSACTION_TOPIC
from ..cluster import Node


class VerificationSupport(IntEnum):
    """What a version of Produce or TxnOffsetCommit supports (upstream:
    TransactionSupportedOperation)."""

    DEFAULT_ERROR = 0
    GENERIC_ERROR = 1  # TRANSACTION_ABORTABLE
    ADD_PARTITION = 2  # partitions are added instead of being verified


Done = Callable[[Mapping[TopicPartition, ErrorCode]], None]
"""done(errors): called with the errors of the partitions that the producer may not write to."""


def submit(
    node: Node, command: TransactionCommand, respond: Callable[[Any, Any], None], request: Any
) -> None:
    """Submit a command to the coordinator of this node, or reject an empty transactional id."""
    if not command.transactional_id:
        respond(request, transaction_error(command, ErrorCode.invalid_request))
        return
    node.transactions.submit(command, respond, request)


def verify(
    node: Node,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Collection[TopicPartition],
    support: VerificationSupport,
    done: Done,
) -> None:
    """Add the partitions to the producer's transaction, or verify that they are in it."""
    adds = support is VerificationSupport.ADD_PARTITION
    command = AddPartitions(
        transactional_id,
        producer_id,
        producer_epoch,
        partitions,
        client_version=EPOCH_BUMP_VERSION,
        verify_only=not adds,
    )
    index = node.transactions.partition_of(transactional_id)
    coordinator = node.cluster.leader_of(TRANSACTION_TOPIC, index)
    if coordinator is None or not transactional_id:
        error = (
            ErrorCode.coordinator_not_available if transactional_id else ErrorCode.invalid_request
        )
        _verified(command, support, done, PartitionsResult(error))
        return
    respond = partial(_verified, command, support)
    coordinator.transactions.submit(command, respond, done)


def _verified(
    command: AddPartitions, support: VerificationSupport, done: Done, result: PartitionsResult
) -> None:
    error, missing = result
    if error is not ErrorCode.none:
        if error is ErrorCode.producer_fenced:
            error = ErrorCode.invalid_producer_epoch
        done(dict.fromkeys(command.partitions, error))
        return
    error = ErrorCode.transaction_abortable
    if support is VerificationSupport.DEFAULT_ERROR:
        error = ErrorCode.invalid_txn_state
    done(dict.fromkeys(missing, error))
