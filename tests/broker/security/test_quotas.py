"""Which quota applies to a client, and the responses to a client that exceeds its quota."""

import socket
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kohort.broker.security import quotas as quotas_module
from kohort.broker.security import rates
from kohort.broker.security.principal import INTERNAL, user
from kohort.broker.security.quotas import Client, ClientQuotas, entity_of
from kohort.broker.security.rates import Window
from kohort.topics.registry_log import ClientQuotaRecord
from support.broker import BrokerHarness, PendingRequest, batch

WINDOW = Window(11, 1000)
ALICE = Client(1, "alice", "app")
RATE = "producer_byte_rate"
# In order of decreasing precedence.
PRECEDENCE: list[dict[str, str | None]] = [
    {"user": "alice", "client-id": "app"},
    {"user": "alice", "client-id": None},
    {"user": "alice"},
    {"user": None, "client-id": "app"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "app"},
    {"client-id": None},
]


def quotas(stored: dict[Any, dict[str, float]]) -> ClientQuotas:
    return ClientQuotas(stored, WINDOW, WINDOW, lambda: 0)


@pytest.mark.parametrize("winner", range(len(PRECEDENCE)))
def test_the_most_specific_quota_applies(winner: int) -> None:
    """10,000 bytes of the window are not throttled. After that, throttling depends on the limit."""
    limits = {entity_of(PRECEDENCE[n]): {RATE: 100.0 + n} for n in range(winner, 8)}
    limit = 100.0 + winner
    assert quotas(limits).record(RATE, ALICE, 20 * limit) == 10_000


def test_quotas_of_other_keys_do_not_count() -> None:
    stored = {entity_of({"user": "alice"}): {"consumer_byte_rate": 1.0}}
    assert quotas(stored).record(RATE, ALICE, 1e6) == 0


def test_a_client_without_a_client_id_matches_no_quota_of_client_ids() -> None:
    stored = {entity_of({"client-id": None}): {RATE: 1.0}}
    assert quotas(stored).record(RATE, Client(1, "alice", ""), 1e6) == 0


@pytest.mark.parametrize(
    ("entity", "other", "is_shared"),
    [
        ({"user": "alice"}, Client(1, "alice", "other"), True),
        ({"user": None}, Client(1, "bob", "app"), False),
        ({"client-id": "app"}, Client(1, "bob", "app"), True),
        ({"client-id": None}, Client(1, "alice", "other"), False),
        ({"user": "alice", "client-id": None}, Client(1, "alice", "other"), False),
        ({"user": "alice"}, Client(2, "alice", "app"), False),
    ],
)
def test_clients_share_a_rate_as_in_kafka(
    entity: dict[str, str | None], other: Client, is_shared: bool
) -> None:
    all_ = quotas({entity_of(entity): {RATE: 100.0}})
    assert all_.record(RATE, ALICE, 1000) == 0
    assert (all_.record(RATE, other, 100) > 0) == is_shared


@pytest.mark.parametrize(
    ("before", "later", "applies"),
    [
        ([], {"client-id": "app"}, False),
        ([{"client-id": "x"}], {"client-id": "app"}, True),
        ([{"client-id": "x"}], {"user": "alice"}, False),
        ([{"user": "x"}], {"user": "alice"}, True),
        ([{"user": "x"}], {"client-id": "app"}, False),
        ([{"user": "x", "client-id": "x"}], {"user": "alice", "client-id": "app"}, True),
        ([{"user": "x"}, {"client-id": "x"}], {"client-id": None}, True),
        ([{"user": "x"}, {"client-id": "x"}], {"user": "alice"}, False),
    ],
)
def test_a_quota_applies_to_what_was_measured_because_others_had_one(
    before: list[dict[str, str | None]], later: dict[str, str | None], applies: bool
) -> None:
    stored = {entity_of(each): {RATE: 1.0, "request_percentage": 1.0} for each in before}
    all_ = quotas(stored)
    assert all_.record(RATE, ALICE, 2000) == 0
    stored[entity_of(later)] = {RATE: 100.0}
    all_.changed(entity_of(later))
    assert (all_.record(RATE, ALICE, 1) > 0) == applies


