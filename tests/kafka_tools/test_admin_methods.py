"""Every method of Java's Admin returns what it returns with Kafka 4.3.

The results are in admin_methods.tsv: the output of AdminMethods.java for a new Kafka with the
settings of tests/clients/test_admin_methods.py.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.java import java
from support.running_broker import config_flags, start_broker

from ..clients.test_admin_methods import SETTINGS

HERE = Path(__file__).parent
# kohort has no share and streams groups, and no delegation tokens.
UNSUPPORTED = ("Share", "Streams", "DelegationToken")


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    """HOST:PORT of a new broker."""
    flags = ("--port", "0", "--durability", "none", *config_flags(SETTINGS))
    with start_broker(tmp_path, *flags) as broker:
        yield broker.bootstrap


def results(text: str) -> dict[str, str]:
    lines = (line.partition("\t") for line in text.splitlines())
    return {name: result for name, _, result in lines if not any(u in name for u in UNSUPPORTED)}


def test_every_method_of_the_java_admin(bootstrap: str, kafka_jars: Path) -> None:
    program = HERE / "AdminMethods.java"
    command = [*java(kafka_jars, "tools"), str(program), bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found = results(done.stdout)
    recorded = results((HERE / "admin_methods.tsv").read_text())
    assert found.keys() == recorded.keys()
    for name, result in found.items():
        assert result == recorded[name], name
