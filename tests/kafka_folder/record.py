"""Record data folders of Kafka.

    PYTHONPATH=tests python -m kafka_folder.record groups|security FOLDER_WITH_KAFKAS_JARS

kafka-4.3-security.tar.gz is the metadata of a Kafka with SCRAM users, ACLs, client quotas and
configurations of groups and client metrics, and Kafka's descriptions of them.

kafka-4.3.tar.gz is a data folder, and Kafka's responses about the groups in it. Kafka is started
once for each codec of the offsets topic. The folder contains groups of every type with and without
members, and committed, aborted and open transactions. After a restart Kafka reports the type,
description and offsets of every group; then it stops and its folder is packed. After another
restart it responds to members of the packed groups.
"""

import gzip
import io
import json
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from kohort.topics.acls import AclOperation, AclPermission, AclResourceType, PatternType
from kohort.topics.scram import ScramMechanism
from support.kafka_process import KafkaFolder
from support.sasl import upsertion

from . import consumer_groups
from .group_requests import (
    call,
    classic_protocol_errors,
    commit_with_retention,
    delete_offsets,
    error_codes,
    group_state,
    join_share_group,
    join_streams_group,
)

TARGET = Path(__file__).parent / "kafka-4.3.tar.gz"
SECURITY_TARGET = Path(__file__).parent / "kafka-4.3-security.tar.gz"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.max.timeout.ms": "900000",
    # Sessions do not expire during the recording, so that the groups have members.
    "group.consumer.session.timeout.ms": "60000",
    "group.share.session.timeout.ms": "60000",
    "group.share.max.session.timeout.ms": "60000",
    "group.share.heartbeat.interval.ms": "15000",
    "group.streams.session.timeout.ms": "60000",
    "group.streams.max.session.timeout.ms": "60000",
    "group.consumer.assignment.interval.ms": "0",
    "auto.create.topics.enable": "false",
    # So that log records follow a metadata snapshot.
    "metadata.log.max.snapshot.interval.ms": "5000",
}
TOPIC, COMPACTED, DELETED = "orders", "prices", "cancelled"
GROUPS = (
    "classic", "classic-left", "classic-static", "plain", "deleted", "retained",
    "modern", "modern-left", "modern-pattern", "share", "streams",
    "txn-committed", "txn-aborted", "txn-aborted-after-plain", "txn-before-plain",
    "txn-after-plain", "txn-tombstone", "txn-both", "txn-open", "txn-open-after-plain",
    *(f"codec-{codec}" for codec in CODECS),
)  # fmt: skip
# Groups of types that only Kafka has, with and without members, and an unknown group.
NOT_CLASSIC = ("modern", "modern-left", "modern-pattern", "share", "streams", "never")
PRODUCED = 5  # records of each codec in each partition of TOPIC


def consumer(address: str, group_id: str, **config: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group_id,
            "client.id": "recorder",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **config,
        }
    )


def commit(address: str, group_id: str, *offsets: int, metadata: str = "") -> None:
    """Commit one offset for each partition of TOPIC, starting at 0, without a member id."""
    standalone = consumer(address, group_id)
    offsets_of_partitions = [TopicPartition(TOPIC, n, at, metadata) for n, at in enumerate(offsets)]
    standalone.commit(offsets=offsets_of_partitions, asynchronous=False)
    standalone.close()


def produce(address: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 500})
    for number in range(PRODUCED * 2):
        producer.produce(TOPIC, f"{codec}-{number}".encode() * 20, b"key", partition=number % 2)
        producer.produce(COMPACTED, b"price", f"{codec}".encode())
    producer.flush()


def join(address: str, group_id: str, topics: list[str], **config: Any) -> Consumer:
    """Return a member that has joined the group, consumed a record and committed its offset."""
    member = consumer(address, group_id, **config)
    member.subscribe(topics)
    message = member.poll(30)
    assert message is not None
    assert message.error() is None, message.error()
    member.commit(asynchronous=False)
    return member