def test_nothing_is_measured_when_the_last_quota_of_a_key_is_removed() -> None:
    entity = entity_of({"client-id": "x"})
    stored = {entity: {RATE: 1.0, "consumer_byte_rate": 1.0}}
    all_ = quotas(stored)
    del stored[entity][RATE]
    all_.changed(entity)
    assert all_.record(RATE, ALICE, 2000) == 0
    stored[entity] = {RATE: 1.0}
    stored[entity_of({"client-id": "app"})] = {RATE: 100.0}
    all_.changed()
    assert all_.record(RATE, ALICE, 1) == 0


def test_the_rates_of_idle_clients_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "RATES_MIN", 10)
    now_ms = 0
    stored = {entity_of({"client-id": None}): {RATE: 1.0}}
    all_ = ClientQuotas(stored, WINDOW, WINDOW, lambda: now_ms)
    for number in range(500):
        now_ms += 1000
        all_.record(RATE, Client(1, "u", str(number)), 1)
    assert len(all_._rates) <= 24, "twice the clients of a window, at most"


# --- requests


class QuotaBroker(BrokerHarness):
    """The client is user ANONYMOUS with the client id `tester`."""

    def __init__(self, **quotas: float) -> None:
        super().__init__()
        self.create_topic("orders")
        self.set_quotas({"client-id": "tester"}, **quotas)

    def set_quotas(self, entity: dict[str, str | None], **quotas: float) -> None:
        self.topics.change(ClientQuotaRecord(entity_of(entity), quotas))
        self.run_loop()

    def throttled(self, pending: PendingRequest) -> int:
        """Return the throttle time of the response in ms. The connection is muted for this time."""
        self.run_loop()
        response_ms = pending.response.throttle_time // timedelta(milliseconds=1)
        assert response_ms == pending.throttled_ms
        return response_ms


@pytest.mark.parametrize("version", [12, 9, 4])
def test_a_fetch_over_the_quota_is_empty_and_succeeds_after_the_throttle_time(version: int) -> None:
    broker = QuotaBroker(consumer_byte_rate=100.0)
    for _ in range(3):
        broker.produce("orders", batch(b"x" * 600))
    first = broker.send_fetch("orders", {0: 0}, version=version)
    assert broker.throttled(first) == 0
    records = first.response.responses[0].partitions[0].records
    assert len(records) < 1000, "no more than may be fetched in a window"
    second = broker.send_fetch("orders", {0: 1}, version=version)
    throttle_ms = broker.throttled(second)
    assert throttle_ms > 0
    assert second.response.responses == ()
    broker.advance(throttle_ms + 10_000)
    third = broker.send_fetch("orders", {0: 1}, version=version)
    assert broker.throttled(third) == 0
    assert third.response.responses[0].partitions[0].records


def test_a_throttled_fetch_does_not_count_as_sent_in_its_session() -> None:
    broker = QuotaBroker(consumer_byte_rate=100.0)
    broker.produce("orders", batch(b"x" * 600))
    session_id = broker.send_fetch("orders", {0: 0}, session=(0, 0)).response.session_id
    assert session_id
    broker.produce("orders", batch(b"y" * 600))
    throttled = broker.send_fetch("orders", {0: 1}, session=(session_id, 1))
    throttle_ms = broker.throttled(throttled)
    assert (throttled.response.session_id, throttled.response.responses) == (session_id, ())
    broker.advance(throttle_ms + 10_000)
    again = broker.call(
        "Fetch", 12, max_wait=0, min_bytes=1, session_id=session_id, session_epoch=2, topics=[]
    )
    assert again.responses[0].partitions[0].records


def test_followers_are_not_throttled() -> None:
    broker = QuotaBroker(consumer_byte_rate=1.0, request_percentage=1e6)
    broker.produce("orders", batch(b"x" * 600))
    pending = broker.send(
        "Fetch",
        12,
        replica_id=2,
        max_wait=0,
        min_bytes=1,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": "orders", "partitions": [{"partition": 0, "fetch_offset": 0}]}],
    )
    assert broker.throttled(pending) == 0


