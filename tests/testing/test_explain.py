"""Explanations: repeated requests, held requests, members abandoned because of faults."""

import re
from collections.abc import Callable
from contextlib import closing

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from kohort.protocol.errors import ApiError
from kohort.testing import BarrierTimeout, Kafka
from kohort.testing.explanation.explanation import LAST_REQUESTS
from kohort.testing.fake_members.fake_member import GroupProtocol
from kohort.testing.timeline.timeline import deduplicate
from support.member import Member, only_member
from support.wire import Client

from ..clients.adapter import LIBRARIES, ConsumerSettings, Partition, load
from .conftest import NewService, Service, client_settings

pytestmark = pytest.mark.clients


def test_equal_lines_of_one_api_are_merged() -> None:
    texts = ["Heartbeat a", "Heartbeat b", "Heartbeat a", "Fetch a", "Heartbeat a", "  =", "  ="]
    lines = deduplicate(enumerate(texts))
    assert [str(each) for each in lines] == [
        "Heartbeat a × 2",
        "Heartbeat b",
        "Fetch a",
        "Heartbeat a",
        "  = × 2",
    ]
    assert (lines[0].first, lines[0].last) == (0, 2)


def test_an_explanation_keeps_requests_without_a_response(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    group = kafka.group("billing")
    fake = kafka.fake_member("billing", topics=["orders"])
    group.wait_stable(members=1)
    with (
        group.hold_joins() as held,
        Client(kafka.bootstrap_servers, "late") as late,
        Client(kafka.bootstrap_servers) as raw,
    ):
        late.send_join("billing", "late")
        held.wait()
        kafka.clock.advance(minutes=5)
        for offset in range(LAST_REQUESTS):
            fake.commit("orders", 0, offset)
            raw.call("OffsetFetch", 5, group_id="billing", topics=None)
        explanation = group.explain(verbose=True)
        assert "The test holds 1 × JoinGroup of this group." in explanation
        assert "from late: held by the test" in explanation
        with pytest.raises(BarrierTimeout, match=r"1 arrived\n.*The test holds 1 × JoinGroup"):
            held.wait(count=2, timeout=0.01)


def test_heartbeats_are_one_line_per_member(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    group = kafka.group("billing")
    with group.hold_joins():  # one rebalance, so that no heartbeat reports another
        for name in ("one", "other"):
            kafka.fake_member("billing", topics=["orders"], client_id=name)
    group.wait_stable(members=2)
    kafka.clock.freeze()
    kafka.clock.advance(minutes=5)
    lines = [line for line in group.explain(verbose=True).splitlines() if "Heartbeat" in line]
    assert len(lines) == 2
    assert all(" × " in line and ", the last one -" in line for line in lines)


@pytest.mark.parametrize("api", ["OffsetCommit", "Heartbeat"])
def test_a_member_abandoned_because_of_a_fault_is_named(
    kafka: Kafka, service: Service, api: str
) -> None:
    """Its client rejoins with another id. The coordinator does not know that: it waits for the old
    one until its session expires."""
    group = kafka.group("billing").wait_stable(members=1)
    first = group.members[0].member_id
    fault = kafka.faults.answer(api, error="UNKNOWN_MEMBER_ID")
    kafka.topic("orders").produce(["something to commit"])
    fault.wait()
    sentence = (
        f"A fault of this test answered {first} with UNKNOWN_MEMBER_ID, and its client has "
        f'rejoined with another member id: group.expire("{first}") or clock.advance(…) ends the '
        "old session."
    )
    kafka.wait(lambda: sentence in group.explain(), f"an explanation with: {sentence}")
    assert sentence in group.explain(verbose=True)
    group.expire(first)
    group.wait_stable(members=1)
    assert "A fault of this test" not in group.explain(verbose=True)


def test_a_member_that_keeps_its_id_after_a_fault_is_not_abandoned(
    kafka: Kafka, service: Service
) -> None:
    group = kafka.group("billing").wait_stable(members=1)
    member_id = group.members[0].member_id
    fault = kafka.faults.answer("Heartbeat", error="ILLEGAL_GENERATION").wait()
    group.wait_generation(2).wait_stable(members=1)
    assert fault.fired[0].member_id == member_id == group.members[0].member_id
    assert "A fault of this test" not in group.explain(verbose=True)


def test_a_new_client_does_not_make_another_abandoned(
    kafka: Kafka, new_service: NewService
) -> None:
    new_service("first")
    group = kafka.group("billing").wait_stable(members=1)
    fault = kafka.faults.answer("Heartbeat", error="ILLEGAL_GENERATION").wait()
    assert fault.fired[0].client_id == "first"
    new_service("second")
    group.wait_stable(members=2)
    assert "A fault of this test" not in group.explain(verbose=True)


def test_a_rebalance_without_missing_members_is_explained() -> None:
    with Kafka(config={"group.max.size": 2}) as kafka:
        kafka.topic("orders", partitions=1)
        group = kafka.group("billing")
        with group.hold_joins():
            _, late = (kafka.fake_member("billing", topics=["orders"]) for _ in range(2))
        group.wait_stable(members=2)
        late.stop_polling()
        group.rebalance()
        kafka.fake_member("billing", topics=["orders"])  # takes the place of `late`
        late.resume_polling()
        assert late.errors[-1].error == "GROUP_MAX_SIZE_REACHED"
        assert "all 2 members have rejoined" in group.explain()


def test_a_timeline_does_not_repeat_the_name_of_an_event(kafka: Kafka) -> None:
    kafka.fake_member("billing", ["orders"])
    assert "= billing: group created\n" in kafka.report()


# --- hints


def poll_until_it_fetches(
    kafka: Kafka, library: str, topic: str, *, group: str | None = "billing"
) -> None:
    """For a topic other than `orders`, poll until the client has metadata of it."""
    settings = ConsumerSettings(group, client_id="till", auto_offset_reset="latest")
    with (
        closing(load(library)(kafka.bootstrap_servers)) as client,
        closing(client.consumer(settings)) as consumer,
    ):
        if group is None:
            consumer.assign(Partition(topic, 0))
        else:
            consumer.subscribe(topic)
        kafka.wait(lambda: consumer.poll() or fetches_or_unknown_topic(kafka))


def fetches_or_unknown_topic(kafka: Kafka) -> bool:
    requests = [each for each in kafka.history.requests if each.client_id == "till"]
    return any(
        each.api == "Fetch" or (each.api == "Metadata" and "oders" in str(each.message))
        for each in requests
        if each.response_frame
    )


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("group", ["billing", None])
def test_a_consumer_that_started_at_the_end_is_named(
    kafka: Kafka, library: str, group: str | None
) -> None:
    kafka.topic("orders", partitions=1).produce(["one", "two"])
    poll_until_it_fetches(kafka, library, "orders", group=group)
    hint = (
        "Consumer till started at the end of orders-0 (latest), after 2 records. To read them, set "
        "auto.offset.reset of the client to earliest, or produce after the assignment."
    )
    with pytest.raises(BarrierTimeout, match=re.escape(hint)):
        kafka.wait(lambda: False, timeout=0.01)
    if group is not None:
        assert hint in kafka.group(group).explain()


# aiokafka itself raises UnknownTopicOrPartitionError.
@pytest.mark.parametrize("library", ["kafka-python", "librdkafka"])
@pytest.mark.kafka(config={"auto.create.topics.enable": "false"})
def test_a_mistyped_topic_is_named_with_a_similar_one(kafka: Kafka, library: str) -> None:
    kafka.topic("orders", partitions=1).produce(["one"])
    poll_until_it_fetches(kafka, library, "oders")
    with pytest.raises(
        BarrierTimeout, match=r"Topic oders, .* till.*, does not exist: did you mean orders"
    ):
        kafka.wait(lambda: False, timeout=0.01)


# librdkafka's consumer does not create topics (allow.auto.create.topics).
@pytest.mark.parametrize("library", ["kafka-python", "aiokafka"])
def test_a_topic_that_a_mistyped_name_has_created_is_named(kafka: Kafka, library: str) -> None:
    kafka.topic("orders", partitions=1).produce(["one"])
    poll_until_it_fetches(kafka, library, "oders")
    hint = (
        "Topic oders did not exist until till requested it (auto.create.topics.enable), and has no "
        "records: did you mean orders?"
    )
    assert hint in kafka.group("billing").explain()
    kafka.topic("oders").produce(["no mistake"])
    assert "Topic oders" not in kafka.group("billing").explain()


def test_records_in_a_topic_that_a_mistyped_name_has_created_are_named(kafka: Kafka) -> None:
    orders = kafka.topic("orders", partitions=1)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "client.id": "shop"}
    )
    producer.produce("order", b"one")
    assert producer.flush(10) == 0
    hint = (
        "Topic order did not exist until shop requested it (auto.create.topics.enable). It has "
        "records, but a similar topic has none: did you mean orders?"
    )
    assert hint in kafka.report()
    orders.produce(["one"])
    assert "did you mean" not in kafka.report()
    del producer


