"""With kafka-python 2 installed, only the modules that need version 3 fail."""

import subprocess
import sys

import pytest

# As in version 2, the package lacks the names that are imported from it.
OLDER = "import sys, types; sys.modules['kafka'] = types.ModuleType('kafka'); "


def run_with_version_2(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", OLDER + code], capture_output=True, text=True, timeout=60
    )


def test_kohort_groups_reports_the_required_version() -> None:
    done = run_with_version_2(
        "from kohort.cli.main import main; "
        "sys.exit(main(['groups', '--list', '--bootstrap-server', 'localhost:9092']))"
    )
    assert done.returncode == 2
    assert done.stderr == (
        "kohort groups: kafka-python 3 is required: pip install 'kafka-python>=3'.\n"
    )


@pytest.mark.parametrize("module", ["assignors.kafka_python", "testing.real_cluster"])
def test_modules_that_need_version_3_report_it_on_import(module: str) -> None:
    assert "kafka-python 3: pip install" in run_with_version_2(f"import kohort.{module}").stderr


def test_the_rest_works_without_version_3() -> None:
    done = run_with_version_2(
        "from kohort.testing import Kafka\n"
        "with Kafka() as kafka: kafka.topic('orders').produce(['one'])\n"
        "import kohort.cli.main, kohort.assignors\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