def test_requests_that_take_time_are_throttled_by_one_sample_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each call of the clock takes a second, so each request uses 100 % of a second."""
    ticks = iter(range(1000))
    monkeypatch.setattr("kohort.broker.security.metering.seconds", lambda: float(next(ticks)))
    broker = QuotaBroker(request_percentage=15.0)
    throttled = [broker.throttled(broker.send("DescribeCluster", 1)) for _ in range(2)]
    assert throttled == [0, 1000], "10 % over the window, then 20 %"


@pytest.mark.parametrize("version", range(5))
def test_the_throttle_time_is_in_every_version_that_has_one(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In ApiVersions, the throttle time follows the APIs."""
    ticks = iter(range(0, 1000, 10))
    monkeypatch.setattr("kohort.broker.security.metering.seconds", lambda: float(next(ticks)))
    broker = QuotaBroker(request_percentage=1.0)
    software = {"client_software_name": "tester", "client_software_version": "1"}
    pending = broker.send("ApiVersions", version, **software)
    assert pending.throttled_ms == 1000
    assert pending.response.error_code is ErrorCode.none
    if version > 0:
        assert pending.response.throttle_time == timedelta(seconds=1)


def test_clients_of_this_process_have_no_quotas() -> None:
    broker = QuotaBroker(consumer_byte_rate=1.0)
    broker.produce("orders", batch(b"x" * 600))
    broker.principal = INTERNAL
    for _ in range(3):
        pending = broker.send_fetch("orders", {0: 0})
        assert broker.throttled(pending) == 0
        assert pending.response.responses


def test_a_quota_of_another_user_does_not_apply() -> None:
    broker = QuotaBroker()
    broker.set_quotas({"user": "bob"}, consumer_byte_rate=1.0)
    broker.produce("orders", batch(b"x" * 600))
    assert broker.throttled(broker.send_fetch("orders", {0: 0})) == 0
    broker.principal = user("bob")
    assert broker.throttled(broker.send_fetch("orders", {0: 0})) > 0


def test_without_quotas_no_request_is_measured() -> None:
    broker = QuotaBroker()
    assert not broker.node.security.quotas.is_active
    broker.send("DescribeCluster", 1)
    assert broker.last_context.meter is None
    broker.set_quotas({"ip": None}, connection_creation_rate=5.0)
    assert not broker.node.security.quotas.is_active


class CountedQuotas(dict[Any, dict[str, float]]):
    """Counts how often all quotas are read."""

    reads = 0

    def __iter__(self) -> Any:
        self.reads += 1
        return super().__iter__()


@pytest.mark.parametrize("entity", [{"user": "alice"}, {"ip": "10.0.0.1"}])
def test_a_changed_quota_is_adopted_without_reading_the_others(entity: Any) -> None:
    stored = CountedQuotas()
    adopted = quotas(stored)
    before = stored.reads
    for value in (1.0, 2.0):
        stored[entity_of(entity)] = {RATE: value, "connection_creation_rate": value}
        adopted.changed(entity_of(entity))
    assert stored.reads == before
    assert adopted.is_active is ("user" in entity)
    assert adopted.connection_rate("10.0.0.1") == (None if "user" in entity else 2.0)
    del stored[entity_of(entity)]
    adopted.changed(entity_of(entity))
    assert (adopted.is_active, adopted.connection_rate("10.0.0.1")) == (False, None)


def test_of_two_names_of_an_address_the_one_that_changed_last_counts() -> None:
    stored: dict[Any, dict[str, float]] = {}
    adopted = quotas(stored)
    for name, value in (("localhost", 1.0), (None, 7.0), ("127.0.0.1", 2.0), ("localhost", 3.0)):
        stored[entity_of({"ip": name})] = {"connection_creation_rate": value}
        adopted.changed(entity_of({"ip": name}))
        assert adopted.connection_rate("127.0.0.1") == (value if name else 1.0)
    del stored[entity_of({"ip": "localhost"})]
    adopted.changed(entity_of({"ip": "localhost"}))
    assert adopted.connection_rate("127.0.0.1") == 2.0
    assert adopted.connection_rate("10.0.0.1") == 7.0