def test_a_topic_that_a_test_has_created_by_reading_it_is_named(kafka: Kafka) -> None:
    kafka.topic("orders.dead", partitions=1).produce(["one"])
    typo = kafka.topic("orders.ded")
    hint = (
        "Topic orders.ded did not exist until the test called kafka.topic('orders.ded'), and has "
        "no records: did you mean orders.dead?"
    )
    assert "orders.ded" not in kafka.report()
    assert typo.records() == []
    assert hint in kafka.report()
    typo.produce(["no mistake"])
    assert "orders.ded" not in kafka.report()


def test_an_empty_topic_that_the_test_has_created_is_no_mistake(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1).produce(["one"])
    kafka.topic("orders-dlq", partitions=1)
    kafka.fake_member("billing", ["orders", "orders-dlq"])
    assert "orders-dlq" not in kafka.group("billing").explain()
    kafka.fake_member("shop", ["orders", "payments"], client_id="till")
    explanation = kafka.group("shop").explain()
    problem = "Topic payments, to which till is subscribed, does not exist: create it first."
    assert problem in explanation


def test_a_consumer_that_continues_at_the_end_did_not_start_there(kafka: Kafka) -> None:
    """Its first Fetch is at the offset that get_watermark_offsets has requested."""
    kafka.topic("orders", partitions=1).produce(["one", "two"])
    consumer = new_librdkafka(kafka, "billing", "till")
    partition = confluent_kafka.TopicPartition("orders", 0, 2)
    consumer.commit(offsets=[partition], asynchronous=False)
    assert consumer.get_watermark_offsets(partition) == (0, 2)
    consumer.subscribe(["orders"])
    kafka.wait(lambda: consumer.poll(0.01) or fetches_or_unknown_topic(kafka))
    assert "started at the end" not in kafka.group("billing").explain()
    consumer.close()