class Transaction:
    """An open transaction that commits `offset` of the first partition of TOPIC for the group."""

    def __init__(self, address: str, name: str, group_id: str, offset: int):
        self.producer = Producer(
            {
                "bootstrap.servers": address,
                "transactional.id": name,
                "transaction.timeout.ms": 900_000,
            }
        )
        self.producer.init_transactions()
        self.producer.begin_transaction()
        self.send(address, group_id, offset)

    def send(self, address: str, group_id: str, offset: int) -> None:
        standalone = consumer(address, group_id)
        at = TopicPartition(TOPIC, 0, offset)
        self.producer.send_offsets_to_transaction([at], standalone.consumer_group_metadata())
        self.producer.produce(TOPIC, f"{group_id}-{offset}", partition=2)
        self.producer.flush()
        standalone.close()


def transact(address: str) -> list[Transaction]:
    """Return the open transactions, which remain open while they are referenced."""
    Transaction(address, "t1", "txn-committed", 2).producer.commit_transaction()
    Transaction(address, "t1", "txn-aborted", 3).producer.abort_transaction()
    commit(address, "txn-aborted-after-plain", 1)
    Transaction(address, "t1", "txn-aborted-after-plain", 4).producer.abort_transaction()
    before = Transaction(address, "t2", "txn-before-plain", 9)
    commit(address, "txn-before-plain", 5)
    before.producer.commit_transaction()
    commit(address, "txn-after-plain", 5)
    Transaction(address, "t2", "txn-after-plain", 3).producer.commit_transaction()
    deleted = Transaction(address, "t2", "txn-tombstone", 7)
    commit(address, "txn-tombstone", 6, 6)
    delete_offsets(address, "txn-tombstone", TOPIC, 0)
    deleted.producer.commit_transaction()
    first, second = (Transaction(address, f"t{n}", "txn-both", n) for n in (4, 5))
    second.producer.commit_transaction()
    first.producer.commit_transaction()
    commit(address, "txn-open-after-plain", 3, 4)
    return [
        Transaction(address, "open1", "txn-open", 2),
        Transaction(address, "open2", "txn-open-after-plain", 5),
    ]


def make_topics(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    created = admin.create_topics(
        [
            NewTopic(TOPIC, 3, 1, config={"retention.ms": "86400000", "segment.bytes": "1048576"}),
            NewTopic(COMPACTED, 1, 1, config={"cleanup.policy": "compact"}),
            NewTopic(DELETED, 2, 1),
        ]
    )
    for each in created.values():
        each.result()
    for key, value, operation in (
        ("max.message.bytes", "2000000", AlterConfigOpType.SET),
        ("retention.ms", None, AlterConfigOpType.DELETE),
    ):
        entry = ConfigEntry(key, value, incremental_operation=operation)
        orders = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[entry])
        for each in admin.incremental_alter_configs([orders]).values():
            each.result()
    admin.delete_topics([DELETED])[DELETED].result()


def make_groups(address: str) -> list[object]:
    """Create groups of every type; return the clients, which must live until the broker stops."""
    join(address, "classic-left", [TOPIC]).close()
    join(address, "modern-left", [TOPIC], **{"group.protocol": "consumer"}).close()
    join(address, "modern-pattern", ["^pri.*"], **{"group.protocol": "consumer"}).close()
    commit(address, "plain", 3, 1, metadata="grüße")
    commit(address, "deleted", 3)
    commit_with_retention(address, "retained", TOPIC, 42)
    admin = AdminClient({"bootstrap.servers": address})
    admin.delete_consumer_groups(["deleted"])["deleted"].result()
    join_share_group(address, "share", TOPIC)
    join_streams_group(address, "streams", TOPIC)
    members = [
        join(address, "classic", [TOPIC]),
        join(address, "classic-static", [TOPIC], **{"group.instance.id": "recorder-1"}),
        join(address, "modern", [TOPIC], **{"group.protocol": "consumer"}),
    ]
    return [*members, *transact(address)]


