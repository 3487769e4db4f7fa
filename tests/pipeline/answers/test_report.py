"""`kohort report`: what its page says, with a mouse and without, whoever chose the names."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from chromium import Browser, opened
from kohort.cli.main import main
from kohort.pipeline.answers.names import MemberNames
from kohort.pipeline.answers.rows import Owned
from kohort.pipeline.report.figure import CHANGES_MAX
from kohort.pipeline.report.member_panel import MEMBERS_MAX, places
from kohort.pipeline.report.owner_panel import OWNER_ROWS_MAX, owner_rows
from kohort.pipeline.report.page import SECTIONS_MAX
from kohort.pipeline.report.scale import LEFT, WIDTH, Scale

from . import hostile
from .world import NINE, NOW, Rows, Step, Story, at, write

VOID = {"meta", "br", "hr", "img", "link", "input"}


def report(lake: Path, out: Path) -> Path:
    assert main(["report", "--lake", str(lake), "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="session")
def page(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report(lake, tmp_path_factory.mktemp("report") / "made" / "report.html")


class Parsed(HTMLParser):
    """Tags that are open at the end, headings, what refers elsewhere, ids and links to them."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.elsewhere: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.pictures: list[dict[str, str | None]] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(tag)
        if tag == "svg" and "aria-hidden" not in said:
            self.pictures.append(said)
        self.ids += [said["id"] or ""] if "id" in said else []
        for name in ("src", "href"):
            link = said.get(name) or ""
            (self.links if link.startswith("#") else self.elsewhere).extend([link] if link else [])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_needs_nothing_else_and_its_links_lead_somewhere(page: Path) -> None:
    parsed = Parsed(page)
    assert (parsed.open, parsed.elsewhere) == ([], [])
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {link.removeprefix("#") for link in parsed.links} <= set(parsed.ids)
    assert parsed.headings[:3] == ["h1", "h2", "h2"]
    assert all(each["role"] == "img" and each["aria-label"] for each in parsed.pictures)


def test_chromium_shows_the_worst_group_first_with_its_verdict_and_a_mouse_finds_the_rest(
    page: Path, tmp_path: Path
) -> None:
    with opened(page, tmp_path / "profile") as browser:
        rows = browser.visible("#groups ~ .scroll tbody")
        found = [rows.index(each) for each in ("checkout", "billing", "search", "nightly")]
        assert found == sorted(found)
        assert rows.split()[:2] == ["error", "checkout"]
        section = " ".join(browser.visible("#g0").split())
        for said in ("it was thrown out of checkout 4 times", "Make the processing", "4 exits of"):
            assert said in section
        assert "is fine" not in section
        assert "stood still" not in browser.visible("#g0 details:nth-of-type(3)")  # folded
        _mouse(browser)
        assert _contrasts(browser) == {}
        assert browser.complaints == []


def _mouse(browser: Browser) -> None:
    assert not browser.evaluate("document.querySelector('#tip').checkVisibility()")
    browser.hover("#g0 .exit")
    tip = browser.visible("#tip")
    assert tip.splitlines() == [
        "checkout-2 out at 09:14:10: poll interval exceeded, silent 5 min",
        "checkout-2 committed nothing for 300.2 s; its max.poll.interval.ms is 300000.",
    ]
    browser.hover("#g0 .bar")
    assert "checkout-1 in generation" in browser.visible("#tip")
    browser.hover("h1")
    assert not browser.evaluate("document.querySelector('#tip').checkVisibility()")


CONTRAST = """
(() => {
  const paint = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (color, under) => {
    paint.fillStyle = under; paint.fillRect(0, 0, 1, 1);
    paint.fillStyle = color; paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const light = parts => parts.map(v => v / 255).map(v => v <= .03928 ? v / 12.92 :
    ((v + .055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const ground = element => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$|transparent/.test(color)) return color;
    }
    return 'white';
  };
  const found = {};
  for (const element of document.querySelectorAll('h1,h2,h3,p,td,th,li,dt,dd,a,small,.pill,text')) {
    const style = getComputedStyle(element), under = ground(element);
    const ink = element.tagName === 'text' ? style.fill : style.color;
    if (element.classList.contains('owned')) continue;  // on a bar
    const [a, b] = [light(rgb(ink, under)), light(rgb(under, under))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) found[element.tagName + '.' + element.className] = ratio.toFixed(2);
  }
  return found;
})()
"""


def _contrasts(browser: Browser) -> dict[str, str]:
    """What is harder to read than WCAG's AA allows, in the light and in the dark."""
    found: dict[str, str] = {}
    for scheme in ("light", "dark"):
        browser.paint(scheme)
        found |= {f"{scheme} {what}": n for what, n in browser.evaluate(CONTRAST).items()}
    return found