def test_a_reconnected_consumer_did_not_start_at_the_end(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1).produce(["one", "two"])
    with Client(kafka.bootstrap_servers, "till") as first:
        fetch(first, 0)
    with Client(kafka.bootstrap_servers, "till") as second:
        list_end_offset(second)
        fetch(second, 2)
    with Client(kafka.bootstrap_servers, "late") as late:
        list_end_offset(late)
        fetch(late, 2)
    with pytest.raises(BarrierTimeout) as raised:
        kafka.wait(lambda: False, timeout=0.01)
    assert "Consumer late started at the end" in str(raised.value)
    assert "Consumer till" not in str(raised.value)


def list_end_offset(client: Client) -> None:
    partition = {"partition_index": 0, "timestamp": -1}
    client.call(
        "ListOffsets", 1, replica_id=-1, topics=[{"name": "orders", "partitions": [partition]}]
    )


def fetch(client: Client, offset: int) -> None:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1000}
    client.call(
        "Fetch",
        4,
        replica_id=-1,
        max_wait=0,
        min_bytes=0,
        max_bytes=1000,
        isolation_level=0,
        topics=[{"topic": "orders", "partitions": [partition]}],
    )


def test_two_consumers_with_one_client_id_are_distinguished(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1).produce(["one", "two"])
    probe = new_librdkafka(kafka, "probe", "till", earliest=True)
    probe.subscribe(["orders"])
    assert probe.poll(10)
    before = kafka.history.requests[-1].number
    service = new_librdkafka(kafka, "billing", "till")
    service.subscribe(["orders"])

    def fetch_both() -> bool:
        assert service.poll(0.01) is None
        fetches = kafka.history.requests_after(before)
        return len({each.connection for each in fetches if each.api == "Fetch"}) == 2

    kafka.wait(fetch_both)
    hint = "Consumer till started at the end of orders-0 (latest), after 2 records."
    assert hint in kafka.group("billing").explain()
    service.close()
    probe.close()


