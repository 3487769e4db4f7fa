"""Every method of the admin clients returns the same result as with Kafka 4.3.

The results are in admin_methods.json. To record them, run this module with KOHORT_RECORD=1 and
KOHORT_TEST_BOOTSTRAP_SERVERS, the address of a new Kafka with the settings of SETTINGS.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient
from support.running_broker import EXTERNAL, config_flags, start_broker

from . import confluent_admin_calls, kafka_python_admin_calls
from .admin_calls import Calls, attempt

RECORDED = Path(__file__).with_name("admin_methods.json")
SETTINGS = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=5",
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
# Methods that call no API.
LOCAL = {"close", "poll", "set_sasl_credentials"}


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    """HOST:PORT of a new broker."""
    if EXTERNAL:
        yield EXTERNAL
        return
    flags = ("--port", "0", "--durability", "none", *config_flags(SETTINGS))
    with start_broker(tmp_path, *flags) as broker:
        yield broker.bootstrap
        assert broker.stop() == 0


def check(library: str, admin: Any, calls: Callable[[Any, str], Calls], bootstrap: str) -> None:
    port = bootstrap.rpartition(":")[2]
    results = {name: attempt(call, port) for name, call in calls(admin, bootstrap)}
    methods = {name for name in dir(admin) if not name.startswith("_")}
    called = {name.partition(" ")[0] for name in results}
    missing = {each for each in methods - called - LOCAL if callable(getattr(admin, each))}
    assert not missing, "methods without a call"
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if os.environ.get("KOHORT_RECORD"):
        recorded[library] = results
        RECORDED.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")
    expected = recorded[library]
    assert results.keys() == expected.keys()
    for name, result in results.items():
        assert json.loads(json.dumps(result)) == expected[name], name


def test_every_method_of_kafka_python(bootstrap: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    check("kafka-python", admin, kafka_python_admin_calls.calls, bootstrap)
    admin.close()


def test_every_method_of_confluent_kafka(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    check("confluent-kafka", admin, confluent_admin_calls.calls, bootstrap)
