"""Flags that cannot be combined: Kafka's messages, exit code 1, no request."""

import re
import shlex
from pathlib import Path

import pytest
from kohort.cli.groups.arguments import check
from kohort.cli.groups.tables import OffsetRow
from kohort.cli.main import main, parser

SERVER = ["--bootstrap-server", "127.0.0.1:1"]
ACTIONS = "--list, --describe, --delete, --reset-offsets, --delete-offsets"
RESET = "--reset-offsets --group g --dry-run"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--describe", "Option [describe] takes one of these options: [group], [all-groups]"),
        ("--delete", "Option [delete] takes one of these options: [group], [all-groups]"),
        (
            "--describe --group g --members --state",
            "Option [describe] takes at most one of these options: [members], [offsets], [state]",
        ),
        (
            "--describe --group g --state stable",
            "Option [describe] does not take a value for [state]",
        ),
        (
            "--delete --group g --topic t",
            "The consumer does not support topic-specific offset deletion from a consumer group.",
        ),
        (
            "--delete-offsets --group g",
            "Option [delete-offsets] takes the following options: [group], [topic]",
        ),
        (
            f"{RESET} --execute",
            "Option [reset-offsets] only accepts one of [execute] and [dry-run]",
        ),
        (
            f"{RESET} --to-latest --to-earliest",
            'Option "[to-earliest]" can\'t be used with option "[to-latest]"',
        ),
        (
            f"{RESET} --all-topics --to-latest --export --format csv",
            "--export cannot be used with --format",
        ),
        ("--list --group g", 'Option "[group]" can\'t be used with option "[list]"'),
        ("--list --topic t", 'Option "[topic]" can\'t be used with option "[list]"'),
        (
            "--describe --group g --all-groups",
            'Option "[group]" can\'t be used with option "[all-groups]"',
        ),
        (
            "--list --members",
            "Option(s) [members] are unavailable given other options on the command line",
        ),
        ("", f"Command must include exactly one action: {ACTIONS}"),
    ],
)
def test_flags_that_do_not_go_together_are_rejected_with_kafkas_message(
    flags: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["groups", *SERVER, *flags.split()]) == 1
    assert tuple(capsys.readouterr()) == ("", f"{message}\nsee `kohort groups --help`\n")


def test_the_bootstrap_server_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", "--list"]) == 1
    assert capsys.readouterr().err.startswith('Missing required argument "[bootstrap-server]"\n')


def test_an_unknown_flag_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["groups", *SERVER, "--nonsense"])
    assert caught.value.code == 1
    assert "--nonsense" in capsys.readouterr().err


PAGE = (Path(__file__).parents[3] / "docs" / "groups.md").read_text()


def test_the_json_in_the_docs_has_all_columns() -> None:
    assert re.findall(r'^    "(\w+)": ', PAGE, re.MULTILINE) == [*OffsetRow._fields]


def test_the_commands_in_the_docs_have_valid_flags() -> None:
    commands = re.findall(r"^\$ kohort (groups .*)$", PAGE, re.MULTILINE)
    assert commands
    for command in commands:
        check(parser().parse_args([*shlex.split(command), *SERVER]))
