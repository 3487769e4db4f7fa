"""Flags that do not go together: Kafka's words, exit code 1, and no cluster is asked."""

import re
import shlex
from pathlib import Path

import pytest
from kohort.cli.groups.arguments import check
from kohort.cli.main import main, parser

SERVER = ["--bootstrap-server", "127.0.0.1:1"]
ACTIONS = "--list, --describe, --delete, --reset-offsets, --delete-offsets"
RESET = ["--reset-offsets", "--group", "g", "--dry-run"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--describe"], "Option [describe] takes one of these options: [group], [all-groups]"),
        (["--delete"], "Option [delete] takes one of these options: [group], [all-groups]"),
        (
            ["--describe", "--group", "g", "--members", "--state"],
            "Option [describe] takes at most one of these options: [members], [offsets], [state]",
        ),
        (
            ["--describe", "--group", "g", "--state", "stable"],
            "Option [describe] does not take a value for [state]",
        ),
        (
            ["--delete", "--group", "g", "--topic", "t"],
            "The consumer does not support topic-specific offset deletion from a consumer group.",
        ),
        (
            ["--delete-offsets", "--group", "g"],
            "Option [delete-offsets] takes the following options: [group], [topic]",
        ),
        (
            [*RESET, "--execute"],
            "Option [reset-offsets] only accepts one of [execute] and [dry-run]",
        ),
        (
            [*RESET, "--to-latest", "--to-earliest"],
            'Option "[to-earliest]" can\'t be used with option "[to-latest]"',
        ),
        (
            [*RESET, "--all-topics", "--to-latest", "--export", "--format", "csv"],
            "--export is a format of its own: leave --format out",
        ),
        (["--list", "--group", "g"], 'Option "[group]" can\'t be used with option "[list]"'),
        (["--list", "--topic", "t"], 'Option "[topic]" can\'t be used with option "[list]"'),
        (
            ["--describe", "--group", "g", "--all-groups"],
            'Option "[group]" can\'t be used with option "[all-groups]"',
        ),
        (
            ["--list", "--members"],
            "Option(s) [members] are unavailable given other options on the command line",
        ),
        ([], f"Command must include exactly one action: {ACTIONS}"),
    ],
)
def test_what_does_not_go_together_is_told_in_kafkas_words(
    flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["groups", *SERVER, *flags]) == 1
    assert tuple(capsys.readouterr()) == ("", f"{said}\nsee `kohort groups --help`\n")


def test_a_cluster_has_to_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["groups", "--list"]) == 1
    assert capsys.readouterr().err.startswith('Missing required argument "[bootstrap-server]"\n')


def test_a_flag_that_is_none_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["groups", *SERVER, "--nonsense"])
    assert caught.value.code == 1
    assert "--nonsense" in capsys.readouterr().err


def test_the_commands_of_the_page_have_flags_that_go_together() -> None:
    page = (Path(__file__).parents[3] / "docs" / "groups.md").read_text()
    commands = re.findall(r"^\$ kohort (groups .*)$", page, re.MULTILINE)
    assert commands
    for command in commands:
        check(parser().parse_args([*shlex.split(command), *SERVER]))
