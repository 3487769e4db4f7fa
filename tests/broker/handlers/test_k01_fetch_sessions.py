"""Fetch sessions (KIP-227) by requests and responses, with the responses of Kafka 4.3."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode
from kohort.broker.security.quotas import entity_of
from kohort.protocol.budgets import FIRST_STEPS_MAX
from kohort.topics.registry_log import ClientQuotaRecord
from support.broker import BrokerHarness, PendingRequest, batch

SIZE = len(batch(b"x"))
UNKNOWN = ErrorCode.unknown_topic_or_partition

Result = list[tuple[Any, int, Any]]
"""(topic, partition, number of batches of SIZE or the error) for each partition in a response."""


class SessionClient:
    """A client that keeps its fetch session. Topics are names, or ids from version 13 on."""

    def __init__(self, broker: BrokerHarness, version: int) -> None:
        self.broker, self.version = broker, version
        self.session_id, self.epoch = 0, 0
        self.by_id = version >= 13
        self._key = "topic_id" if self.by_id else "topic"

    def fetch(self, *args: Any, **values: Any) -> Result:
        """Return the result of a response that is sent immediately."""
        return self.receive(self.send(*args, **values))

    def send(
        self,
        topics: Mapping[Any, Mapping[int, int]] | Iterable[tuple[Any, Mapping[int, int]]] = (),
        forgotten: Mapping[Any, Sequence[int]] | None = None,
        *,
        session: tuple[int, int] | None = None,
        **values: Any,
    ) -> PendingRequest:
        """Send a request. `topics`: the fetch offset of each partition."""
        session_id, epoch = session or (self.session_id, self.epoch)
        pairs = topics.items() if isinstance(topics, Mapping) else topics
        return self.broker.send(
            "Fetch",
            self.version,
            min_bytes=1,
            session_id=session_id,
            session_epoch=epoch,
            topics=[self._topic(topic, offsets) for topic, offsets in pairs],
            forgotten_topics_data=[
                {self._key: topic, "partitions": indexes}
                for topic, indexes in (forgotten or {}).items()
            ],
            **values,
        )

    def _topic(self, topic: Any, offsets: Mapping[int, int]) -> dict[str, Any]:
        partitions = [
            {"partition": index, "fetch_offset": offset, "partition_max_bytes": 2**20}
            for index, offset in offsets.items()
        ]
        return {self._key: topic, "partitions": partitions}

    def receive(self, pending: PendingRequest) -> Result:
        """Continue the session with the response."""
        response = pending.response
        assert response.error_code is ErrorCode.none
        self.session_id = response.session_id
        self.epoch = self.epoch + 1 if response.session_id else 0
        return [
            (
                getattr(topic, self._key),
                partition.partition_index,
                partition.error_code or len(partition.records) // SIZE,
            )
            for topic in response.responses
            for partition in topic.partitions
        ]


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness()
    broker.create_topic("orders", 3)
    return broker


def id_of(broker: BrokerHarness, name: str = "orders") -> UUID:
    return broker.topic(name).id


@pytest.fixture(params=[7, 11, 12, 13, 18])
def client(request: pytest.FixtureRequest, broker: BrokerHarness) -> SessionClient:
    return SessionClient(broker, request.param)


@pytest.fixture
def orders(client: SessionClient, broker: BrokerHarness) -> Any:
    """Return the id or the name of the topic, as this client requests it."""
    return id_of(broker) if client.by_id else "orders"


def test_the_final_epoch_and_old_versions_create_no_session(broker: BrokerHarness) -> None:
    client = SessionClient(broker, 12)
    client.fetch({"orders": {0: 0}}, session=(0, -1))
    assert client.session_id == 0
    assert broker.send_fetch("orders", {0: 0}, version=6, max_wait_ms=0).is_done
    assert len(broker.node.fetch_sessions) == 0


def test_an_unknown_isolation_level_still_uses_up_the_epoch(
    client: SessionClient, orders: Any
) -> None:
    client.fetch({orders: {0: 0}})
    response = client.send(isolation_level=7).response
    stumbled = ErrorCode.unknown_server_error
    assert (response.error_code, response.session_id) == (stumbled, client.session_id)
    client.epoch += 1
    assert client.fetch() == []


# --- long polls


def test_unknown_partitions_do_not_end_a_long_poll(client: SessionClient, orders: Any) -> None:
    client.fetch({orders: {0: 0, 9: 0}})
    asked = client.send(max_wait=500)
    assert not asked.is_done
    client.broker.advance(500)
    assert client.receive(asked) == [(orders, 9, UNKNOWN)]


def test_a_newer_request_of_the_session_fails_the_waiting_one(
    client: SessionClient, orders: Any
) -> None:
    client.fetch({orders: {0: 0}})
    parked = client.send(max_wait=500)
    client.send(session=(client.session_id, 2))
    client.broker.advance(500)
    response = parked.response
    error = ErrorCode.invalid_fetch_session_epoch
    assert (response.error_code, response.session_id) == (error, client.session_id)
    assert response.responses == ()


def test_a_waiting_request_gets_a_response_after_its_session_was_closed(
    broker: BrokerHarness, client: SessionClient, orders: Any
) -> None:
    client.fetch({orders: {0: 0}})
    parked = client.send(max_wait=500)
    client.send({orders: {0: 0}}, session=(client.session_id, -1))
    broker.send_produce("orders", {0: batch(b"x")})
    assert client.receive(parked) == [(orders, 0, 1)]
    assert client.send().response.error_code is ErrorCode.fetch_session_id_not_found


# --- deleted topics


def test_a_created_topic_is_a_change(broker: BrokerHarness) -> None:
    client = SessionClient(broker, 12)
    assert client.fetch({"orders": {0: 0}, "later": {0: 0}})[1:] == [("later", 0, UNKNOWN)]
    assert client.fetch() == [("later", 0, UNKNOWN)], "every response contains the error"
    broker.create_topic("later")
    assert client.fetch() == [("later", 0, 0)]
    assert client.fetch() == []


def delete(broker: BrokerHarness, name: str) -> None:
    broker.topics.delete(broker.topic(name))
    broker.run_loop()


def test_a_recreated_topic_continues_by_name(broker: BrokerHarness) -> None:
    client = SessionClient(broker, 12)
    broker.produce("orders", batch(b"x"))
    client.fetch({"orders": {0: 1, 1: 0}})
    delete(broker, "orders")
    assert client.fetch() == [("orders", 0, UNKNOWN), ("orders", 1, UNKNOWN)]
    broker.create_topic("orders", 2)
    assert client.fetch() == [
        ("orders", 0, ErrorCode.offset_out_of_range),
        ("orders", 1, 0),
    ]


@pytest.mark.parametrize("version", [13, 18])
def test_the_id_of_a_deleted_topic_is_resolved_by_its_name(
    broker: BrokerHarness, version: int
) -> None:
    client, gone, stranger = SessionClient(broker, version), id_of(broker), uuid4()
    client.fetch({gone: {0: 0, 2: 0}, stranger: {0: 0}})
    delete(broker, "orders")
    unknown_id = (stranger, 0, ErrorCode.unknown_topic_id)
    assert client.fetch() == [unknown_id, (gone, 0, UNKNOWN), (gone, 2, UNKNOWN)]
    broker.create_topic("orders", 2)
    assert client.fetch() == [
        (gone, 0, ErrorCode.inconsistent_topic_id),
        unknown_id,
        (gone, 2, UNKNOWN),
    ]
    # A new session has never resolved the id, so the name does not apply.
    other = SessionClient(broker, version)
    assert other.fetch({gone: {0: 0}}) == [(gone, 0, ErrorCode.unknown_topic_id)]
    assert client.fetch((), {gone: [0, 2]}) == [unknown_id]


def test_the_id_of_a_recreated_topic_is_not_waited_for(broker: BrokerHarness) -> None:
    client, gone = SessionClient(broker, 18), id_of(broker)
    client.fetch({gone: {0: 0}})
    delete(broker, "orders")
    broker.create_topic("orders", 1)
    asked = client.send(max_wait=500)
    assert client.receive(asked) == [(gone, 0, ErrorCode.inconsistent_topic_id)]


# --- order and repetition


def test_unknown_partitions_come_last_with_unknown_ids_first(broker: BrokerHarness) -> None:
    client, orders, stranger = SessionClient(broker, 18), id_of(broker), uuid4()
    result = client.fetch({orders: {9: 0, 1: 0}, stranger: {0: 0}})
    assert [each[:2] for each in result] == [(orders, 1), (stranger, 0), (orders, 9)]


def test_the_last_entry_of_a_repeated_partition_counts(broker: BrokerHarness) -> None:
    client = SessionClient(broker, 12)
    assert client.fetch([("orders", {0: 99}), ("orders", {0: 0})]) == [("orders", 0, 0)]


def test_a_request_that_is_outdated_while_it_is_measured_does_not_change_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client has quotas, and another connection that continues the session."""
    monkeypatch.setattr("kohort.broker.handlers.k01_fetch.PARTITIONS_PER_STEP", 1)
    count = FIRST_STEPS_MAX - 10  # the session is resumed at once, and the rest runs in slices
    errors = set()
    for steps in itertools.count(step=5):
        broker = BrokerHarness()
        broker.create_topic("orders", count)
        broker.produce("orders", batch(b"x"), 1)
        broker.topics.change(
            ClientQuotaRecord(entity_of({"client-id": None}), {"consumer_byte_rate": 1e9})
        )
        client = SessionClient(broker, 12)
        pending = client.send({"orders": {0: 0}})
        broker.run_loop()
        client.receive(pending)
        pending = client.send({"orders": dict.fromkeys(range(1, count), 0)})
        for _ in range(steps):
            if broker.callbacks:
                broker.callbacks.pop(0)()
        if pending.is_done:
            break
        client.epoch += 1
        newer = client.send(forgotten={"orders": [1]})
        broker.run_loop()
        assert newer.response.error_code is ErrorCode.none
        errors.add(pending.response.error_code)
    assert errors == {ErrorCode.none, ErrorCode.invalid_fetch_session_epoch}