def new_librdkafka(
    kafka: Kafka, group: str, client_id: str, *, earliest: bool = False
) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        client_settings(
            kafka,
            group_id=group,
            client_id=client_id,
            auto_offset_reset="earliest" if earliest else "latest",
            enable_auto_commit=False,
            fetch_wait_max_ms=50,
        )
    )


def test_a_consumer_that_has_read_everything_did_not_start_at_the_end(kafka: Kafka) -> None:
    topic = kafka.topic("orders", partitions=1)
    topic.produce(["one"])
    consumer = new_librdkafka(kafka, "billing", "till", earliest=True)
    consumer.subscribe(["orders"])
    assert consumer.poll(10)
    assert consumer.get_watermark_offsets(confluent_kafka.TopicPartition("orders", 0)) == (0, 1)
    last = kafka.history.requests[-1].number
    kafka.wait(lambda: consumer.poll(0.01) or kafka.wait_request("Fetch", after=last))
    assert "started at the end" not in kafka.group("billing").explain()
    consumer.close()


def test_a_wait_for_a_request_of_a_mistyped_group_suggests_a_similar_one(kafka: Kafka) -> None:
    kafka.fake_member("billing", ["orders"], client_id="till")
    with pytest.raises(BarrierTimeout, match=r"No request has group biling: did you mean billing"):
        kafka.wait_request("JoinGroup", group="biling", timeout=0.01)
    with pytest.raises(BarrierTimeout, match=r"No request has client tills: did you mean till"):
        kafka.wait_request("JoinGroup", client_id="tills", timeout=0.01)


def test_a_wait_for_any_condition_explains_all_groups(kafka: Kafka) -> None:
    kafka.fake_member("billing")
    kafka.fake_member("shop")
    with pytest.raises(
        BarrierTimeout, match=r"(?s)the mail\nGroup billing is Stable.*\nGroup shop"
    ):
        kafka.wait(lambda: False, "the mail", timeout=0.01)
    with pytest.raises(TypeError, match=r"must be a function, not False: wait\(lambda: …\)"):
        kafka.wait(False)  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"description must be text, not 1: wait\(lambda: …, timeout"
    ):
        kafka.wait(lambda: True, 1)  # type: ignore[arg-type]


def test_the_age_of_a_request_does_not_depend_on_the_clock_of_the_broker(kafka: Kafka) -> None:
    kafka.fake_member("billing")
    kafka.clock.freeze()
    kafka.clock.advance(hours=2)
    ages = re.findall(r"^    (-\d+\.\d+) s", kafka.group("billing").explain(verbose=True), re.M)
    assert ages
    assert all(-60 < float(each) < 0 for each in ages)


