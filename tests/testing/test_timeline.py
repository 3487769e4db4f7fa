"""`--kafka-timeline`: one page for a whole run, that a browser shows."""

import os
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from kohort.coordinator.outcome import EventType, GroupEvent
from kohort.testing import Kafka
from kohort.testing.drawing import MARKS_MAX, MEMBERS_MAX, draw
from kohort.testing.history import History
from kohort.testing.page import TESTS_MAX, Section, page

from .test_plugin import run

pytest_plugins = ["pytester"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NEEDS_CHROMIUM = "needs chromium on the PATH"

TESTS = """
    def test_that_passes(kafka):
        kafka.topic("orders", partitions=2)
        one = kafka.puppet("billing", topics=["orders"], client_id="one")
        one.wait_owned(2)
        one.commit("orders", 0, 3)
        kafka.clock.advance(seconds=5)
        kafka.puppet("billing", topics=["orders"], client_id="<two>")
        kafka.group("billing").wait_stable(members=2)

    def test_that_fails(kafka):
        kafka.topic("orders", partitions=1)
        one = kafka.puppet("shipping", topics=["orders"])
        one.wait_owned(1)
        kafka.faults.answer("OffsetCommit", error="NOT_COORDINATOR")
        one.commit("orders", 0, 3)
        assert kafka.bootstrap_servers == "<elsewhere>"

    def test_without_a_broker():
        pass
"""
VOID = {"meta", "br", "hr", "img", "link"}


class Words(HTMLParser):
    """All that a page says, what it refers to, and whether its elements are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.said: list[str] = []
        self.references: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.references += [value or "" for name, value in attributes if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)


@pytest.mark.parametrize("options", [(), ("-n1",)], ids=["one process", "xdist"])
def test_a_run_is_one_page_and_failed_tests_come_first(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    pytester.makepyfile(TESTS)
    result = run(pytester, "--kafka-timeline=made/timeline.html", *options)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["timeline of 2 tests: *timeline.html"])
    text = Path(pytester.path, "made", "timeline.html").read_text()
    words = Words(text)
    assert (words.open, words.references) == ([], [])
    said = "\n".join(words.said)
    assert said.index("test_that_fails") < said.index("test_that_passes")
    assert text.count("<details class=failed open>") == 1
    assert text.count("<details class=passed>") == 1
    for expected in (
        "AssertionError: assert",
        "one in generation 1: orders-0, orders-1",
        "commits orders-0 at 3",
        "the clock was advanced by 5",  # and what went by meanwhile
        "rebalance: member joined",
        "[fault: answered with NOT_COORDINATOR]",
        "<two>",
    ):
        assert expected in re.sub(r"-[0-9a-f]{8} in gen", " in gen", said), expected


def test_no_page_is_written_for_who_did_not_ask(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    run(pytester)
    assert list(pytester.path.rglob("*.html")) == []


def test_a_large_history_and_a_large_run_are_bounded() -> None:
    time = iter(range(10**6))
    history = History(lambda: 0, lambda: float(next(time)))
    for number in range(2 * MEMBERS_MAX):
        who = f"m{number}"
        history.hear(
            1, GroupEvent(EventType.MEMBER_JOINED, "billing", member_id=who, client_id=who)
        )
    for number in range(2 * MARKS_MAX):
        who = f"m{number % (2 * MEMBERS_MAX)}"
        detail = {"orders-0": str(number)}
        event = GroupEvent(EventType.COMMIT_ACCEPTED, "billing", member_id=who, detail=detail)
        history.hear(1, event)
    drawn = draw(history)
    assert drawn.count("class=name") == MEMBERS_MAX + 1
    assert MEMBERS_MAX < drawn.count('class="commit"') <= MARKS_MAX
    assert "earlier ones are not drawn" in drawn
    sections = [Section(f"test_{n}", "passed", 0, "", "") for n in range(TESTS_MAX + 5)]
    failed = Section("test_that_fails", "failed", 0, "", "")
    text = page([*sections, failed])
    assert "test_that_fails" in text
    assert "6 more passed or were skipped" in text


def test_nothing_is_drawn_of_a_broker_that_nobody_used() -> None:
    assert draw(History(lambda: 0)) == ""


def test_who_came_and_was_in_no_generation_has_a_row(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    kafka.puppet("billing", topics=["orders"], client_id="one").wait_owned(1)
    event = GroupEvent(EventType.MEMBER_JOINED, "billing", member_id="late-1", client_id="late")
    kafka.ask(lambda _broker: kafka.history.hear(1, event))
    assert {"one", "late"} <= set(Words(draw(kafka.history)).said)


def test_chromium_shows_it_without_an_error(kafka: Kafka, tmp_path: Path) -> None:
    if CHROMIUM is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{NEEDS_CHROMIUM}, and CI must not skip it", pytrace=False)
        pytest.skip(NEEDS_CHROMIUM)
    kafka.topic("orders", partitions=2)
    kafka.puppet("billing", topics=["orders"], client_id="one").wait_owned(2)
    file, picture = tmp_path / "page.html", tmp_path / "page.png"
    file.write_text(page([Section("test_it", "failed", 1.0, "it <fails>", draw(kafka.history))]))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"]
    shown = [f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={picture}", file.as_uri()]
    done = subprocess.run(
        [CHROMIUM, *flags, *shown], capture_output=True, text=True, timeout=120, check=True
    )
    assert "CONSOLE" not in done.stderr, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    # An empty page of this size has some 4 kB.
    assert picture.stat().st_size > 10_000
