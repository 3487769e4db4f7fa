"""The grid on terminals of every kind, and as SVG."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

RANGE = "--assignor range --topic t0=3 --topic t1=3 --member C0=t0,t1 --member C1=t0,t1"


def test_a_wide_grid_continues_below(assign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    flags = (
        "--assignor range --topic a=3 --topic long-name=1 --topic w=13 --member C0=w,a,long-name"
    )
    _, out, _ = assign(flags)
    assert out.splitlines()[2:] == [
        "        a         long-name",
        "         0  1  2   0",
        "C0  17   ■  ■  ■   ■",
        "",
        "        w",
        "         0  1  2  3  4  5  6",
        "C0  17   ■  ■  ■  ■  ■  ■  ■",
        "",
        "        w",
        "         7  8  9 10 11 12",
        "C0  17   ■  ■  ■  ■  ■  ■",
    ]


def test_topics_whose_names_are_cut_share_a_line(assign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    first, second = "a" * 50, "b" * 50
    _, out, _ = assign(f"--assignor range --topic {first}=1 --topic {second}=1 --member C0={first}")
    cut = f"{'a' * 17}…{'a' * 18} {'b' * 17}…{'b' * 18}"
    assert out.splitlines()[2].strip() == cut


def test_on_a_narrow_terminal_each_partition_has_a_line(
    assign, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1")
    _, out, _ = assign("--assignor range --topic a=2 --member C0=a")
    lines = ["       a", "       0", "C0  2  ■", "", "       a", "       1", "C0  2  ■"]
    assert out.splitlines()[2:] == lines


def test_a_grid_that_is_too_big_is_replaced_by_counts(assign) -> None:
    flags = "--assignor range --topic t=1001 --member C0=t --member C1=t"
    reason, *counts = assign(flags)[1].splitlines()[2:]
    assert reason == (
        "(too big to draw: 2 members and 1001 partitions, at most 100 and 1000; "
        "--format csv lists every partition)"
    )
    assert counts == ["C0  501", "C1  500"]


def test_long_names_are_cut_and_control_characters_are_escaped(assign) -> None:
    member = "consumer-1-6853c063-4e4c-4379-b346-fc053967620b"
    _, out, _ = assign(f"--assignor range --topic t=1 --member {member}=t")
    assert "consumer-1-6853c0…-b346-fc053967620b  1  ■" in out
    _, out, _ = assign("--assignor range --topic t=1 --member", "\x1b[31mred=t")
    assert "\x1b" not in out
    assert r"\x1b[31mred  1  ■" in out


def test_colors_are_only_used_on_terminals_that_want_them(
    assign, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\x1b" not in assign(RANGE)[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[36m" in assign(RANGE)[1]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[36m" not in assign(RANGE)[1]


@pytest.mark.parametrize(
    ("output_format", "line"),
    [
        ("table", "C\\xe9  1  #"),
        ("csv", "t,0,C\\xe9,,,"),
        ("json", '    "C\\u00e9": [["t", 0]]'),
    ],
)
def test_characters_that_the_encoding_lacks_are_escaped(output_format: str, line: str) -> None:
    flags = ["--assignor=range", "--topic=t=1", "--member=Cé=t", f"--format={output_format}"]
    done = subprocess.run(
        [sys.executable, "-m", "kohort", "assign", *flags],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert line in done.stdout.splitlines()


SVG = "{http://www.w3.org/2000/svg}"


def test_the_svg_has_a_tooltip_for_each_partition(assign, before: Path, tmp_path: Path) -> None:
    flags = "--assignor range --topic t0=3 --topic t1=3 --member C0=t0,t1 --member C2=t0,t1"
    assign(flags, "--before", before, "--svg", tmp_path / "now.svg")
    root = ElementTree.parse(tmp_path / "now.svg").getroot()
    tooltips = [title.text for rect in root.iter(f"{SVG}rect") for title in rect]
    assert sorted(tooltips) == [
        "t0-0: C0 kept it",
        "t0-1: C0 kept it",
        "t0-2: C1 lost it (C1 left the group)",
        "t0-2: C2 got it (C1 left the group)",
        "t1-0: C0 kept it",
        "t1-1: C0 kept it",
        "t1-2: C1 lost it (C1 left the group)",
        "t1-2: C2 got it (C1 left the group)",
    ]


def test_the_svg_is_self_contained_and_escapes_any_name(assign, tmp_path: Path) -> None:
    names = ["a<b>&\"'", "\x00\x1b", "名前", "c" * 200]
    members = [f"--member={name}=t" for name in names]
    code, _, _ = assign("--assignor range --topic t=9", *members, "--svg", tmp_path / "now.svg")
    text = (tmp_path / "now.svg").read_text()
    root = ElementTree.fromstring(text)
    assert code == 0
    assert "href" not in text
    assert text.count("http") == 1  # the namespace
    shown = [element.text for element in root.iter(f"{SVG}text")]
    assert {"a<b>&\"'", r"\x00\x1b", "名前"} <= set(shown)


def test_a_grid_that_is_too_big_is_not_written_as_svg(assign, tmp_path: Path) -> None:
    flags = "--assignor range --topic t=1001 --member C0=t"
    code, _, err = assign(flags, "--svg", tmp_path / "now.svg")
    assert (code, (tmp_path / "now.svg").exists()) == (2, False)
    assert "1 members and 1001 partitions, at most 100 and 1000." in err
