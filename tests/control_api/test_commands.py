"""`kohort ctl`: the control API as commands."""

import json
import re
from pathlib import Path
from types import FunctionType
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from confluent_kafka import Producer
from kohort.cli.ctl.client import TIMEOUT_SECONDS
from kohort.cli.ctl.commands import COMMANDS, Command
from kohort.cli.main import main
from kohort.control_api import fake_members, requests
from kohort.control_api.endpoint import Endpoint
from kohort.control_api.endpoints import ENDPOINTS
from kohort.testing import Kafka, loop_thread
from kohort.testing.faults.faults import F_co, Faults

from .conftest import ApiClient


class Commands:
    """`run("topic", "orders")` -> exit code, standard output as JSON, standard error."""

    def __init__(self, capsys: pytest.CaptureFixture[str], url: str) -> None:
        self._capsys = capsys
        self._url = url

    def __call__(self, *arguments: str) -> tuple[int, Any, str]:
        code = main(["ctl", "--control", self._url, *arguments])
        out, err = self._capsys.readouterr()
        return code, json.loads(out) if out else None, err


@pytest.fixture
def run(api: ApiClient, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(capsys, api.url)


def required(endpoint: Endpoint) -> set[str]:
    fields = (*msgspec.structs.fields(endpoint.in_path), *msgspec.structs.fields(endpoint.others))
    return {field.name for field in fields if field.required}


def test_each_endpoint_has_a_command_with_all_parameters() -> None:
    commands = {
        (command.method, command.path): {
            *re.findall(r"{(\w+)}", command.path),
            *command.positional,
            *command.flags,
        }
        for command in COMMANDS
    }
    assert len(commands) == len(COMMANDS)
    assert commands == {(each.method, each.path): set(each.names) for each in ENDPOINTS}
    for command in COMMANDS:
        endpoint = next(
            each for each in ENDPOINTS if (each.method, each.path) == (command.method, command.path)
        )
        assert required(endpoint) == {*endpoint.path_names, *command.positional}
    assert TIMEOUT_SECONDS == loop_thread.TIMEOUT_SECONDS


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_help_describes_each_argument(
    capsys: pytest.CaptureFixture[str], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit):
        main(["ctl", command.name, "--help"])
    shown = capsys.readouterr().out
    for name in (*re.findall(r"{(\w+)}", command.path), *command.positional):
        assert re.search(rf"^ +{name} +\w", shown, re.MULTILINE), name
    for name in command.flags:
        flag = f"--{name.replace('_', '-')}"
        assert re.search(rf"^ +{flag}( [A-Z_=]+)?\s+\w", shown, re.MULTILINE), flag


def test_help_of_faults_and_of_fake_members_lists_their_own_actions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    shown = {}
    for name in ("fault", "script-fake-member"):
        with pytest.raises(SystemExit):
            main(["ctl", name, "--help"])
        shown[name] = capsys.readouterr().out
    for name, actions in (
        ("fault", get_args(requests.Action)),
        ("script-fake-member", get_args(fake_members.Action)),
    ):
        assert all(re.search(rf"\b{action}\b", shown[name]) for action in actions)
    assert "stop_polling" not in shown["fault"]
    assert "throttle" not in shown["script-fake-member"]


def test_every_fault_of_requests_is_available_over_http_and_in_the_docs() -> None:
    methods = {
        name: method
        for name, method in vars(Faults).items()
        if isinstance(method, FunctionType) and not name.startswith("_")
    }
    faults = {name for name, each in methods.items() if get_type_hints(each)["return"] is F_co}
    over_http = {*get_args(requests.Action), *get_args(requests.Condition)} - {"slow_sync"}
    assert faults == over_http, "correct Action or Condition in control_api/requests.py"
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    missing = {name for name in faults if f"`{name}(" not in page}
    assert missing == set(), "add a row to a table of faults in docs/testing.md"


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
    run("advance", "--seconds", "10", "--heartbeats", "--timeout", "1")
    code, _, error = run("advance")
    assert (code, "a duration is required: days, hours" in error) == (2, True)
    run("fake-member", "a/b c", "orders")
    assert run("group", "a/b c")[1]["group"] == "a/b c"
    _, fault, _ = run("fault", "drop", "Heartbeat", "--group", "billing", "--times", "always")
    assert (fault["where"], fault["times"]) == ({"group": "billing"}, None)
    assert run("cancel-fault", str(fault["fault"]))[0] == 0
    assert run("check-faults")[0] == 0
    assert run("reset")[1]["bootstrap_servers"] == kafka.bootstrap_servers
    assert run("topics")[1] == {"topics": []}


def test_a_timeout_and_an_unused_fault_exit_with_1(run: Commands) -> None:
    code, out, err = run("wait", "billing", "stable", "--members", "2", "--timeout", "0.01")
    assert (code, out) == (1, None)
    assert "Group billing does not exist: it has neither members" in err
    run("fault", "answer", "Heartbeat", "--error", "NOT_COORDINATOR")
    code, out, err = run("check-faults")
    assert (code, out) == (1, None)
    assert "Heartbeat: answered with NOT_COORDINATOR, fired 0" in err


@pytest.mark.parametrize(
    "command",
    [
        *("group", "explain", "offsets", "generations", "assignments", "commits"),
        *("rejected-commits", "exits", "state-changes", "rebalance"),
    ],
)
def test_an_unknown_group_exits_with_1_and_a_similar_one(
    run: Commands, kafka: Kafka, command: str
) -> None:
    kafka.fake_member("billing", topics=["orders"])
    code, out, err = run(command, "biling")
    assert (code, out) == (1, None)
    assert err.startswith("Group biling does not exist: did you mean billing?")
    assert run(command, "billing")[0] == 0


def test_a_deleted_group_is_dead(run: Commands, kafka: Kafka) -> None:
    kafka.fake_member("billing", topics=["orders"]).leave()
    kafka.group("billing").wait_empty()
    kafka.clock.advance(days=8)
    assert run("group", "billing")[1]["state"] == "Dead"
    assert len(run("exits", "billing")[1]["exits"]) == 1


@pytest.mark.parametrize(
    "arguments",
    [["lag", "billing", "orders"], ["hold", "billing", "JoinGroup"], ["move", "billing", "1"]],
)
def test_commands_for_groups_that_need_not_exist_yet_exit_with_0(
    run: Commands, kafka: Kafka, arguments: list[str]
) -> None:
    kafka.topic("orders", partitions=1)
    assert run(*arguments)[0] == 0


@pytest.mark.parametrize("command", ["delete-topic", "describe-topic"])
def test_an_unknown_topic_exits_with_1(run: Commands, command: str) -> None:
    assert run(command, "orders") == (1, None, "Topic orders does not exist\n")


def test_a_transaction_in_the_wrong_state_is_explained_in_lines(
    run: Commands, producer: Producer
) -> None:
    producer.commit_transaction()
    run("wait-transaction", "billing-1", "committed")
    code, out, err = run("abort-transaction", "billing-1")
    assert (code, out) == (2, None)
    first, heading, *requests = err.splitlines()
    assert first.startswith("kohort ctl: Transaction billing-1 is not open. The last transaction")
    assert " has not begun another" in first
    assert first.endswith(".")
    assert not first.endswith("..")
    assert heading == "  last requests:"
    # Not always in the last line: librdkafka may look up the coordinator again.
    assert any("  EndTxn v" in line for line in requests)
    assert not any(line.endswith(".") for line in requests)


@pytest.mark.parametrize("command", ["abort-transaction", "expire-transactional-id", "transaction"])
def test_an_unknown_transactional_id_exits_with_1(
    run: Commands, producer: Producer, command: str
) -> None:
    del producer
    assert run(command, "biling-1") == (
        1,
        None,
        "Transactional id biling-1 does not exist: did you mean billing-1?\n",
    )


def test_control_characters_in_explanations_are_escaped(run: Commands, kafka: Kafka) -> None:
    kafka.fake_member("billing", topics=["orders"], client_id="till\x1b[31m")
    _, _, err = run("wait", "billing", "stable", "--members", "2", "--timeout", "0.01")
    assert r"till\x1b[31m" in err
    assert len(err.splitlines()) > 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["wait", "billing", "idle"],
            "invalid until: expected one of stable, generation, epoch, owner, committed, empty",
        ),
        (
            ["condition", "skew_clock", "--ms", "5"],
            "missing field 'node': required with condition=skew_clock.",
        ),
        (["fault", "delay", "Fetch"], "The delay must be positive, not 0 ms"),
        (["fault", "drop", "Fetsch"], "Unknown API 'Fetsch': did you mean Fetch?"),
        (
            ["fault", "drop", "CommitOffset"],
            "Unknown API 'CommitOffset': did you mean OffsetCommit?",
        ),
        (["group", ""], "invalid group: expected str of length >= 1, got ''."),
    ],
)
def test_invalid_arguments_exit_with_2(run: Commands, arguments: list[str], message: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, None)
    assert err.startswith(f"kohort ctl: {message}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["wiat", "billing"],
            "kohort ctl: argument COMMAND: invalid choice: 'wiat': did you mean wait?",
        ),
        (
            ["topic-delete", "o"],
            (
                "kohort ctl: argument COMMAND: invalid choice: 'topic-delete': "
                "did you mean delete-topic?"
            ),
        ),
        (
            ["wait", "billing", "stable", "--member", "1", "--membrs=2"],
            "kohort ctl wait: unrecognized arguments: --membrs=2: did you mean --members?",
        ),
    ],
)
def test_a_mistyped_command_or_flag_suggests_a_similar_one(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["ctl", *arguments])
    assert capsys.readouterr().err.startswith(f"{message} See `kohort ctl")


@pytest.mark.parametrize(
    ("control", "message"),
    [
        ([], "no address of the control API: pass --control URL or set KOHORT_CONTROL=URL"),
        (
            ["--control", "localhost:1"],
            "invalid URL 'localhost:1': expected a URL such as http://127.0.0.1:9093.",
        ),
        (["--control", "http://127.0.0.1:1"], "cannot reach http://127.0.0.1:1 ("),
        (["--control", "http://[oops"], "cannot reach http://[oops ("),
        (["--control", "http://127.0.0.1:x"], "cannot reach http://127.0.0.1:x (nonnumeric port"),
    ],
)
def test_an_unreachable_control_api_is_reported(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    control: list[str],
    message: str,
) -> None:
    monkeypatch.delenv("KOHORT_CONTROL", raising=False)
    assert main(["ctl", *control, "cluster"]) == 2
    assert capsys.readouterr().err.startswith(f"kohort ctl: {message}")
