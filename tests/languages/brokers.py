"""The brokers on which stories are played, with the same listeners and users. Stories inspect both
through kafka-python's admin client."""

import contextlib
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    MemberToRemove,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kohort.broker.config.keys import STANDARD_AUTHORIZER
from kohort.broker.security.certificates import CA_FILE, CertificateAuthority
from kohort.testing.deadline import poll
from kohort.testing.kafka import Kafka
from kohort.testing.kafka_python.cluster import RealCluster
from support.kafka_process import KafkaFolder

from .driver import TIMEOUT_SECONDS

USER = "alice"
OFFSETS_PARTITIONS = 50  # of __consumer_offsets, each with its own coordinator
# Clients without authentication may do everything; the user only what stories allow.
SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}
LISTENERS = "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0"


class Cluster:
    """A broker. Its methods may be called from several threads."""

    def __init__(self, servers: str, sasl: str, tls: str, ca_file: Path) -> None:
        self.servers = servers
        self._secured = {"SASL_PLAINTEXT": sasl, "SASL_SSL": tls}
        self._ca_file = ca_file
        self._other_authority = tempfile.TemporaryDirectory()
        self.other_ca_file = CertificateAuthority(Path(self._other_authority.name)).ca_file
        """The certificate of an authority that did not issue the broker's certificate."""
        self._lock = threading.Lock()  # kafka-python's admin client belongs to one thread
        self._cluster = RealCluster(servers)
        self._admin: KafkaAdminClient = self._cluster.admin

    def close(self) -> None:
        self._cluster.close()
        self._other_authority.cleanup()

    def login(self, protocol: str, mechanism: str) -> dict[str, Any]:
        """The parameters `servers` and `security` of a driver."""
        security = {
            "protocol": protocol,
            "mechanism": mechanism,
            "user": USER,
            "password": USER,
            "ca": str(self._ca_file),
        }
        return {"servers": self._secured[protocol], "security": security}

    def create_topic(self, name: str, partitions: int) -> None:
        with self._lock:
            self._cluster.create_topic(name, partitions, {})

    def allow(self, prefix: str) -> None:
        """Allow the user all operations on topics and groups with this prefix."""
        acls = [
            ACL(
                f"User:{USER}",
                "*",
                ACLOperation.ALL,
                ACLPermissionType.ALLOW,
                ResourcePattern(kind, prefix, ACLResourcePatternType.PREFIXED),
            )
            for kind in (ResourceType.TOPIC, ResourceType.GROUP)
        ]
        with self._lock:
            self._admin.create_acls(acls)
            # Kafka's authorizer applies them with a delay.
            assert poll(lambda: all(map(self._is_applied, acls)), TIMEOUT_SECONDS)

    def _is_applied(self, acl: ACL) -> bool:
        found, _ = self._admin.describe_acls(acl)
        return bool(found)

    def wait_members(self, group: str, count: int) -> None:
        """Wait until the group is stable with this number of members."""

        def is_stable() -> bool:
            with self._lock:
                view = self._cluster.describe(group)
            return len(view.members) == count and view.is_settled

        assert poll(is_stable, TIMEOUT_SECONDS), f"{group} has {count} members"

    def member_count(self, group: str) -> int:
        with self._lock:
            return len(self._cluster.describe(group).members)

    def remove_members(self, group: str) -> None:
        """Remove all members, as an administrator can."""
        with self._lock:
            members = [
                MemberToRemove(member_id=each.member_id)
                for each in self._cluster.describe(group).members
            ]
            self._admin.remove_group_members(group, members)

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        with self._lock:
            return self._cluster.offsets(group)

    def protocol(self, group: str) -> str:
        """`classic` or `consumer`."""
        with self._lock:
            listed = self._admin.list_groups()
        return next(str(each["group_type"]) for each in listed if each["group_id"] == group)

    def warm_up(self) -> None:
        """Wait until Kafka has created and loaded the topics of its coordinators. Use up producer
        id 0, because some libraries treat it as no id."""
        for number in range(OFFSETS_PARTITIONS):
            self.offsets(f"group {number}")
        quiet = {"log_level": 0}  # librdkafka logs that it waits
        where = {"bootstrap.servers": self.servers, "transactional.id": "first"}
        producer = Producer({**where, **quiet})
        producer.init_transactions(TIMEOUT_SECONDS)

    def add_scram_user(self) -> None:
        added = UserScramCredentialUpsertion(USER, ScramMechanism.SCRAM_SHA_512, USER)
        with self._lock:
            self._admin.alter_user_scram_credentials([added])


@contextlib.contextmanager
def kohort_in_process() -> Iterator[Cluster]:
    config = {**SETTINGS, "listeners": LISTENERS}
    with Kafka(security="SASL_SSL", users={USER: USER}, config=config) as kafka:
        plaintext, sasl, tls = (
            str(
                kafka.security.client_config(library="kafka-python", listener=name)[
                    "bootstrap_servers"
                ]
            )
            for name in ("PLAINTEXT", "SASL_PLAINTEXT", "SASL_SSL")
        )
        with contextlib.closing(Cluster(plaintext, sasl, tls, kafka.security.ca_file)) as cluster:
            cluster.warm_up()
            yield cluster


@contextlib.contextmanager
def kafka_process(jars: Path, folder: Path) -> Iterator[Cluster]:
    """Kafka 4.3 in a process."""
    certificate = CertificateAuthority(folder).issue("broker.pem", ["127.0.0.1"])
    kafka = KafkaFolder(jars, folder, SETTINGS, (USER,), certificate)
    kafka.format()
    with kafka.running(ends_well=False) as servers:
        addresses = (f"127.0.0.1:{port}" for port in (kafka.sasl_port, kafka.tls_port))
        with contextlib.closing(Cluster(servers, *addresses, folder / CA_FILE)) as cluster:
            cluster.add_scram_user()
            cluster.warm_up()
            yield cluster
