"""Record kafka-4.3-security.tar.gz: the metadata of a Kafka with SCRAM users, ACLs and client
quotas, and Kafka's descriptions of them.

    PYTHONPATH=tests python -m kafka_folder.record_security FOLDER_WITH_KAFKAS_JARS
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from kohort.topics.acls import AclOperation, AclPermission, AclResourceType, PatternType
from kohort.topics.scram import ScramMechanism
from support.kafka_process import KafkaFolder
from support.sasl import upsertion

from .group_requests import call, error_codes
from .record import SETTINGS, pack, read_files

TARGET = Path(__file__).parent / "kafka-4.3-security.tar.gz"
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


def acl_filter(name: str | None) -> dict[str, Any]:
    """The filter for all ACLs of a resource; None: of all."""
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
    """Return the users, ACLs and quotas that a broker describes, in an order of their own."""
    described = {
        "users": call(address, "DescribeUserScramCredentials", 0, {"users": None})["results"],
        "acls": call(address, "DescribeAcls", 3, acl_filter(None))["resources"],
        "quotas": call(address, "DescribeClientQuotas", 1, {"components": [], "strict": False})[
            "entries"
        ],
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


def main(jars: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        kafka = KafkaFolder(Path(jars), Path(scratch), {**SETTINGS, **AUTHORIZER})
        kafka.format()
        with kafka.running() as address:
            add_users(address)
            add_acls(address)
            add_quotas(address)
            state = security_state(address)
        files = {
            name: content
            for name, content in read_files(kafka.data).items()
            if name.endswith(("meta.properties", ".log", ".checkpoint"))
        }
        TARGET.write_bytes(pack(files, state))
    sys.stdout.write(f"{TARGET}: {TARGET.stat().st_size} bytes\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