def test_a_name_that_could_not_be_looked_up_is_looked_up_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    results: list[Any] = [OSError("no name server"), [(0, 0, 0, "", ("10.0.0.1", 0))]]

    def get_addresses(*_: object) -> Any:
        result = results.pop(0)
        if isinstance(result, OSError):
            raise result
        return result

    monkeypatch.setattr(socket, "getaddrinfo", get_addresses)
    assert quotas_module.addresses_of("recovered.test") == ()
    assert quotas_module.addresses_of("recovered.test") == ("10.0.0.1",)
    assert quotas_module.addresses_of("recovered.test") == ("10.0.0.1",), "cached"


def test_unknown_names_are_not_looked_up_again_when_a_change_is_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This would stop the event loop for seconds per name while the name server is unreachable."""
    looked_up: list[str] = []
    entity = entity_of({"ip": "unknown.test"})
    monkeypatch.setattr(quotas_module, "addresses_of", lambda name: looked_up.append(name) or ())
    adopted = quotas({entity: {"connection_creation_rate": 1.0}})
    adopted.changed()
    assert looked_up == ["unknown.test"]
    adopted.changed(entity)
    assert len(looked_up) == 2


def test_addresses_whose_quotas_were_removed_take_no_memory() -> None:
    stored: dict[Any, dict[str, float]] = {}
    adopted = quotas(stored)
    entities = [entity_of({"ip": f"10.0.0.{number}"}) for number in range(100)]
    for entity in entities:
        stored[entity] = {"connection_creation_rate": 1.0}
        adopted.changed(entity)
    for entity in entities:
        del stored[entity]
        adopted.changed(entity)
    assert len(adopted._of_addresses) == 0


# --- controller mutations (KIP-599)


def create(broker: BrokerHarness, version: int, *names: str, partitions: int = 20) -> Any:
    topics = [
        {"name": name, "num_partitions": partitions, "replication_factor": 1} for name in names
    ]
    return broker.send("CreateTopics", version, topics=topics, timeout=1000, validate_only=False)


def test_topics_over_the_quota_are_rejected_until_it_is_refilled() -> None:
    broker = QuotaBroker(controller_mutation_rate=1.0)
    pending = create(broker, 7, "a", "b", "c")
    assert broker.throttled(pending) == 9000, "20 partitions of the 11 that were free"
    errors = [each.error_code for each in pending.response.topics]
    exceeded = ErrorCode.throttling_quota_exceeded
    assert errors == [ErrorCode.none, exceeded, exceeded]
    assert pending.response.topics[1].error_message is None, "as in Kafka"
    broker.advance(9000)
    assert broker.throttled(create(broker, 7, "b")) == 0


def test_clients_that_do_not_know_the_error_are_only_throttled() -> None:
    broker = QuotaBroker(controller_mutation_rate=1.0)
    pending = create(broker, 5, "a", "b")
    assert broker.throttled(pending) == 29_000
    assert [each.error_code for each in pending.response.topics] == [ErrorCode.none] * 2


def test_deletions_and_new_partitions_count_as_well() -> None:
    broker = QuotaBroker(controller_mutation_rate=1.0)
    broker.throttled(create(broker, 7, "a", partitions=12))
    broker.advance(1000)
    topics = [{"name": "a", "count": 13, "assignments": None}]
    added = broker.send("CreatePartitions", 3, topics=topics, timeout=1000, validate_only=False)
    assert broker.throttled(added) == 0
    names = [{"name": "a", "topic_id": None}]
    deleted = broker.send("DeleteTopics", 6, topics=names, timeout=1000)
    assert broker.throttled(deleted) == 1000
    assert deleted.response.responses[0].error_code is ErrorCode.throttling_quota_exceeded
    assert broker.topics.get("a") is not None


def test_topics_that_metadata_creates_count_as_well() -> None:
    broker = QuotaBroker(controller_mutation_rate=0.2)

    def request(name: str) -> ErrorCode:
        pending = broker.send("Metadata", 9, topics=[{"name": name}])
        assert broker.throttled(pending) == 0, "as in Kafka"
        (topic,) = pending.response.topics
        error: ErrorCode = topic.error_code
        return error

    created, rejected = ErrorCode.none, ErrorCode.unknown_topic_or_partition
    assert [request(each) for each in "abcd"] == [created] * 3 + [rejected], "2.2 were free"
    assert broker.topics.get("d") is None
    assert broker.throttled(create(broker, 7, "e", partitions=1)) == 4000
    broker.advance(4000)
    assert request("d") is created