def test_a_consumer_that_has_sought_back_is_no_longer_at_the_end(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1).produce(["a", "b"])
    with closing(new_librdkafka(kafka, "billing", "till")) as consumer:
        consumer.subscribe(["orders"])
        kafka.wait(lambda: consumer.poll(0.02) or consumer.assignment())
        kafka.wait(lambda: consumer.poll(0.02) or "started at the end" in explain(kafka))
        consumer.seek(TopicPartition("orders", 0, 0))
        kafka.wait(lambda: consumer.poll(0.02) is not None)
        assert "started at the end" not in explain(kafka)


def explain(kafka: Kafka) -> str:
    return kafka.group("billing").explain()


def test_a_client_that_has_not_begun_is_named(kafka: Kafka) -> None:
    """A producer without flush; a consumer with a poll that is too short sends the same."""
    orders = kafka.topic("orders", partitions=1)
    producer = confluent_kafka.Producer(client_settings(kafka, client_id="till", linger_ms=60_000))
    producer.produce("orders", b"one")
    sentence = (
        "Client till has sent only ApiVersions and Metadata. It has not joined a group, fetched or "
        "produced. A consumer needs a longer poll; a producer has to call flush()."
    )
    with pytest.raises(BarrierTimeout, match=re.escape(sentence)):
        kafka.wait_request("Produce", timeout=0.5)
    assert producer.flush(10) == 0
    assert "Client till" not in kafka.report()
    assert len(orders.records()) == 1


def test_a_client_that_looks_for_its_coordinator_is_named(kafka: Kafka) -> None:
    with Client(kafka.bootstrap_servers, "till") as raw:
        raw.call("ApiVersions", 0)
        raw.call("Metadata", 9, topics=[])
        raw.call("FindCoordinator", 3, key="billing", key_type=0)
        sentence = (
            "Client till has sent only ApiVersions, Metadata and FindCoordinator. It has not "
            "joined a group, fetched or produced. A consumer has to call subscribe(), and then "
            "needs a longer poll."
        )
        assert sentence in kafka.report()


def test_an_idle_idempotent_producer_is_not_named(kafka: Kafka) -> None:
    producer = confluent_kafka.Producer(
        client_settings(kafka, client_id="till", enable_idempotence=True)
    )
    kafka.wait_request("InitProducerId")
    with pytest.raises(BarrierTimeout) as raised:
        kafka.group("billing").wait_stable(timeout=0.01)
    assert "till" not in str(raised.value)
    del producer


def test_an_idle_producer_is_not_named_beside_clients_that_work(kafka: Kafka) -> None:
    kafka.topic("orders")
    with Client(kafka.bootstrap_servers, "idle") as idle, Client(kafka.bootstrap_servers) as other:
        idle.call("Metadata", 9, topics=[])
        assert "Client idle has sent only Metadata." in kafka.report()
        other.join("billing")
        assert "Client idle" not in kafka.report()
        idle.call("Metadata", 9, topics=[{"name": "orders"}])
        assert "Client idle has sent only Metadata." in kafka.report()


def continue_at_commit(member: Member) -> None:
    member.commit_offset(1)
    topics = [{"name": "orders", "partition_indexes": [0]}]
    member.call("OffsetFetch", 5, group_id="billing", topics=topics)


CONSUMED_NOTHING = ", before it consumed a record of orders-0."
COMMITTED_THE_START = (
    " and committed orders-0 at 0, the log start: it consumed nothing, or committed the record's "
    "offset instead of offset + 1."
)


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ([], CONSUMED_NOTHING),
        ([lambda member: member.fetch(0)], None),
        ([lambda member: member.fetch(0), lambda member: member.commit_offset(1)], None),
        # With enable.auto.commit, clients commit their position on leaving.
        (
            [lambda member: member.fetch(0), lambda member: member.commit_offset(0)],
            COMMITTED_THE_START,
        ),
        ([continue_at_commit], None),
    ],
)
def test_a_consumer_that_leaves_before_records_arrive_is_named(
    kafka: Kafka, work: list[Callable[[Member], object]], expected: str | None
) -> None:
    kafka.topic("orders", partitions=1).produce(["one"])
    with only_member(kafka.bootstrap_servers, "till", 0) as till:
        for each in work:
            each(till)
        till.leave()
    found = re.search(r"till left \d\.\d{3} s after its assignment(.*)", explain(kafka))
    assert (found and found[1]) == expected


