"""TxnOffsetCommit (key 28): commits offsets in a transaction.

v2 committed_leader_epoch · v3 flexible, generation_id, member_id, group_instance_id (KIP-447) ·
v4 TRANSACTION_ABORTABLE · v5 adds the offsets partition to the transaction (KIP-890).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from uuid import UUID

from ...coordinator.commands import CommitEntry, CommitResult, OffsetCommit, TxnOffsetCommit
from ...coordinator.transactions.states import TopicPartition
from ...log.errors import InvalidProducerEpoch
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ...topics.names import OFFSETS_TOPIC
from ..cluster import Node
from ..gather import merge_topics
from ..network.request import Message, RequestContext, in_slices
from .authorization import allows_group, allows_topic, allows_transactional_id
from .common import PartitionResponse, TopicResponse
from .transactions import VerificationSupport, verify


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    request = context.request
    if not allows_transactional_id(context, node, AclOperation.WRITE, request.transactional_id):
        _respond_to_all(context, ErrorCode.transactional_id_authorization_failed)
        return
    if not allows_group(context, node, AclOperation.READ, request.group_id):
        _respond_to_all(context, ErrorCode.group_authorization_failed)
        return
    rejected: list[TopicResponse] = []
    entries: list[CommitEntry] = []
    offsets: list[tuple[int]] = []
    ids: dict[str, UUID] = {}
    for topic in request.topics:
        found, error = node.view.get(topic.name), ErrorCode.unknown_topic_or_partition
        if not allows_topic(context, node, AclOperation.READ, topic.name):
            found, error = None, ErrorCode.topic_authorization_failed
        if found is not None:
            ids.setdefault(topic.name, found.id)
        absent = []
        for each in topic.partitions:
            yield
            index = each.partition_index
            if found is None or found.partition(index) is None:
                absent.append(PartitionResponse(index, error))
                continue
            epoch = each.committed_leader_epoch if context.version >= 2 else -1
            metadata = each.committed_metadata
            # As in Kafka, the topic id is not stored.
            entries.append(CommitEntry(topic.name, index, epoch, metadata))
            offsets.append((each.committed_offset,))
        if absent or found is None:
            rejected.append(TopicResponse(topic.name, absent))
        yield
    if not entries:
        context.respond(Message(topics=merge_topics(rejected, ())))
        return
    commit = OffsetCommit(
        request.group_id,
        request.generation_id if context.version >= 3 else -1,
        request.member_id if context.version >= 3 else "",
        request.group_instance_id if context.version >= 3 else None,
        entries,
        offsets,
        None,
        True,
    )
    _verify(context, node, commit, ids, rejected)


def _verify(
    context: RequestContext,
    node: Node,
    commit: OffsetCommit,
    ids: Mapping[str, UUID],
    rejected: Sequence[TopicResponse],
) -> None:
    request = context.request
    producer = request.producer_id, request.producer_epoch

    def fail(error: ErrorCode) -> None:
        errors = (error,) * len(commit.entries)
        _respond(rejected, commit.entries, context, CommitResult(errors))

    if not commit.group_id:
        fail(ErrorCode.invalid_group_id)
        return
    command = TxnOffsetCommit(commit, *producer)
    index = node.coordinators.partition_of(commit.group_id)
    partition = node.topics.partition(OFFSETS_TOPIC, index)
    if partition is not None and partition.leader_id != node.node_id:
        # The request is rejected, and must not add the partition to the transaction.
        _submit(context, node, command, ids, rejected)
        return
    log = None if partition is None else partition.opened_log
    if log is not None:
        try:
            log.producers.validate_epoch(*producer, log.folder.name)
        except InvalidProducerEpoch:
            fail(ErrorCode.invalid_producer_epoch)
            return
        # A marker that waits for a flush is not in the log yet, but already fences the producer.
        is_current = not node.group_commit.is_pending(log)
        if is_current and log.producers.has_open_transaction(*producer):
            _submit(context, node, command, ids, rejected)
            return

    def verified(errors: Mapping[TopicPartition, ErrorCode]) -> None:
        for error in errors.values():
            fail(error)
            return
        _submit(context, node, command, ids, rejected)

    support = VerificationSupport.DEFAULT_ERROR
    if context.version >= 4:
        support = VerificationSupport.GENERIC_ERROR
    if context.version >= 5:
        support = VerificationSupport.ADD_PARTITION
    context.mute_channel()
    verify(node, request.transactional_id, *producer, ((OFFSETS_TOPIC, index),), support, verified)


def _submit(
    context: RequestContext,
    node: Node,
    command: TxnOffsetCommit,
    ids: Mapping[str, UUID],
    rejected: Sequence[TopicResponse],
) -> None:
    """Commit the offsets of topics that still exist under the ids they had when they were resolved.
    A new topic of the same name must not get the offsets of the old topic."""
    entries, offsets = command.commit.entries, command.commit.offsets
    deleted = {name for name, id_ in ids.items() if node.view.by_id(id_) is None}
    if deleted:
        error = ErrorCode.unknown_topic_or_partition
        absent = [
            TopicResponse(each.topic, [PartitionResponse(each.partition, error)])
            for each in entries
            if each.topic in deleted
        ]
        rejected = [*rejected, *absent]
        kept = [index for index, each in enumerate(entries) if each.topic not in deleted]
        if not kept:
            _respond(rejected, (), context, CommitResult(()))
            return
        entries, offsets = [entries[index] for index in kept], [offsets[index] for index in kept]
        commit = command.commit._replace(entries=entries, offsets=offsets)
        command = command._replace(commit=commit)
    respond = partial(_respond, rejected, entries)
    node.coordinators.submit(command, respond, context)


def _respond(
    rejected: Sequence[TopicResponse],
    entries: Sequence[CommitEntry],
    context: RequestContext,
    result: CommitResult,
) -> None:
    errors = iter(result.errors)

    def decided(index: int) -> PartitionResponse:
        error = next(errors)
        if error is ErrorCode.coordinator_load_in_progress and context.version < 2:
            error = ErrorCode.coordinator_not_available
        return PartitionResponse(index, error)

    if rejected:
        committed = [TopicResponse(each.topic, [decided(each.partition)]) for each in entries]
        context.respond(Message(topics=merge_topics(rejected, committed)))
        return
    # As in Kafka, a topic that is requested twice is returned twice.
    topics = [
        TopicResponse(topic.name, [decided(each.partition_index) for each in topic.partitions])
        for topic in context.request.topics
        if topic.partitions
    ]
    context.respond(Message(topics=topics))


def _respond_to_all(context: RequestContext, error: ErrorCode) -> None:
    topics = [
        TopicResponse(
            topic.name,
            [PartitionResponse(each.partition_index, error) for each in topic.partitions],
        )
        for topic in context.request.topics
    ]
    context.respond(Message(topics=topics))
