"""Fetch sessions (KIP-227) by requests and responses, with the responses of Kafka 4.3."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode
from session_client import SIZE, Client
from support.broker import World, batch, milliseconds

UNKNOWN = ErrorCode.unknown_topic_or_partition


@pytest.fixture
def world() -> World:
    world = World()
    world.make("orders", 3)
    return world


def id_of(world: World, name: str = "orders") -> UUID:
    topic = world.topics.get(name)
    assert topic is not None
    return topic.id


@pytest.fixture(params=[7, 11, 12, 13, 18])
def client(request: pytest.FixtureRequest, world: World) -> Client:
    return Client(world, request.param)


@pytest.fixture
def orders(client: Client, world: World) -> Any:
    """The topic by id or name, as this client requests it."""
    return id_of(world) if client.by_id else "orders"


def test_a_full_request_creates_a_session_and_gets_all_partitions(
    client: Client, orders: Any
) -> None:
    result = client.fetch({orders: {0: 0, 1: 0, 9: 0}})
    assert result == [(orders, 0, 0), (orders, 1, 0), (orders, 9, UNKNOWN)]
    assert client.session_id > 0


def test_the_final_epoch_and_old_versions_create_no_session(world: World) -> None:
    client = Client(world, 12)
    client.fetch({"orders": {0: 0}}, session=(0, -1))
    assert client.session_id == 0
    assert world.send_fetch("orders", {0: 0}, version=6, max_wait_ms=0).is_over
    assert len(world.node.fetch_sessions) == 0


def test_an_incremental_response_contains_only_changed_partitions(
    world: World, client: Client, orders: Any
) -> None:
    client.fetch({orders: {0: 0, 1: 0, 2: 0}})
    assert client.fetch() == []
    world.produce("orders", batch(b"x"), 1)
    assert client.fetch() == [(orders, 1, 1)]
    assert client.fetch() == [(orders, 1, 1)], "the session requests the old offset again"
    assert client.fetch({orders: {1: 1}}) == []


def test_a_new_start_offset_is_a_change(world: World, client: Client, orders: Any) -> None:
    world.produce("orders", batch(b"x"))
    client.fetch({orders: {0: 1, 1: 0}})
    assert client.fetch() == []
    parts = world.part("DeleteRecords", 2, "DeleteRecordsPartition", partition_index=0, offset=1)
    topic = world.part("DeleteRecords", 2, "DeleteRecordsTopic", name="orders", partitions=(parts,))
    world.ask("DeleteRecords", 2, topics=(topic,), timeout=milliseconds(1000))
    assert client.fetch() == [(orders, 0, 0)]
    assert client.fetch() == []


def test_records_beyond_the_limit_show_in_the_high_watermark(
    world: World, client: Client, orders: Any
) -> None:
    client.fetch({orders: {0: 0, 1: 0}})
    for index in (0, 1):
        world.produce("orders", batch(b"x"), index)
    assert client.fetch(max_bytes=SIZE) == [(orders, 0, 1), (orders, 1, 0)]
    # Partitions without records are first now.
    assert client.fetch(max_bytes=SIZE) == [(orders, 1, 1)]
    assert client.fetch(max_bytes=SIZE) == [(orders, 0, 1)]


def test_partitions_are_added_and_forgotten(world: World, client: Client, orders: Any) -> None:
    client.fetch({orders: {0: 0}})
    assert client.fetch({orders: {1: 0}}) == [(orders, 1, 0)]
    world.produce("orders", batch(b"x"), 0)
    assert client.fetch((), {orders: [0]}) == []
    assert client.fetch({orders: {0: 0}}) == [(orders, 0, 1)]


def test_a_session_without_partitions_is_closed_and_the_request_is_full(
    client: Client, orders: Any
) -> None:
    client.fetch({orders: {0: 0}})
    last = client.session_id
    result = client.fetch({orders: {1: 0}}, {orders: [0, 1]})
    assert result == [(orders, 1, 0)]
    assert client.session_id == 0
    response = client.send(session=(last, 2)).answer
    assert response.error_code is ErrorCode.fetch_session_id_not_found


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_request_closes_the_session_that_it_names(
    client: Client, orders: Any, epoch: int
) -> None:
    client.fetch({orders: {0: 0}})
    last = client.session_id
    client.fetch({orders: {0: 0}}, session=(last, epoch))
    assert (client.session_id == 0) == (epoch == -1)
    assert client.session_id != last or epoch == -1
    assert len(client.world.node.fetch_sessions) == (epoch == 0)


@pytest.mark.parametrize(
    ("session_id", "epoch", "error"),
    [
        (None, 3, ErrorCode.invalid_fetch_session_epoch),
        (None, -2, ErrorCode.invalid_fetch_session_epoch),
        (0, 1, ErrorCode.fetch_session_id_not_found),
        (12345, 1, ErrorCode.fetch_session_id_not_found),
    ],
)
def test_a_rejected_request_changes_nothing(
    client: Client, orders: Any, session_id: int | None, epoch: int, error: ErrorCode
) -> None:
    client.fetch({orders: {0: 0}})
    named = client.session_id if session_id is None else session_id
    response = client.send({orders: {1: 0}}, session=(named, epoch)).answer
    assert (response.error_code, response.session_id, response.responses) == (error, 0, ())
    assert client.fetch() == []


@pytest.mark.parametrize(("created", "used"), [(12, 13), (13, 12)])
def test_a_session_cannot_mix_topic_names_and_ids(world: World, created: int, used: int) -> None:
    client, other = Client(world, created), Client(world, used)
    client.fetch({id_of(world) if client.by_id else "orders": {0: 0}})
    response = other.send(session=(client.session_id, 1)).answer
    assert response.error_code is ErrorCode.fetch_session_topic_id_error
    assert client.fetch() == []


def test_an_unknown_isolation_level_still_uses_up_the_epoch(client: Client, orders: Any) -> None:
    client.fetch({orders: {0: 0}})
    response = client.send(isolation_level=7).answer
    stumbled = ErrorCode.unknown_server_error
    assert (response.error_code, response.session_id) == (stumbled, client.session_id)
    client.epoch += 1
    assert client.fetch() == []


# --- long polls


def test_an_incremental_long_poll_waits_for_all_partitions_of_the_session(
    world: World, client: Client, orders: Any
) -> None:
    client.fetch({orders: {0: 0, 1: 0}})
    asked = client.send(max_wait=milliseconds(500))
    assert not asked.is_over
    world.send_produce("orders", {1: batch(b"x")})
    assert client.took(asked) == [(orders, 1, 1)]


def test_unknown_partitions_do_not_end_a_long_poll(client: Client, orders: Any) -> None:
    client.fetch({orders: {0: 0, 9: 0}})
    asked = client.send(max_wait=milliseconds(500))
    assert not asked.is_over
    client.world.pass_time(500)
    assert client.took(asked) == [(orders, 9, UNKNOWN)]


def test_a_newer_request_of_the_session_fails_the_waiting_one(client: Client, orders: Any) -> None:
    client.fetch({orders: {0: 0}})
    parked = client.send(max_wait=milliseconds(500))
    client.send(session=(client.session_id, 2))
    client.world.pass_time(500)
    response = parked.answer
    error = ErrorCode.invalid_fetch_session_epoch
    assert (response.error_code, response.session_id) == (error, client.session_id)
    assert response.responses == ()


def test_a_waiting_request_gets_a_response_after_its_session_was_closed(
    world: World, client: Client, orders: Any
) -> None:
    client.fetch({orders: {0: 0}})
    parked = client.send(max_wait=milliseconds(500))
    client.send({orders: {0: 0}}, session=(client.session_id, -1))
    world.send_produce("orders", {0: batch(b"x")})
    assert client.took(parked) == [(orders, 0, 1)]
    assert client.send().answer.error_code is ErrorCode.fetch_session_id_not_found


# --- deleted topics


def test_a_created_topic_is_a_change(world: World) -> None:
    client = Client(world, 12)
    assert client.fetch({"orders": {0: 0}, "later": {0: 0}})[1:] == [("later", 0, UNKNOWN)]
    assert client.fetch() == [("later", 0, UNKNOWN)], "every response contains the error"
    world.make("later")
    assert client.fetch() == [("later", 0, 0)]
    assert client.fetch() == []


def delete(world: World, name: str) -> None:
    topic = world.topics.get(name)
    assert topic is not None
    world.topics.delete(topic)
    world.turn()


def test_a_recreated_topic_continues_by_name(world: World) -> None:
    client = Client(world, 12)
    world.produce("orders", batch(b"x"))
    client.fetch({"orders": {0: 1, 1: 0}})
    delete(world, "orders")
    assert client.fetch() == [("orders", 0, UNKNOWN), ("orders", 1, UNKNOWN)]
    world.make("orders", 2)
    assert client.fetch() == [
        ("orders", 0, ErrorCode.offset_out_of_range),
        ("orders", 1, 0),
    ]


@pytest.mark.parametrize("version", [13, 18])
def test_the_id_of_a_deleted_topic_is_resolved_by_its_name(world: World, version: int) -> None:
    client, gone, stranger = Client(world, version), id_of(world), uuid4()
    client.fetch({gone: {0: 0, 2: 0}, stranger: {0: 0}})
    delete(world, "orders")
    unknown_id = (stranger, 0, ErrorCode.unknown_topic_id)
    assert client.fetch() == [unknown_id, (gone, 0, UNKNOWN), (gone, 2, UNKNOWN)]
    world.make("orders", 2)
    assert client.fetch() == [
        (gone, 0, ErrorCode.inconsistent_topic_id),
        unknown_id,
        (gone, 2, UNKNOWN),
    ]
    # A new session never resolved the id, so its name does not count.
    other = Client(world, version)
    assert other.fetch({gone: {0: 0}}) == [(gone, 0, ErrorCode.unknown_topic_id)]
    assert client.fetch((), {gone: [0, 2]}) == [unknown_id]


def test_the_id_of_a_recreated_topic_is_not_waited_for(world: World) -> None:
    client, gone = Client(world, 18), id_of(world)
    client.fetch({gone: {0: 0}})
    delete(world, "orders")
    world.make("orders", 1)
    asked = client.send(max_wait=milliseconds(500))
    assert client.took(asked) == [(gone, 0, ErrorCode.inconsistent_topic_id)]


# --- order and repetition


def test_unknown_partitions_come_last_with_unknown_ids_first(world: World) -> None:
    client, orders, stranger = Client(world, 18), id_of(world), uuid4()
    result = client.fetch({orders: {9: 0, 1: 0}, stranger: {0: 0}})
    assert [each[:2] for each in result] == [(orders, 1), (stranger, 0), (orders, 9)]


def test_the_last_entry_of_a_repeated_partition_counts(world: World) -> None:
    client = Client(world, 12)
    assert client.fetch([("orders", {0: 99}), ("orders", {0: 0})]) == [("orders", 0, 0)]


def test_a_full_cache_creates_no_session(world: World) -> None:
    ids = iter(range(100))
    world.node.fetch_sessions._new_id = lambda _: next(ids)
    got = []
    for _ in range(9):
        client = Client(world, 12)
        client.fetch({"orders": {0: 0}})
        got.append(client.session_id)
    assert got == [1, 2, 3, 4, 5, 6, 7, 8, 0]
