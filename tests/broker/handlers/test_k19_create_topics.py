"""CreateTopics: errors in Kafka's words, and the description of created topics."""

import itertools
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kohort.broker.event_loop.scheduler import SLICE_SECONDS
from kohort.topics.names import OFFSETS_TOPIC
from support.broker import BrokerHarness


@pytest.fixture
def broker() -> BrokerHarness:
    return BrokerHarness({"num.partitions": "2"})


def new_topic(name: str = "orders", **fields: Any) -> Any:
    assignments = tuple(
        {"partition_index": p, "broker_ids": b} for p, b in fields.pop("assignments", ())
    )
    configs = tuple(
        {"name": key, "value": value} for key, value in fields.pop("configs", {}).items()
    )
    fields = {"num_partitions": 1, "replication_factor": 1, **fields}
    return {"name": name, "assignments": assignments, "configs": configs, **fields}


def create(
    broker: BrokerHarness,
    *topics: Any,
    version: int = 7,
    validate_only: bool = False,
    timeout_ms: int = 1000,
) -> Any:
    response = broker.call(
        "CreateTopics", version, topics=topics, timeout=timeout_ms, validate_only=validate_only
    )
    return response.topics


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_created_in_every_version(broker: BrokerHarness, version: int) -> None:
    (created,) = create(broker, new_topic(num_partitions=3), version=version)
    assert (created.name, created.error_code, created.error_message) == (
        "orders",
        ErrorCode.none,
        None,
    )
    topic = broker.topic()
    assert len(topic.partitions) == 3
    if version >= 7:
        assert created.topic_id == topic.id


def test_a_created_topic_is_described_since_version_5(broker: BrokerHarness) -> None:
    (created,) = create(
        broker, new_topic(num_partitions=-1, replication_factor=-1, configs={"retention.ms": "5"})
    )
    assert (created.num_partitions, created.replication_factor) == (2, 1)
    configs = {each.name: (each.value, each.config_source) for each in created.configs}
    assert len(configs) == 33
    assert configs["retention.ms"] == ("5", 1)
    assert configs["segment.bytes"] == ("1073741824", 5)


def test_configurations_are_sorted_and_returned_as_they_were_written(broker: BrokerHarness) -> None:
    given = {"retention.ms": " +86400000 ", "min.cleanable.dirty.ratio": ".3"}
    (created,) = create(broker, new_topic(configs=given))
    result = {each.name: each.value for each in created.configs}
    assert list(result) == sorted(result)
    assert {key: result[key] for key in given} == given
    assert result["segment.bytes"] == "1073741824"


def test_a_created_topic_survives_a_restart(broker: BrokerHarness) -> None:
    create(broker, new_topic(num_partitions=4, configs={"cleanup.policy": "compact"}))
    topic, before = broker.restart().topics.get("orders"), broker.topics.get("orders")
    assert topic is not None
    assert before is not None
    assert (topic.id, len(topic.partitions)) == (before.id, 4)
    assert topic.partitions[0].settings.compacted


def test_validate_only_creates_nothing(broker: BrokerHarness) -> None:
    (checked,) = create(broker, new_topic(), validate_only=True)
    assert (checked.error_code, checked.num_partitions) == (ErrorCode.none, 1)
    assert checked.topic_id.int, "the id of no topic, as from Kafka"
    assert len(broker.topics) == 0


