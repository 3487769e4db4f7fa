"""Values of flags that no command can use: the error is one line, with the value and the remedy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kohort.cli.main import main

BROKER = ["--bootstrap-server", "127.0.0.1:1"]
ABORT = ["abort", "--topic", "orders", "--partition", "0"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["ctl", "wait", "billing", "stable", "--timeout", "inf"],
            2,
            "kohort ctl wait: argument --timeout: invalid 'inf': expected a number",
        ),
        (
            ["ctl", "advance", "--seconds", "nan"],
            2,
            "kohort ctl advance: argument --seconds: invalid 'nan': expected a number",
        ),
        (
            ["transactions", *BROKER, *ABORT, "--producer-epoch", "99999"],
            1,
            (
                "kohort transactions abort: argument --producer-epoch: invalid number "
                "'99999': expected an integer from -32768 to 32767"
            ),
        ),
        (
            ["transactions", *BROKER, "list", "--duration-filter", "x"],
            1,
            (
                "kohort transactions list: argument --duration-filter: invalid number "
                "'x': expected an integer from -9223372036854775808 to 9223372036854775807"
            ),
        ),
        (
            ["health", *BROKER, "--timeout=--"],
            2,
            "kohort health: argument --timeout: expected one argument, not '--'",
        ),
    ],
)
def test_an_invalid_value_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    with pytest.raises(SystemExit, match=str(code)):
        main(arguments)
    command = message.partition(":")[0]
    assert capsys.readouterr().err == f"{message}; see `{command} --help`.\n"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["ctl", "topic"], 2),
        (["groups", *BROKER, "--describe", "--group"], 1),
        (["acls", *BROKER, "--list", "--topic"], 1),
        (["transactions", *BROKER, "describe", "--transactional-id"], 1),
    ],
)
def test_a_name_in_another_encoding_than_utf_8_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], command: list[str], code: int
) -> None:
    with pytest.raises(SystemExit, match=str(code)):
        main([*command, os.fsdecode(b"till \xe9")])
    (line,) = capsys.readouterr().err.splitlines()
    assert r": invalid argument 'till \udce9': expected UTF-8; see `kohort " in line


def test_a_name_that_the_terminal_cannot_show_is_escaped() -> None:
    command = ["groups", "--bootstrap-server", "é", "--list"]
    done = subprocess.run(
        [sys.executable, "-m", "kohort", *command],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert r"Invalid url in bootstrap.servers: \xe9" in done.stdout


def test_a_data_folder_with_a_nul_character_is_a_user_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "server.properties"
    config.write_text("log.dirs=a\\u0000b\nlisteners=PLAINTEXT://127.0.0.1:0\n")
    assert main(["serve", "--config", str(config)]) == 2
    assert r"a\x00b contains a NUL character: choose another" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("127.0.0.1:99999", "Invalid port in bootstrap.servers: 127.0.0.1:99999"),
        ("127.0.0.1:²", "Invalid url in bootstrap.servers: 127.0.0.1:²"),
    ],
)
def test_an_invalid_address_is_reported_at_once(
    capsys: pytest.CaptureFixture[str], address: str, error: str
) -> None:
    main(["groups", "--bootstrap-server", address, "--list"])
    assert capsys.readouterr().out.endswith(f" failed due to {error}\n")
