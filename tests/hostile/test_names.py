"""Names that forge lines, control the terminal, reorder the text around them, or are formulas."""

import csv
import io
import json

import pytest
from kohort.cli.main import main
from support.wire import Client

NAME = "=cmd|x!A0\n[2026-01-01 00:00:00,000] ERROR forged (kohort)\r\x1b[2J\x9b1m\u202e\u2028é"
ESCAPED = r"=cmd|x!A0\n[2026-01-01 00:00:00,000] ERROR forged (kohort)\r\x1b[2J\x9b1m\u202e\u2028é"


@pytest.fixture
def target(attack):
    """A broker with a group that has a member and a committed offset. All names are NAME."""
    target = attack("--log-level", "debug", "-o", "group.initial.rebalance.delay.ms=0")
    with Client(target.address, NAME) as client:
        client.create_topics("orders")
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": NAME}
        offsets = [{"name": "orders", "partitions": [partition]}]
        assert client.commit(NAME, topics=offsets) == "none"
        assert client.join(NAME)["error_code"] == "none"
        yield target


def assert_printable(text: str) -> None:
    """Check that the program wrote all lines, without characters that control a terminal."""
    lines = text.removesuffix("\n").split("\n")
    assert all(map(str.isprintable, lines)), text
    assert not any(line.startswith("[2026-01-01") for line in lines)


def test_names_in_the_log_and_in_the_output_of_commands(target, capsys) -> None:
    def output(*args: str) -> str:
        assert main(args) == 0
        out, err = capsys.readouterr()
        assert_printable(out + err)
        return out

    assert target.has_logged(ESCAPED)
    assert_printable(target.log)
    groups = ("groups", "--bootstrap-server", target.address)
    describe = (*groups, "--describe", "--all-groups")
    assert f"\n{ESCAPED}\n" in "\n" + output(*groups, "--list")
    for flags in ("--list", "--state"), ("--describe", "--all-groups", "--members", "--verbose"):
        assert ESCAPED in output(*groups, *flags)
    assert ESCAPED in output(*describe, "--state")
    rows = json.loads(output(*describe, "--members", "--format", "json"))
    assert NAME in [row["client_id"] for row in rows]
    rows = list(csv.DictReader(io.StringIO(output(*describe, "--members", "--format", "csv"))))
    assert f"'{ESCAPED}" in [row["client_id"] for row in rows]
    assert r"\u202e" in output("log", "dump", str(target.data))
    dumped = output("log", "dump", str(target.data), "--format", "json").splitlines()
    assert NAME in [json.loads(line)["key"].get("group") for line in dumped]


def test_names_in_a_log_of_json_lines(attack) -> None:
    target = attack("--log-level", "debug", "--log-format", "json")
    with Client(target.address, NAME) as client:
        client.call("Heartbeat", 3, group_id=NAME, generation_id=1, member_id="")
    assert target.has_logged("forged")
    assert_printable(target.log)
    assert any(NAME in json.loads(line)["message"] for line in target.log.splitlines())
