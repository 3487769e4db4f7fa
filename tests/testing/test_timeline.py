"""`--kafka-timeline`: one HTML page for a whole run."""

import itertools
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from kohort.coordinator.outcome import EventType, GroupEvent
from kohort.testing import Kafka
from kohort.testing.history import History
from kohort.testing.timeline.drawing import (
    CHARACTER_WIDTH,
    LINE_HEIGHT,
    MARKS_MAX,
    ROWS_MAX,
    WIDTH,
    draw,
)
from kohort.testing.timeline.page import TESTS_MAX, Section, page
from support.chromium import opened

from .test_plugin import run

pytest_plugins = ["pytester"]

TESTS = """
    def test_that_passes(kafka):
        kafka.topic("orders", partitions=2)
        one = kafka.fake_member("billing", topics=["orders"], client_id="one")
        one.wait_owned(2)
        one.commit("orders", 0, 3)
        kafka.clock.advance(seconds=5)
        kafka.fake_member("billing", topics=["orders"], client_id="<two>")
        kafka.group("billing").wait_stable(members=2)

    def test_that_fails(kafka):
        kafka.topic("orders", partitions=1)
        one = kafka.fake_member("shipping", topics=["orders"])
        one.wait_owned(1)
        kafka.faults.answer("OffsetCommit", error="NOT_COORDINATOR")
        one.commit("orders", 0, 3)
        assert kafka.bootstrap_servers == "<elsewhere>"

    def test_without_a_broker():
        pass
"""
VOID = {"meta", "br", "hr", "img", "link"}


