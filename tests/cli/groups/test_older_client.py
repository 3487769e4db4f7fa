"""With kafka-python 2 installed, or without an extra, only what needs it fails."""

import subprocess
import sys

import pytest

# As in version 2, the package lacks the names that are imported from it.
OLDER = "import sys, types; sys.modules['kafka'] = types.ModuleType('kafka'); "


MISSING = "import sys; sys.modules |= dict.fromkeys(('kafka', 'pyarrow', 'rich')); "


def run_with_version_2(code: str, before: str = OLDER) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", before + code], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("command", ["groups --list", "acls --list", "transactions list"])
def test_commands_report_that_the_installed_version_is_too_old(command: str) -> None:
    name, action = command.split()
    arguments = [name, "--bootstrap-server", "localhost:9092", action]
    done = run_with_version_2(f"from kohort.cli.main import main; sys.exit(main({arguments}))")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"kohort {name}: the installed version of kafka-python is too old ("
    )
    assert done.stderr.endswith(
        "): run pip install './kohort[cli]' in the folder that contains the clone.\n"
    )


@pytest.mark.parametrize("module", ["assignors.kafka_python", "testing.real_cluster"])
def test_modules_that_need_version_3_report_it_on_import(module: str) -> None:
    assert "kafka-python 3: pip install" in run_with_version_2(f"import kohort.{module}").stderr


@pytest.mark.parametrize(
    ("command", "package", "extra"),
    [
        ("groups --list --bootstrap-server localhost:9092", "kafka-python", "cli"),
        ("assign --assignor range --topic t=1 --member a=t", "rich", "cli"),
        ("lag --lake missing", "pyarrow", "pipeline"),
        ("pipeline run --log . --lake missing", "pyarrow", "pipeline"),
    ],
)
def test_commands_that_need_an_extra_name_it(command: str, package: str, extra: str) -> None:
    code = f"from kohort.cli.main import main; sys.exit(main({command.split()}))"
    done = run_with_version_2(code, MISSING)
    assert done.returncode == 2
    alternative = ", or install only pyarrow to query a lake" if package == "pyarrow" else ""
    assert done.stderr == (
        f"kohort {command.split()[0]}: {package} is not installed: run pip install "
        f"'./kohort[{extra}]' in the folder that contains the clone{alternative}.\n"
    )


@pytest.mark.parametrize("before", [OLDER, MISSING])
def test_the_rest_works_without_version_3(before: str) -> None:
    done = run_with_version_2(
        "from kohort.testing import Kafka\n"
        "with Kafka() as kafka: kafka.topic('orders').produce(['one'])\n"
        "import kohort.cli.main, kohort.assignors, kohort.cli.output\n"
        "kohort.cli.output.can_draw()\n",
        before,
    )
    assert (done.returncode, done.stderr) == (0, "")