def read_files(data: Path) -> dict[str, bytes]:
    """Return all files except the lock."""
    paths = sorted(path for path in data.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(data.parent)): path.read_bytes() for path in paths}


def pack(files: Mapping[str, bytes], responses: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    text = json.dumps(responses, indent=1, ensure_ascii=False).encode()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in {**files, "responses.json": text}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(out.getvalue(), mtime=0)


def record_groups(jars: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        kafka = KafkaFolder(Path(jars), Path(scratch), SETTINGS)
        kafka.format()
        for codec in CODECS:
            number = str(CODECS.index(codec))
            with kafka.running({"offsets.topic.compression.codec": number}) as address:
                if codec == "none":
                    make_topics(address)
                produce(address, codec)
                commit(address, f"codec-{codec}", *([CODECS.index(codec)] * 3))
                if codec == "zstd":
                    clients = make_groups(address)
                    consumer_groups.create(address, "kafka")
        # After a restart no member is connected, as when a copy of the folder is used.
        with kafka.running({}) as address:
            responses = group_state(address, GROUPS)
            responses["consumer groups"] = consumer_groups.described(address, "kafka")
        files = read_files(kafka.data)
        with kafka.running() as address:
            responses["resumed consumer groups"] = consumer_groups.resume(address, "kafka")
            responses["classic requests"] = {
                group: classic_protocol_errors(address, group, TOPIC) for group in NOT_CLASSIC
            }
        assert clients
        TARGET.write_bytes(pack(files, responses))
    sys.stdout.write(f"{TARGET}: {TARGET.stat().st_size} bytes\n")


# --- users, ACLs, quotas and configurations

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
USERS = (
    ("alice", "alice-secret", ScramMechanism.SHA_256),
    ("alice", "alice-secret", ScramMechanism.SHA_512),
    ("bob", "replaced", ScramMechanism.SHA_256),
    ("bob", "bob-secret", ScramMechanism.SHA_256),
    ("deleted", "deleted-secret", ScramMechanism.SHA_256),
)
ACLS = (
    (AclResourceType.TOPIC, "orders", PatternType.LITERAL, AclOperation.READ, AclPermission.ALLOW),
    (AclResourceType.TOPIC, "pri", PatternType.PREFIXED, AclOperation.ALL, AclPermission.DENY),
    (AclResourceType.GROUP, "*", PatternType.LITERAL, AclOperation.READ, AclPermission.ALLOW),
    (AclResourceType.TOPIC, "gone", PatternType.LITERAL, AclOperation.READ, AclPermission.ALLOW),
)
QUOTAS: tuple[tuple[dict[str, str | None], dict[str, float]], ...] = (
    ({"user": "alice"}, {"producer_byte_rate": 1048576.0, "request_percentage": 12.5}),
    ({"user": None, "client-id": "batch"}, {"consumer_byte_rate": 2048.0}),
    ({"ip": "127.0.0.1"}, {"connection_creation_rate": 50.0}),
    ({"user": "gone"}, {"consumer_byte_rate": 1.0}),
)
CLIENT_METRICS, GROUP = 16, 32
# By type and name of a resource. Keys that end with "!" are deleted again.
CONFIGS = {
    (GROUP, "billing"): {
        "consumer.session.timeout.ms": "50000",
        "streams.num.standby.replicas!": "1",
    },
    (GROUP, "gone"): {"consumer.heartbeat.interval.ms!": "6000"},
    (CLIENT_METRICS, "latency"): {"interval.ms": "60000", "match": "client_id=app.*"},
}


def add_users(address: str) -> None:
    for user in USERS:
        _alter(address, "AlterUserScramCredentials", 0, {"upsertions": [upsertion(*user)]})
    deletion = {"name": "deleted", "mechanism": ScramMechanism.SHA_256}
    _alter(address, "AlterUserScramCredentials", 0, {"deletions": [deletion]})


def add_acls(address: str) -> None:
    creations = [
        {
            "resource_type": resource_type,
            "resource_name": name,
            "resource_pattern_type": pattern_type,
            "principal": "User:alice",
            "host": "*",
            "operation": operation,
            "permission_type": permission,
        }
        for resource_type, name, pattern_type, operation, permission in ACLS
    ]
    _alter(address, "CreateAcls", 3, {"creations": creations})
    _alter(address, "DeleteAcls", 3, {"filters": [acl_filter("gone")]})


def add_quotas(address: str) -> None:
    def entry(entity: dict[str, str | None], quotas: dict[str, float], *, remove: bool) -> Any:
        return {
            "entity": [{"entity_type": each, "entity_name": entity[each]} for each in entity],
            "ops": [{"key": key, "value": quotas[key], "remove": remove} for key in quotas],
        }

    entries = [entry(*each, remove=False) for each in QUOTAS]
    _alter(address, "AlterClientQuotas", 1, {"entries": entries, "validate_only": False})
    removed = entry(*QUOTAS[-1], remove=True)
    _alter(address, "AlterClientQuotas", 1, {"entries": [removed], "validate_only": False})


def add_configs(address: str) -> None:
    set_, delete = 0, 1
    for (kind, name), configs in CONFIGS.items():
        for operation in (set_, delete):
            changes = [
                {"name": key.rstrip("!"), "value": value, "config_operation": operation}
                for key, value in configs.items()
                if operation == set_ or key.endswith("!")
            ]
            resource = {"resource_type": kind, "resource_name": name, "configs": changes}
            _alter(address, "IncrementalAlterConfigs", 1, {"resources": [resource]})


def acl_filter(name: str | None) -> dict[str, Any]:
    """Return the filter for all ACLs of a resource; None: of all resources."""
    return {
        "resource_type_filter": AclResourceType.ANY,
        "resource_name_filter": name,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": AclOperation.ANY,
        "permission_type": AclPermission.ANY,
    }


def security_state(address: str) -> dict[str, Any]:
    """Return the users, ACLs, quotas and configurations that a broker describes, each in a fixed
    order."""
    resources = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configuration_keys": [key.rstrip("!") for key in configs],
        }
        for (kind, name), configs in CONFIGS.items()
    ]
    described = {
        "users": call(address, "DescribeUserScramCredentials", 0, {"users": None})["results"],
        "acls": call(address, "DescribeAcls", 3, acl_filter(None))["resources"],
        "quotas": call(address, "DescribeClientQuotas", 1, {"components": [], "strict": False})[
            "entries"
        ],
        "configs": call(address, "DescribeConfigs", 4, {"resources": resources})["results"],
    }
    plain = json.loads(json.dumps(described))
    for each in plain["users"]:
        each["credential_infos"].sort(key=str)
    for each in plain["quotas"]:
        each["entity"].sort(key=str)
        each["values"].sort(key=str)
    return {name: sorted(items, key=str) for name, items in plain.items()}


def _alter(address: str, api: str, version: int, values: dict[str, Any]) -> None:
    response = call(address, api, version, values)
    assert set(error_codes(response)) == {"none"}, response


def record_security(jars: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        kafka = KafkaFolder(Path(jars), Path(scratch), {**SETTINGS, **AUTHORIZER})
        kafka.format()
        with kafka.running() as address:
            add_users(address)
            add_acls(address)
            add_quotas(address)
            add_configs(address)
            state = security_state(address)
        files = {
            name: content
            for name, content in read_files(kafka.data).items()
            if name.endswith(("meta.properties", ".log", ".checkpoint"))
        }
        SECURITY_TARGET.write_bytes(pack(files, state))
    sys.stdout.write(f"{SECURITY_TARGET}: {SECURITY_TARGET.stat().st_size} bytes\n")


if __name__ == "__main__":
    {"groups": record_groups, "security": record_security}[sys.argv[1]](sys.argv[2])