def test_a_mistyped_group_is_explained_with_a_similar_one(kafka: Kafka) -> None:
    kafka.fake_member("billing", ["orders"])
    sentence = "Group biling does not exist: did you mean billing?"
    assert sentence not in kafka.report()
    kafka.topic("orders", partitions=1).produce(["one"])
    with pytest.raises(BarrierTimeout, match=re.escape(sentence)):
        kafka.wait(lambda: kafka.group("biling").lag("orders") == 0, timeout=0.01)
    assert kafka.group("biling").explain() == sentence
    assert kafka.report().count(sentence) == 1


def test_a_wait_of_a_broker_that_no_client_has_reached_says_so(kafka: Kafka) -> None:
    message = f"No client has sent a request to {kafka.bootstrap_servers}"
    with pytest.raises(BarrierTimeout, match=message):
        kafka.wait(lambda: False, timeout=0.01)
    with pytest.raises(BarrierTimeout, match=message):
        kafka.wait_request("Fetch", timeout=0.01)
    with pytest.raises(BarrierTimeout, match=message):
        kafka.faults.drop("Fetch").wait(timeout=0.01)
    kafka.faults.clear()
    kafka.fake_member("billing", ["orders"])
    with pytest.raises(
        BarrierTimeout, match=rf"{message} \(bootstrap_servers\), only fake members"
    ):
        kafka.group("billing").wait_stable(members=2, timeout=0.01)


def test_a_member_whose_client_has_disconnected_is_named(kafka: Kafka) -> None:
    with Client(kafka.bootstrap_servers) as raw:
        member_id = raw.join("billing")["member_id"]
        assert "disconnected" not in explain(kafka)
    sentence = f"The client of {member_id} has disconnected without leaving the group. Its session"
    kafka.wait(lambda: sentence in explain(kafka))


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda kafka: kafka.fault, "Kafka has no attribute 'fault': did you mean faults?"),
        (lambda kafka: kafka.group("g").wait_stabel(), "did you mean wait_stable?"),
        (lambda kafka: kafka.clock.forward(1), "ClockControl has no attribute 'forward'"),
        (lambda kafka: kafka.faults.deny("Fetch"), "Faults has no attribute 'deny'"),
        (lambda kafka: kafka.history.comits(), "did you mean commits?"),
        (lambda kafka: kafka.topic("t").produces(["x"]), "did you mean produce?"),
        (lambda kafka: kafka.disk.fails("sync"), "did you mean fail?"),
        (lambda kafka: kafka.group("g").committed_offset("t", 0), "did you mean committed?"),
        (lambda kafka: kafka.group("g").hold_joins().free(), "Hold has no attribute 'free'"),
        (lambda kafka: kafka.client_checks.ignor("x"), "did you mean ignore?"),
    ],
)
def test_a_mistyped_attribute_is_an_error_with_a_similar_one(
    kafka: Kafka, use: Callable[[Kafka], object], message: str
) -> None:
    with pytest.raises(AttributeError, match=re.escape(message)):
        use(kafka)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_it_says_when_an_expired_member_sent_its_last_request(
    kafka: Kafka, protocol: GroupProtocol
) -> None:
    kafka.clock.freeze()
    kafka.topic("orders", partitions=1)
    fake = kafka.fake_member("billing", topics=["orders"], protocol=protocol)
    fake.wait_owned(1)
    fake.suspend()
    group = kafka.group("billing")
    kafka.clock.advance(seconds=44)
    assert "expired" not in group.explain()
    kafka.clock.advance(seconds=16)
    api = "SyncGroup" if protocol == "classic" else "ConsumerGroupHeartbeat"
    assert re.search(rf"expired 15 s ago, 45 s after its last request \({api}\)", group.explain())
    fake.resume()
    group.wait_stable(members=1)
    assert "expired" not in group.explain()