class Content(HTMLParser):
    """The texts of a page, its references, and its elements that are not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
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
        self.texts.append(data)


@pytest.mark.parametrize("options", [(), ("-n1",)], ids=["one process", "xdist"])
def test_a_run_is_one_page_with_failed_tests_first_and_their_reports_are_printed(
    pytester: pytest.Pytester, options: tuple[str, ...]
) -> None:
    pytester.makepyfile(TESTS)
    result = run(pytester, "--kafka-timeline=reports/timeline.html", *options)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        ["*- kafka -*", "Group shipping is Stable *", "timeline of 2 tests: *timeline.html"]
    )
    html = Path(pytester.path, "reports", "timeline.html").read_text()
    content = Content(html)
    assert (content.open, content.references) == ([], [])
    text = "\n".join(content.texts)
    assert text.index("test_that_fails") < text.index("test_that_passes")
    assert html.count("<details class=failed open>") == 1
    assert html.count("<details class=passed>") == 1
    for expected in (
        "AssertionError: assert",
        "one in generation 1: orders-0, orders-1",
        "commits orders-0 at 3",
        "clock advanced by 5",  # plus the wall time of the call
        "rebalance: member joined",
        "[fault: answered with NOT_COORDINATOR]",
        "<two>",
    ):
        assert expected in re.sub(r"-[0-9a-f]{8} in gen", " in gen", text), expected


def test_no_page_is_written_without_the_option(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    run(pytester)
    assert list(pytester.path.rglob("*.html")) == []


def test_the_page_of_a_large_run_is_bounded() -> None:
    time = iter(range(10**6))
    history = History(lambda: 0, lambda: float(next(time)))
    for number in range(2 * ROWS_MAX):
        member = f"m{number}"
        joined = GroupEvent(EventType.MEMBER_JOINED, "billing", member_id=member, client_id=member)
        history.record_event(1, joined)
    for number in range(2 * MARKS_MAX):
        member = f"m{number % (2 * ROWS_MAX)}"
        detail = {"orders-0": str(number)}
        event = GroupEvent(EventType.COMMIT_ACCEPTED, "billing", member_id=member, detail=detail)
        history.record_event(1, event)
    drawing = draw(history)
    assert drawing.count("class=name") == ROWS_MAX + 1
    assert ROWS_MAX < drawing.count('class="commit"') <= MARKS_MAX
    assert "marks are not drawn" in drawing
    sections = [Section(f"test_{n}", "passed", 0, "", "") for n in range(TESTS_MAX + 5)]
    failed = Section("test_that_fails", "failed", 0, "", "")
    html = page([*sections, failed])
    assert "test_that_fails" in html
    assert "6 more tests are not shown" in html


def test_the_drawing_of_an_unused_broker_is_empty() -> None:
    assert draw(History(lambda: 0)) == ""


def test_a_member_without_a_generation_has_a_row(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    kafka.fake_member("billing", topics=["orders"], client_id="one").wait_owned(1)
    event = GroupEvent(EventType.MEMBER_JOINED, "billing", member_id="late-1", client_id="late")
    kafka.call(lambda _broker: kafka.history.record_event(1, event))
    assert {"one", "late"} <= set(Content(draw(kafka.history)).texts)


def test_a_rebalance_that_did_not_complete_before_the_next_one_is_drawn() -> None:
    wall = [0.0]
    history = History(lambda: 0, lambda: wall[0])
    for at, kind, cause in (
        (1, EventType.REBALANCE_STARTED, "member joined"),
        (7, EventType.REBALANCE_STARTED, "member left"),
        (7, EventType.GROUP_EMPTIED, "member left"),
    ):
        wall[0] = at
        history.record_event(1, GroupEvent(kind, "billing", cause=cause))
    assert "rebalance: member joined, 6000 ms, began at 1.000 s" in draw(history)


def test_labels_do_not_overlap_and_the_axis_begins_with_the_group() -> None:
    wall = [0.0]
    history = History(lambda: 0, lambda: wall[0])
    history.record_clock_change("frozen", 0, 0.0)
    for at in range(40):
        wall[0] = 40 + at
        for kind in (EventType.REBALANCE_STARTED, EventType.SYNC_COMPLETED):
            history.record_event(1, GroupEvent(kind, "billing", cause="member joined"))
        history.record_clock_change("advanced", 0, wall[0])
        history.record_clock_change("resumed", 0, wall[0])
    drawing = draw(history)
    texts = re.findall(r'<text class=(\w+) x="([\d.]+)" y="([\d.]+)">([^<]+)', drawing)
    assert {kind for kind, *_ in texts} >= {"cause", "clock", "tick"}
    lines: dict[str, list[tuple[float, float]]] = {}
    for kind, x, y, text in texts:
        length = len(text) * CHARACTER_WIDTH
        left = float(x) - (length / 2 if kind == "tick" else 0)
        lines.setdefault(y, []).append((left, left + length))
    for labels in lines.values():
        labels.sort()
        assert 0 <= labels[0][0] <= labels[-1][1] <= WIDTH
        assert all(one[1] <= two[0] for one, two in itertools.pairwise(labels))
    heights = sorted(map(float, lines))
    assert all(two - one >= LINE_HEIGHT for one, two in itertools.pairwise(heights))
    ticks = [float(text.removesuffix(" s")) for kind, *_, text in texts if kind == "tick"]
    assert 40 <= ticks[0] <= 45


def test_chromium_shows_the_page_without_an_error(kafka: Kafka, tmp_path: Path) -> None:
    kafka.topic("orders", partitions=2)
    kafka.fake_member("billing", topics=["orders"], client_id="one").wait_owned(2)
    file, picture = tmp_path / "page.html", tmp_path / "page.png"
    file.write_text(page([Section("test_it", "failed", 1.0, "it <fails>", draw(kafka.history))]))
    with opened(file, tmp_path / "profile") as browser:
        browser.picture(picture)
        assert browser.problems == []
    assert picture.read_bytes().startswith(b"\x89PNG")
    # An empty page of this size has about 4 kB.
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize("path", ["folder", "file/page.html"])
def test_a_page_that_cannot_be_written_does_not_hide_failures(
    pytester: pytest.Pytester, path: str
) -> None:
    pytester.makepyfile(TESTS)
    Path(pytester.path, "folder").mkdir()
    Path(pytester.path, "file").touch()
    result = run(pytester, f"--kafka-timeline={path}")
    if path == "folder":
        result.stderr.fnmatch_lines(["ERROR: invalid timeline path *: expected a file*"])
    else:
        result.assert_outcomes(passed=2, failed=1)
        result.stdout.fnmatch_lines(["timeline of 2 tests: not written: *", "FAILED *"])