MANUAL: dict[str, Any] = {"num_partitions": -1, "replication_factor": -1}
REFUSED: dict[str, tuple[dict[str, Any], ErrorCode, str]] = {
    "no name": (
        {"name": ""},
        ErrorCode.invalid_topic_exception,
        "Topic name is invalid: the empty string is not allowed",
    ),
    "a name with a space": (
        {"name": "a b"},
        ErrorCode.invalid_topic_exception,
        (
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        ),
    ),
    "the broker's own topic": (
        {"name": "__consumer_offsets"},
        ErrorCode.invalid_topic_exception,
        "Topic '__consumer_offsets' is reserved by the broker.",
    ),
    "no replicas": (
        {"replication_factor": 0},
        ErrorCode.invalid_replication_factor,
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    "too many replicas": (
        {"replication_factor": 2},
        ErrorCode.invalid_replication_factor,
        (
            "Unable to replicate the partition 2 time(s): The target replication factor of 2 "
            "cannot be reached because only 1 broker(s) are registered "
            "or some brokers have all their log directories cordoned."
        ),
    ),
    "an unknown key": (
        {"configs": {"nope": "1"}},
        ErrorCode.invalid_config,
        "Unknown topic config name: nope",
    ),
    "a key without value": (
        {"configs": {"retention.ms": None}},
        ErrorCode.invalid_config,
        "Null value not supported for topic configs: retention.ms",
    ),
    "replicas and assignments": (
        {"num_partitions": -1, "assignments": [(0, (1,))]},
        ErrorCode.invalid_request,
        "A manual partition assignment was specified, but replication factor was not set to -1.",
    ),
    "partitions and assignments": (
        {"num_partitions": 1, "replication_factor": -1, "assignments": [(0, (1,))]},
        ErrorCode.invalid_request,
        "A manual partition assignment was specified, but numPartitions was not set to -1.",
    ),
    "a gap in the assignments": (
        {**MANUAL, "assignments": [(0, (1,)), (2, (1,))]},
        ErrorCode.invalid_replica_assignment,
        "partitions should be a consecutive 0-based integer sequence",
    ),
    "a partition assigned twice": (
        {**MANUAL, "assignments": [(0, (1,)), (0, (1,))]},
        ErrorCode.invalid_replica_assignment,
        "Found multiple manual partition assignments for partition 0",
    ),
    "a broker twice": (
        {**MANUAL, "assignments": [(0, (1, 1))]},
        ErrorCode.invalid_replica_assignment,
        "The manual partition assignment includes the broker 1 more than once.",
    ),
    "another broker": (
        {**MANUAL, "assignments": [(0, (9,))]},
        ErrorCode.invalid_replica_assignment,
        "The manual partition assignment includes broker 9, but no such broker is registered.",
    ),
    "nobody": (
        {**MANUAL, "assignments": [(0, ())]},
        ErrorCode.invalid_replica_assignment,
        "The manual partition assignment includes an empty replica list.",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_only_the_invalid_topics_of_a_request_are_rejected(
    broker: BrokerHarness, what: str
) -> None:
    fields, error, message = REFUSED[what]
    rejected, created = create(broker, new_topic(**fields), new_topic("fine"))
    assert (rejected.error_code, rejected.error_message) == (error, message)
    assert rejected.num_partitions == -1
    assert created.error_code is ErrorCode.none
    assert {topic.name for topic in broker.topics} == {"fine"}


def test_an_error_message_that_is_too_long_fails_the_request(broker: BrokerHarness) -> None:
    """Topics are created nevertheless, as in Kafka, which fails when it encodes the response."""
    names = "x" * 32_760, "fine"
    failed = create(broker, *map(new_topic, names))
    assert [(each.name, each.error_code, each.error_message) for each in failed] == [
        (name, ErrorCode.unknown_server_error, None) for name in names
    ]
    assert {topic.name for topic in broker.topics} == {"fine"}


def test_manual_assignments_to_this_broker_are_accepted(broker: BrokerHarness) -> None:
    (created,) = create(broker, new_topic(**MANUAL, assignments=[(1, (1,)), (0, (1,))]))
    assert (created.error_code, created.num_partitions) == (ErrorCode.none, 2)


@pytest.mark.parametrize("version", [2, 7])
@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_timeout_of_zero_creates_and_validates_nothing(
    broker: BrokerHarness, version: int, timeout_ms: int
) -> None:
    topics = [new_topic(name) for name in ("bad!", "twice", "twice")]
    how = {"version": version, "timeout_ms": timeout_ms}
    responses = create(broker, *topics, **how)
    assert [each.error_code for each in responses] == [ErrorCode.request_timed_out] * 3
    # Repeated names are found before the timeout is checked.
    (twice,) = create(broker, *topics[1:], **how)
    assert twice.error_code is ErrorCode.invalid_request
    assert create(broker, **how) == ()
    assert len(broker.topics) == 0


def test_the_existing_offsets_topic_cannot_be_created(broker: BrokerHarness) -> None:
    broker.topics.ensure_coordinator_topic(OFFSETS_TOPIC)
    (rejected,) = create(broker, new_topic("__consumer_offsets"), validate_only=True)
    assert rejected.error_code is ErrorCode.topic_already_exists
    assert rejected.error_message == "Topic '__consumer_offsets' already exists."


@pytest.mark.parametrize(
    "topics",
    [
        (new_topic("a", num_partitions=9_999), new_topic("b", num_partitions=2)),
        (new_topic("a", num_partitions=10_000), new_topic("b", num_partitions=-1)),
        (new_topic("a", num_partitions=10_001), new_topic("b", num_partitions=-2)),
        (new_topic("a", num_partitions=10_001), new_topic("b"), new_topic("b")),
    ],
)
def test_requests_for_too_many_partitions_create_nothing(
    broker: BrokerHarness, topics: tuple[Any, ...]
) -> None:
    failed = create(broker, *topics)
    message = "Excessively large number of partitions per request."
    assert [(each.name, each.error_code, each.error_message) for each in failed] == [
        (each["name"], ErrorCode.policy_violation, message) for each in topics
    ]
    # Repeated topics do not count.
    (rejected,) = create(broker, *[new_topic("a", num_partitions=9_999)] * 2)
    assert rejected.error_code is ErrorCode.invalid_request
    assert create(broker, new_topic("a"))[0].error_code is ErrorCode.none


def test_a_topic_that_does_not_become_durable_is_an_error(broker: BrokerHarness) -> None:
    broker.files.fail("sync")
    (rejected,) = create(broker, new_topic())
    assert rejected.error_code is ErrorCode.kafka_storage_error
    assert len(broker.topics) == 0
    (created,) = create(broker, new_topic())
    assert created.error_code is ErrorCode.none
    assert len(broker.restart().topics) == 1


def test_the_folders_of_many_partitions_are_not_looked_up_one_by_one(
    broker: BrokerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leftover folder is still found."""
    looked_up: list[Any] = []
    exists = broker.files.exists
    monkeypatch.setattr(broker.files, "exists", lambda path: looked_up.append(path) or exists(path))
    broker.files.make_folder(broker.topics.folder / "wide-77")
    broker.create_topic("wide", 1_000)
    assert len(looked_up) < 10
    assert not exists(broker.topics.folder / "wide-77")
    assert exists(broker.topics.folder / "wide-77.stray") or any(
        "stray" in name for name in broker.files.list(broker.topics.folder)
    )


def test_topics_whose_creation_takes_long_are_created_in_slices(broker: BrokerHarness) -> None:
    """This also applies to a few topics."""
    ticks = itertools.count()
    broker.scheduler.seconds = lambda: next(ticks) * SLICE_SECONDS
    topics = [{"name": f"t-{n}", "num_partitions": 1, "replication_factor": 1} for n in range(4)]
    pending = broker.send("CreateTopics", topics=topics, timeout=1000)
    assert pending.is_muted
    assert len(broker.topics) == 1
    broker.run_loop()
    assert [each.error_code for each in pending.response.topics] == [0] * 4


def test_topics_with_the_same_overrides_share_their_configs(broker: BrokerHarness) -> None:
    """A response for ten thousand topics has thirty values for each."""
    base = {"num_partitions": 1, "replication_factor": 1}
    configs = [[], [], [{"name": "retention.ms", "value": "77"}]]
    topics = [{"name": f"t-{n}", **base, "configs": each} for n, each in enumerate(configs)]
    responses = list[Any]()
    broker._routes.find(19, 7).encode = lambda message, _id: responses.append(message) or b""
    broker.send("CreateTopics", topics=topics, timeout=1000)
    broker.run_loop()
    first, second, third = responses[0].topics
    assert first.configs is second.configs
    assert {each.name: each.value for each in third.configs}["retention.ms"] == "77"