def test_clients_that_use_offsets_without_joining_are_named(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    with Client(kafka.bootstrap_servers, "reader") as client:
        client.call("OffsetFetch", 7, group_id="billing", topics=None, require_stable=False)
        with pytest.raises(BarrierTimeout, match="reader has sent OffsetFetch, but has not joined"):
            kafka.group("billing").wait_stable(1, timeout=0)
    kafka.fake_member("billing", topics=["orders"]).wait_owned(1)
    assert "reader" not in kafka.group("billing").explain()


def test_what_the_test_has_stopped_broken_or_frozen_is_named() -> None:
    with Kafka(nodes=3) as kafka:
        kafka.topic("orders", partitions=1)
        sentences = [
            "A condition of this test applies: any request (client_id till): network partition.",
            "A condition of this test applies: any request: latency of 5 ms.",
            "A disk fault of this test applies: full of orders.",
            "The test has frozen the clock: timeouts expire only with clock.advance(…), or after",
            "The test has stopped nodes 2, 3.",
        ]
        assert not any(each in explain(kafka) for each in sentences)
        partition = kafka.faults.network_partition(client_id="till")
        latency = kafka.faults.latency(ms=5)
        kafka.disk.fill(topic="orders")
        with pytest.raises(ApiError):
            kafka.topic("orders").produce(["one"])
        kafka.clock.freeze()
        kafka.stop_node(2)
        kafka.stop_node(3)
        with pytest.raises(BarrierTimeout) as raised:
            kafka.wait(lambda: False, timeout=0.01)
        for text in (str(raised.value), explain(kafka)):
            assert [each for each in sentences if each not in text] == []
        partition.cancel()
        latency.cancel()
        kafka.disk.heal()
        kafka.clock.resume()
        kafka.start_node(2)
        kafka.start_node(3)
        assert not any(each in explain(kafka) for each in sentences)


def test_a_stopped_broker_is_the_reason_why_no_client_has_reached_it(kafka: Kafka) -> None:
    sentence = f"to {kafka.bootstrap_servers} (bootstrap_servers; the test has stopped a node)."
    with kafka.broker_down():
        with pytest.raises(BarrierTimeout, match=r"The test has stopped node 1\."):
            kafka.wait_request("Fetch", timeout=0.01)
        assert sentence in kafka.report()
    assert sentence in kafka.report()


def test_a_client_whose_requests_are_held_needs_no_longer_poll(kafka: Kafka) -> None:
    with (
        kafka.faults.network_partition(client_id="till") as partition,
        Client(kafka.bootstrap_servers, "till") as raw,
    ):
        raw.send("ApiVersions", 0)
        partition.wait()
    faults = "fetched or produced. Faults of this test apply to its requests: network partition."
    assert faults in kafka.report()
    assert "longer poll" not in kafka.report()


def test_the_report_names_what_a_power_cut_loses(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    assert "cut the power" not in kafka.report()
    kafka.crash(power=True)
    assert kafka.topics == []
    assert (
        "The test has cut the power, which loses unsynced data: to keep commits and new "
        "topics, use Kafka(durability='fsync'); to keep records, also set the topic config "
        "flush.messages=1."
    ) in kafka.report()


def test_records_that_have_expired_on_the_advanced_clock_are_named(kafka: Kafka) -> None:
    orders = kafka.topic("orders", partitions=1)
    orders.produce(["one"])
    sentence = "The test has advanced the clock, and all records of orders-0 have been deleted"
    kafka.clock.advance(days=6)
    assert sentence not in kafka.report()
    kafka.clock.advance(days=2)
    assert orders.records() == []
    assert sentence in kafka.report()
