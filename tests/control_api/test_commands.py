"""`kohort ctl`: the controls as commands."""

import json
import re
from typing import Any

import pytest
from kohort.cli.ctl.client import TIMEOUT_SECONDS
from kohort.cli.ctl.commands import COMMANDS
from kohort.cli.main import main
from kohort.control_api.endpoints import ENDPOINTS
from kohort.testing import Kafka, waiting

from .conftest import Asker


class Commands:
    """`run("topic", "orders")` -> exit code, what was printed as JSON, standard error."""

    def __init__(self, capsys: pytest.CaptureFixture[str], url: str) -> None:
        self._capsys = capsys
        self._url = url

    def __call__(self, *words: str) -> tuple[int, Any, str]:
        code = main(["ctl", "--control", self._url, *words])
        out, err = self._capsys.readouterr()
        return code, json.loads(out) if out else None, err


@pytest.fixture
def run(ask: Asker, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys, ask.url)


def test_there_is_a_command_for_each_endpoint_with_all_that_it_takes() -> None:
    asked = {
        (command.method, command.path): {
            *re.findall(r"{(\w+)}", command.path),
            *command.places,
            *command.flags,
        }
        for command in COMMANDS
    }
    assert len(asked) == len(COMMANDS)
    assert asked == {
        (each.method, each.path): {field.name for field in each.fields} for each in ENDPOINTS
    }
    for command in COMMANDS:
        endpoint = next(
            each for each in ENDPOINTS if (each.method, each.path) == (command.method, command.path)
        )
        required = {field.name for field in endpoint.fields if field.is_required}
        assert required == {*endpoint.in_path, *command.places}
    assert TIMEOUT_SECONDS == waiting.TIMEOUT_SECONDS


def test_a_session_of_commands(run: Commands, kafka: Kafka) -> None:
    code, made, _ = run("topic", "orders", "--partitions", "2", "--config", "retention.ms=1000")
    assert (code, len(made["partitions"])) == (0, 2)
    produced = ["--keys", "k", "--keys", "l", "--partition", "1", "--headers", "trace=7"]
    run("produce", "orders", "a", "b", *produced)
    _, read, _ = run("records", "orders", "--partition", "1", "--limit", "1")
    assert [(each["key"], each["value"]) for each in read["records"]] == [("k", "a")]
    assert read["records"][0]["headers"] == [{"key": "trace", "value": "7"}]
    assert run("lag", "billing", "orders")[1]["lag"] == 2
    _, before, _ = run("freeze")
    assert run("advance", "--minutes", "1.5")[1]["now_ms"] == before["now_ms"] + 90_000
    assert run("group", "a/b c")[1]["group"] == "a/b c"
    _, fault, _ = run("fault", "drop", "Heartbeat", "--group", "billing", "--times", "always")
    assert (fault["where"], fault["times"]) == ({"group": "billing"}, None)
    assert run("cancel-fault", str(fault["fault"]))[0] == 0
    assert run("check-faults")[0] == 0
    assert run("reset")[1]["bootstrap_servers"] == kafka.bootstrap_servers
    assert run("topics")[1] == {"topics": []}


def test_a_barrier_in_vain_and_an_unused_fault_end_with_1_and_their_story(run: Commands) -> None:
    code, out, err = run("wait", "billing", "stable", "--members", "2", "--timeout", "0.01")
    assert (code, out) == (1, None)
    assert "billing does not exist: nobody has joined it" in err
    run("fault", "answer", "Heartbeat", "--error", "NOT_COORDINATOR")
    code, out, err = run("check-faults")
    assert (code, out) == (1, None)
    assert "Heartbeat: answered with NOT_COORDINATOR, fired 0" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["delete-topic", "orders"], "there is no topic orders."),
        (
            ["wait", "billing", "idle"],
            "until is one of stable, generation, owner, committed, empty",
        ),
        (["fault", "drop", "Fetsch"], "there is no API called Fetsch: did you mean Fetch?"),
        (["group", ""], "group is at least 1 letters long, not 0."),
    ],
)
def test_what_is_wrong_ends_with_2_and_a_sentence(
    run: Commands, words: list[str], sentence: str
) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, None)
    assert err.startswith(f"kohort ctl: {sentence}")


@pytest.mark.parametrize(
    ("control", "sentence"),
    [
        ([], "say where the controls are: --control URL, or KOHORT_CONTROL=URL, as "),
        (["--control", "localhost:1"], "localhost:1 is no URL: write it as http://127.0.0.1:9093."),
        (["--control", "http://127.0.0.1:1"], "http://127.0.0.1:1 cannot be asked ("),
        (["--control", "http://[oops"], "http://[oops cannot be asked ("),
    ],
)
def test_controls_that_are_not_there_are_told(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    control: list[str],
    sentence: str,
) -> None:
    monkeypatch.delenv("KOHORT_CONTROL", raising=False)
    assert main(["ctl", *control, "cluster"]) == 2
    assert capsys.readouterr().err.startswith(f"kohort ctl: {sentence}")
