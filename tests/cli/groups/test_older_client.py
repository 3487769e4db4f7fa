"""An application may have kafka-python 2 beside kohort: only what needs version 3 says so."""

import subprocess
import sys

import pytest

# Stands in for version 2, which has a package of that name and not what is imported from it.
OLDER = "import sys, types; sys.modules['kafka'] = types.ModuleType('kafka'); "


def with_an_older_one(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", OLDER + code], capture_output=True, text=True, timeout=60
    )


def test_groups_says_what_it_needs() -> None:
    done = with_an_older_one(
        "from kohort.cli.main import main; "
        "sys.exit(main(['groups', '--list', '--bootstrap-server', 'localhost:9092']))"
    )
    assert done.returncode == 2
    assert done.stderr == (
        "kohort groups: it needs kafka-python 3: pip install 'kafka-python>=3'.\n"
    )


@pytest.mark.parametrize("module", ["assignors.kafka_python", "testing.real_cluster"])
def test_so_do_those_who_cannot_be_imported(module: str) -> None:
    assert "kafka-python 3: pip install" in with_an_older_one(f"import kohort.{module}").stderr


def test_all_else_does_not_need_it() -> None:
    done = with_an_older_one(
        "from kohort.testing import Kafka\n"
        "with Kafka() as kafka: kafka.topic('orders').produce(['one'])\n"
        "import kohort.cli.main, kohort.assignors\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
