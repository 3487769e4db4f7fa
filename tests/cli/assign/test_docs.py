"""The examples in docs/assign.md print what the page shows."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from kohort.assignors.explain import Reason

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "assign.md").read_text()


def examples() -> Iterator[tuple[str, str]]:
    """Each command of the page with its output."""
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = example.partition("\n")
            yield command, output


def test_the_examples_print_what_the_page_shows(
    assign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = list(examples())
    assert len(shown) > 5
    for command, output in shown:
        program, *words = shlex.split(command)
        if program == "cat":
            file = tmp_path / words[0]
            if file.exists():
                assert file.read_text() == output
            else:
                file.write_text(output)
            continue
        assert [program, words[0]] == ["kohort", "assign"]
        target = words[words.index(">") + 1] if ">" in words else None
        flags = words[1 : words.index(">")] if target else words[1:]
        code, out, err = assign("", *flags)
        assert (code, err) == (0, "")
        if target:
            (tmp_path / target).write_text(out)
        else:
            assert out == output, command


def test_the_page_explains_every_reason() -> None:
    table = PAGE.split("| reason | ")[1].split("\n\n")[0]
    assert re.findall(r"^\| `(.+)` \|", table, re.MULTILINE) == list(Reason)
