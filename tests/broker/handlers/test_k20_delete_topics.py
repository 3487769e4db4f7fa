"""DeleteTopics: by name or by id, with all records."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode
from kohort.protocol.budgets import FIRST_STEPS_MAX
from kohort.topics.names import OFFSETS_TOPIC
from support.broker import DATA, BrokerHarness, batch

Pair = tuple[str | None, UUID | None]


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness()
    broker.create_topic("orders", 2)
    return broker


def delete(broker: BrokerHarness, *topics: Pair, version: int = 6, timeout_ms: int = 1000) -> Any:
    if version >= 6:
        states = tuple({"name": name, "topic_id": id_} for name, id_ in topics)
        fields: dict[str, Any] = {"topics": states}
    else:
        fields = {"topic_names": tuple(name for name, _ in topics)}
    return broker.call("DeleteTopics", version, timeout=timeout_ms, **fields).responses


def orders(broker: BrokerHarness) -> UUID:
    return broker.topic().id


@pytest.mark.parametrize("version", range(1, 7))
def test_a_topic_is_deleted_by_name_in_every_version(broker: BrokerHarness, version: int) -> None:
    (gone,) = delete(broker, ("orders", None), version=version)
    assert (gone.name, gone.error_code) == ("orders", ErrorCode.none)
    assert len(broker.topics) == 0
    assert len(broker.restart().topics) == 0


def test_a_topic_is_deleted_by_id(broker: BrokerHarness) -> None:
    id_ = orders(broker)
    (gone,) = delete(broker, (None, id_))
    assert (gone.name, gone.topic_id, gone.error_code) == ("orders", id_, ErrorCode.none)


def test_a_recreated_topic_has_none_of_the_deleted_records(broker: BrokerHarness) -> None:
    broker.produce("orders", batch(b"old"))
    delete(broker, ("orders", None))
    assert not broker.files.exists(DATA / "orders-0")
    broker.create_topic("orders")
    assert broker.fetch("orders").high_watermark == 0


def test_invalid_deletions_are_rejected(broker: BrokerHarness) -> None:
    stranger, id_ = uuid4(), orders(broker)
    responses = delete(broker, ("nobody", None), (None, stranger), ("orders", id_), (None, None))
    assert [(each.error_code, each.error_message) for each in responses] == [
        (
            ErrorCode.unknown_topic_or_partition,
            "This server does not host this topic-partition.",
        ),
        (ErrorCode.unknown_topic_id, "This server does not host this topic ID."),
        (ErrorCode.invalid_request, "You may not specify both topic name and topic id."),
        (ErrorCode.invalid_request, "Neither topic name nor id were specified."),
    ]
    assert len(broker.topics) == 1


def test_a_repeated_topic_is_not_deleted(broker: BrokerHarness) -> None:
    (twice,) = delete(broker, ("orders", None), ("orders", None))
    assert (twice.error_code, twice.error_message) == (
        ErrorCode.invalid_request,
        "Duplicate topic name.",
    )
    (both,) = delete(broker, ("orders", None), (None, orders(broker)))
    assert both.error_message == "The provided topic name maps to an ID that was already supplied."
    assert len(broker.topics) == 1


@pytest.mark.parametrize("version", range(1, 7))
def test_a_repeated_name_is_rejected_even_if_it_is_unknown(
    broker: BrokerHarness, version: int
) -> None:
    twice, once = delete(
        broker, ("nobody", None), ("nobody", None), ("stranger", None), version=version
    )
    assert (twice.name, twice.error_code) == ("nobody", ErrorCode.invalid_request)
    assert once.error_code is ErrorCode.unknown_topic_or_partition


def test_a_repeated_name_does_not_conflict_with_the_id(broker: BrokerHarness) -> None:
    id_ = orders(broker)
    twice, gone = delete(broker, ("orders", None), ("orders", None), (None, id_))
    assert (twice.error_message, gone.error_code) == ("Duplicate topic name.", ErrorCode.none)
    assert len(broker.topics) == 0
    again, unknown = delete(broker, (None, id_), (None, id_), ("orders", None))
    assert again.error_message == "Duplicate topic id."
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition


def test_each_entry_without_exactly_one_of_name_and_id_gets_an_error(broker: BrokerHarness) -> None:
    both = ("orders", orders(broker))
    responses = delete(broker, (None, None), both, both, (None, None))
    assert [each.error_code for each in responses] == [ErrorCode.invalid_request] * 4


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_timeout_of_zero_deletes_and_validates_nothing(
    broker: BrokerHarness, timeout_ms: int
) -> None:
    responses = delete(
        broker, ("orders", None), ("no", None), (None, None), version=6, timeout_ms=timeout_ms
    )
    assert [each.error_code for each in responses] == [ErrorCode.request_timed_out] * 3
    (twice,) = delete(broker, ("no", None), ("no", None), version=5, timeout_ms=timeout_ms)
    assert twice.error_code is ErrorCode.invalid_request
    assert len(broker.topics) == 1


def test_the_offsets_topic_cannot_be_deleted(broker: BrokerHarness) -> None:
    broker.topics.ensure_coordinator_topic(OFFSETS_TOPIC)
    (rejected,) = delete(broker, ("__consumer_offsets", None))
    assert rejected.error_code is ErrorCode.invalid_topic_exception


@pytest.mark.parametrize(
    ("version", "error"),
    [(2, ErrorCode.invalid_request), (6, ErrorCode.topic_deletion_disabled)],
)
def test_topic_deletion_can_be_disabled(version: int, error: ErrorCode) -> None:
    broker = BrokerHarness({"delete.topic.enable": "false"})
    broker.create_topic("orders")
    topics = ("orders", None), ("unknown", None)
    assert [each.error_code for each in delete(broker, *topics, version=version)] == [error] * 2


def test_a_deletion_that_does_not_become_durable_is_an_error(broker: BrokerHarness) -> None:
    broker.produce("orders", batch(b"kept"))
    broker.files.fail("sync")
    (rejected,) = delete(broker, ("orders", None))
    assert rejected.error_code is ErrorCode.kafka_storage_error
    assert len(broker.fetch("orders").records) == len(batch(b"kept"))
    assert broker.restart().topics.get("orders") is not None


def test_the_name_of_a_deleted_topic_is_free_once_durable(broker: BrokerHarness) -> None:
    broker.topics.delete(broker.topic())
    response = broker.call(
        "Metadata",
        12,
        topics=({"name": "orders", "topic_id": None},),
        include_topic_authorized_operations=False,
    )
    assert response.topics[0].error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize(
    ("is_by_id", "error"),
    [(False, ErrorCode.unknown_topic_or_partition), (True, ErrorCode.unknown_topic_id)],
)
def test_a_topic_that_is_recreated_during_the_request_is_not_deleted(
    broker: BrokerHarness, is_by_id: bool, error: ErrorCode
) -> None:
    names = [f"t{number}" for number in range(FIRST_STEPS_MAX)]
    for name in names:
        broker.create_topic(name)
    old = broker.topic()
    last = {"name": None, "topic_id": old.id} if is_by_id else {"name": "orders", "topic_id": None}
    topics = [*({"name": name, "topic_id": None} for name in names), last]
    pending = broker.send("DeleteTopics", topics=topics, timeout=1000)
    while broker.topics.get("t0") is not None:  # all topics are validated before one is deleted
        broker.callbacks.pop(0)()
    broker.topics.delete(old)
    new = broker.topics.create("orders", 1, {})
    broker.run_loop()
    *others, recreated = pending.response.responses
    assert {each.error_code for each in others} == {ErrorCode.none}
    assert recreated.error_code == error
    assert broker.topics.get("orders") is new


def test_a_deletion_does_not_wait_for_a_stopped_coordinator() -> None:
    broker = BrokerHarness(nodes=2)
    broker.create_topic("orders")
    broker.topics.ensure_coordinator_topic(OFFSETS_TOPIC)
    cluster = broker.node.cluster
    for change in (cluster.node_stopping(1), cluster.node_stopping(2), cluster.node_started(1)):
        list(change)
    index = broker.node.coordinators.partition_of("g")
    assert cluster.leader_of(OFFSETS_TOPIC, index) is None
    assert [each.error_code for each in delete(broker, ("orders", None))] == [ErrorCode.none]
    assert not broker.topics.is_being_deleted("orders")


def test_two_clients_delete_the_same_topics_at_once(broker: BrokerHarness) -> None:
    names = [f"t{number}" for number in range(FIRST_STEPS_MAX * 2)]
    for name in names:
        broker.create_topic(name)
    topics = [{"name": name, "topic_id": None} for name in names]
    both = [broker.send("DeleteTopics", topics=topics, timeout=1000) for _ in range(2)]
    broker.run_loop()
    errors = [[each.error_code for each in pending.response.responses] for pending in both]
    expected = {ErrorCode.none, ErrorCode.unknown_topic_or_partition}
    assert [set(each) for each in zip(*errors, strict=True)] == [expected] * len(names)


def test_the_start_offsets_of_a_deleted_topic_are_removed_in_one_write(
    broker: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has a line for each partition."""
    broker.create_topic("wide", 300)
    offsets = broker.topics.checkpoints.start_offsets
    offsets.advance({f"wide-{n}": 5 for n in range(300)} | {"other-0": 7})
    written: list[str] = []
    replace = broker.files.replace
    monkeypatch.setattr(
        broker.files, "replace", lambda path, data: (written.append(path.name), replace(path, data))
    )
    broker.call("DeleteTopics", 5, topic_names=["wide"], timeout=60_000)
    assert written.count("log-start-offset-checkpoint") == 1
    assert offsets.get("wide-299") == 0
    assert offsets.get("other-0") == 7