def test_names_of_all_kinds_are_shown_as_they_are_and_do_no_harm(tmp_path: Path) -> None:
    page = report(hostile.lake(tmp_path / "lake"), tmp_path / "report.html")
    assert Parsed(page).open == []
    with opened(page, tmp_path / "profile") as browser:
        said = browser.visible()
        for name in (hostile.HOSTILE, hostile.QUOTES, hostile.EMOJI):
            assert f"Nothing is wrong with {name}." in said
        assert hostile.TURNED not in said
        assert r"evil\u202egnillib" in said
        browser.hover("#g0 .bar")
        assert "in generation 1" in browser.visible("#tip")
        assert browser.evaluate("window.harmed") is None
        # A name of 240 letters makes no page that has to be moved sideways.
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert browser.complaints == []


def test_a_large_lake_makes_a_page_that_says_what_is_left_out(tmp_path: Path) -> None:
    rows: Rows = {}
    for number in range(SECTIONS_MAX + 3):
        story = Story(rows, f"group-{number:02}", "topic", 1)
        story.generations([Step("09:00:05", "MEMBER_JOINED", {"one": [0]})])
        story.commits(lambda partition, minute: minute if minute < 2 else None)
        story.status("OK", "Stable", 1, 0.0)
        story.says(0, "HEALTHY", "Nothing is wrong.")
    text = report(write(tmp_path / "lake", rows), tmp_path / "report.html").read_text()
    assert text.count("<section id=g") == SECTIONS_MAX
    assert "3 more groups, with a line each" in text
    assert all(f"group-{number:02}" in text for number in range(SECTIONS_MAX + 3))


def test_a_large_group_makes_a_figure_that_says_what_is_left_out(tmp_path: Path) -> None:
    rows: Rows = {}
    story = Story(rows, "crowd", "topic", OWNER_ROWS_MAX + 10)
    alone = {f"m{n:03}": [n] for n in range(OWNER_ROWS_MAX + 10)}
    steps = []
    for turn in range(CHANGES_MAX + 20):
        shares = dict(list(alone.items())[turn % 2 :])  # the first one comes and goes
        clock = f"09:{turn // 10:02}:{turn % 10 * 6:02}"
        steps.append(Step(clock, "MEMBER_JOINED", shares))
    story.generations(steps)
    story.says(0, "HEALTHY", "Nothing is wrong.")
    text = report(write(tmp_path / "lake", rows), tmp_path / "report.html").read_text()
    assert "20 earlier generations are not drawn." in text
    assert f"{OWNER_ROWS_MAX + 10 - MEMBERS_MAX} members that came earlier are not drawn." in text
    assert "The owners of 10 more partitions are not drawn." in text
    assert len(text) < 5_000_000


def test_partitions_that_always_went_together_share_a_row() -> None:
    scale = Scale(NINE, NOW)
    first, second = ("a", at("09:00:10"), at("09:30:00")), ("b", at("09:30:00"), None)
    owned = [
        Owned("pages", partition, who, who, begin, end)
        for partition in (0, 1, 2, 7)
        for who, begin, end in (first, second)[partition // 7 :]
    ]
    rows = owner_rows(scale, owned, MemberNames([]))
    assert [(row.partitions, [span.name for span in row.spans]) for row in rows] == [
        ([0, 1, 2], ["a", "b"]),
        ([7], ["b"]),
    ]


def test_partitions_are_told_as_ranges() -> None:
    owned = [{"topic": "b", "partition": 4}]
    owned += [{"topic": "a", "partition": n} for n in (3, 0, 1, 2, 9)]
    assert places(owned) == "a 0–3, 9; b 4"


def test_a_scale_has_round_times_and_keeps_what_lies_outside_at_its_edges() -> None:
    scale = Scale(NINE, NOW)
    ticks = list(scale.ticks())
    assert [text for _, text in ticks] == [
        "09:00",
        "09:10",
        "09:20",
        "09:30",
        "09:40",
        "09:50",
        "10:00",
    ]
    assert scale.x(NINE.replace(hour=3)) == LEFT
    assert LEFT < scale.x(NOW) < WIDTH
    assert scale.x(None) == scale.x(NOW)


def test_a_page_is_painted_in_both_schemes_and_fits_a_telephone(page: Path, tmp_path: Path) -> None:
    grounds = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 25, 31)"}
    with opened(page, tmp_path / "profile", width=420) as browser:
        for scheme, ground in grounds.items():
            browser.paint(scheme)
            painted = browser.evaluate("getComputedStyle(document.body).backgroundColor")
            assert painted == ground
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        browser.picture(tmp_path / "page.png")
    # An empty page of this size has some 10 kB.
    assert (tmp_path / "page.png").stat().st_size > 100_000


def test_a_lake_without_samples_says_that_lag_is_not_known(
    blind_lake: Path, tmp_path: Path
) -> None:
    text = report(blind_lake, tmp_path / "report.html").read_text()
    assert "Lag is not known: the lake has no samples" in text
    assert "not known: nobody told where the logs end" in text


def test_a_page_that_cannot_be_written_is_one_sentence(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    out = tmp_path / "file" / "report.html"
    assert main(["report", "--lake", str(lake), "--out", str(out)]) == 2
    assert capsys.readouterr().err.startswith(f"kohort report: {out} cannot be written: ")
