"""`kohort report`: the page in a browser, and names that attack it."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from kohort.cli.main import main
from kohort.pipeline.diagnosis.rows import Ownership
from kohort.pipeline.formatting import MemberNames
from kohort.pipeline.report.figure import ENTRIES_MAX
from kohort.pipeline.report.page import SECTIONS_MAX
from kohort.pipeline.report.panels import (
    LEFT,
    MEMBERS_MAX,
    OWNER_ROWS_MAX,
    WIDTH,
    TimeScale,
    owner_rows,
    partition_ranges,
)
from lake_builder import NINE, NOW, GroupRows, Record, Rows, at, log_ends, ms, write_lake
from support.chromium import Browser, opened

# Names that clients could choose to attack a page, and unusual ones.
SCRIPT = "</script><script>window.attacked = 1</script>"
QUOTES = "\"><img src=x onerror='window.attacked = 1'>"
RIGHT_TO_LEFT = "evil\u202egnillib"  # U+202E reverses the text after it
EMOJI = "🦊 füchse & co"
LONG = "x" * 240

VOID = {"meta", "br", "hr", "img", "link", "input"}


def write_hostile_lake(path: Path) -> Path:
    rows: Rows = {}
    for number, name in enumerate((SCRIPT, QUOTES, RIGHT_TO_LEFT, EMOJI, LONG)):
        group = GroupRows(rows, name, f"topic-{name}", 1)
        record = Record("09:00:05", "MEMBER_JOINED", {name: [0]}, name, f"{name} joined.")
        group.generations([record])
        group.commits(lambda partition, minute: 100 * minute)
        group.status("OK", "Stable", 1, 0.0)
        group.diagnosis(number % 4, "HEALTHY", f"{name} is healthy.", [name], [name])
    rows["bronze_log_end"] = list(log_ends({f"topic-{SCRIPT}": 1}))
    return write_lake(path, rows)


def report(lake: Path, out: Path) -> Path:
    assert main(["report", "--lake", str(lake), "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="session")
def page(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report(lake, tmp_path_factory.mktemp("report") / "made" / "report.html")


class Parsed(HTMLParser):
    """Unclosed tags, headings, external references, ids and internal links of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.external: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(tag)
        if tag == "svg" and "aria-hidden" not in attributes:
            self.images.append(attributes)
        self.ids += [attributes["id"] or ""] if "id" in attributes else []
        for name in ("src", "href"):
            link = attributes.get(name) or ""
            (self.links if link.startswith("#") else self.external).extend([link] if link else [])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_valid_html_without_external_references_or_broken_links(page: Path) -> None:
    parsed = Parsed(page)
    assert (parsed.open, parsed.external) == ([], [])
    assert len(parsed.ids) == len(set(parsed.ids))
    assert {link.removeprefix("#") for link in parsed.links} <= set(parsed.ids)
    assert parsed.headings[:3] == ["h1", "h2", "h2"]
    assert all(each["role"] == "img" and each["aria-label"] for each in parsed.images)


def test_the_worst_group_is_first_and_tooltips_show_details(page: Path, tmp_path: Path) -> None:
    with opened(page, tmp_path / "profile") as browser:
        rows = browser.visible("#groups ~ .scroll tbody")
        found = [rows.index(each) for each in ("checkout", "billing", "search", "nightly")]
        assert found == sorted(found)
        assert rows.split()[:2] == ["error", "checkout"]
        section = " ".join(browser.visible("#g0").split())
        for text in (
            "it was removed from checkout 4 times",
            "Make the processing",
            "4 member exits",
        ):
            assert text in section
        assert "is fine" not in section
        assert "paused" not in browser.visible("#g0 details:nth-of-type(3)")  # folded
        _check_tooltips(browser)
        assert _low_contrasts(browser) == {}
        assert browser.problems == []


def _check_tooltips(browser: Browser) -> None:
    assert not browser.evaluate("document.querySelector('#tip').checkVisibility()")
    browser.hover("#g0 .exit")
    tip = browser.visible("#tip")
    assert tip.splitlines() == [
        "checkout-2 left at 09:14:10: poll interval exceeded, silent for 5 min",
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


def _low_contrasts(browser: Browser) -> dict[str, str]:
    """Elements below the contrast that WCAG level AA requires, in both color schemes."""
    found: dict[str, str] = {}
    for scheme in ("light", "dark"):
        browser.paint(scheme)
        found |= {
            f"{scheme} {element}": ratio for element, ratio in browser.evaluate(CONTRAST).items()
        }
    return found


def test_names_are_shown_verbatim_and_are_not_executed(tmp_path: Path) -> None:
    page = report(write_hostile_lake(tmp_path / "lake"), tmp_path / "report.html")
    assert Parsed(page).open == []
    with opened(page, tmp_path / "profile") as browser:
        text = browser.visible()
        for name in (SCRIPT, QUOTES, EMOJI):
            assert f"{name} is healthy." in text
        assert RIGHT_TO_LEFT not in text
        assert r"evil\u202egnillib" in text
        browser.hover("#g0 .bar")
        assert "in generation 1" in browser.visible("#tip")
        assert browser.evaluate("window.attacked") is None
        # A name of 240 characters does not make the page scroll horizontally.
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert browser.problems == []


def test_groups_beyond_the_limit_have_a_line_and_no_section(tmp_path: Path) -> None:
    rows: Rows = {}
    for number in range(SECTIONS_MAX + 3):
        group = GroupRows(rows, f"group-{number:02}", "topic", 1)
        group.generations([Record("09:00:05", "MEMBER_JOINED", {"one": [0]})])
        group.commits(lambda partition, minute: minute if minute < 2 else None)
        group.status("OK", "Stable", 1, 0.0)
        group.diagnosis(0, "HEALTHY", "Healthy.")
    text = report(write_lake(tmp_path / "lake", rows), tmp_path / "report.html").read_text()
    assert text.count("<section id=g") == SECTIONS_MAX
    assert "3 more groups, details with: kohort why GROUP" in text
    assert all(f"group-{number:02}" in text for number in range(SECTIONS_MAX + 3))


def test_a_figure_states_how_many_generations_members_and_owners_are_omitted(
    tmp_path: Path,
) -> None:
    rows: Rows = {}
    group = GroupRows(rows, "crowd", "topic", OWNER_ROWS_MAX + 10)
    owners = {f"m{n:03}": [n] for n in range(OWNER_ROWS_MAX + 10)}
    records = []
    for turn in range(ENTRIES_MAX + 20):
        assigned = dict(list(owners.items())[turn % 2 :])  # the first member leaves and rejoins
        clock = f"09:{turn // 10:02}:{turn % 10 * 6:02}"
        records.append(Record(clock, "MEMBER_JOINED", assigned))
    group.generations(records)
    group.commits(lambda partition, minute: minute)
    group.status("OK", "Stable", 0, 0.0)
    group.diagnosis(0, "HEALTHY", "Healthy.")
    text = report(write_lake(tmp_path / "lake", rows), tmp_path / "report.html").read_text()
    assert "20 earlier generations are not drawn." in text
    assert text.count('<line class=rebalance x1="') == ENTRIES_MAX
    assert f"{OWNER_ROWS_MAX + 10 - MEMBERS_MAX} earlier members are not drawn." in text
    assert "The owners of 10 more partitions are not drawn." in text
    assert len(text) < 5_000_000


def test_partitions_with_the_same_owners_share_a_row() -> None:
    scale = TimeScale(ms(NINE), ms(NOW))
    first, second = ("a", ms(at("09:00:10")), ms(at("09:30:00"))), ("b", ms(at("09:30:00")), None)
    owned = [
        Ownership("pages", partition, owner, owner, begin, end)
        for partition in (0, 1, 2, 7)
        for owner, begin, end in (first, second)[partition // 7 :]
    ]
    rows = owner_rows(scale, owned, MemberNames([]))
    assert [(row.partitions, [span.name for span in row.spans]) for row in rows] == [
        ([0, 1, 2], ["a", "b"]),
        ([7], ["b"]),
    ]


def test_partitions_are_shown_as_ranges() -> None:
    owned = [{"topic": "b", "partition": 4}]
    owned += [{"topic": "a", "partition": n} for n in (3, 0, 1, 2, 9)]
    assert partition_ranges(owned) == "a 0–3, 9; b 4"


def test_a_time_scale_has_round_ticks_and_clamps_times() -> None:
    scale = TimeScale(ms(NINE), ms(NOW))
    ticks = list(scale.ticks())
    texts = " ".join(text for _, text in ticks)
    assert texts == "09:00 09:10 09:20 09:30 09:40 09:50 10:00"
    assert scale.x(ms(NINE.replace(hour=3))) == LEFT
    assert LEFT < scale.x(ms(NOW)) < WIDTH
    assert scale.x(None) == scale.x(ms(NOW))


def test_charts_begin_at_the_first_event_and_labels_end_at_the_edge(tmp_path: Path) -> None:
    rows: Rows = {}
    group = GroupRows(rows, "short", "topic", 1)
    records = [Record(f"09:59:{second}", "MEMBER_JOINED", {"m1": [0]}) for second in (50, 59)]
    group.generations(records)
    group.commits(lambda partition, minute: 1 if minute == 59 else None)
    commit = {"topic": "topic", "partition": 0, "offsets_partition": 0, "log_offset": 1}
    flags = {"group_empty": False, "history_complete": True, "kind": "FIRST"}
    began = at("09:59:01")
    group.add("silver_commit", **commit, **flags, commit_ts=began, offset=1)
    group.status("OK", "Stable", 0, 0.0)
    group.diagnosis(0, "HEALTHY", "Healthy.")
    text = report(write_lake(tmp_path / "lake", rows), tmp_path / "report.html").read_text()
    assert f"charts start at {began:%Y-%m-%d %H:%M:%S}" in text
    causes = re.findall(r"<text class=cause x=\"([\d.]+)\"( text-anchor=end)?", text)
    assert (str(WIDTH), " text-anchor=end") in causes


def test_the_page_has_light_and_dark_colors_and_fits_a_phone(page: Path, tmp_path: Path) -> None:
    grounds = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 25, 31)"}
    with opened(page, tmp_path / "profile", width=420) as browser:
        for scheme, ground in grounds.items():
            browser.paint(scheme)
            painted = browser.evaluate("getComputedStyle(document.body).backgroundColor")
            assert painted == ground
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        browser.picture(tmp_path / "page.png")
    # An empty page of this size has about 10 kB.
    assert (tmp_path / "page.png").stat().st_size > 100_000


def test_a_lake_without_samples_has_unknown_lag(lake_without_samples: Path, tmp_path: Path) -> None:
    text = report(lake_without_samples, tmp_path / "report.html").read_text()
    assert "Lag is unknown: the lake has no samples" in text
    assert "unknown: no samples of the log ends" in text


def test_a_page_that_cannot_be_written_is_an_error(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("not a folder")
    out = tmp_path / "file" / "report.html"
    assert main(["report", "--lake", str(lake), "--out", str(out)]) == 2
    assert capsys.readouterr().err.startswith(f"kohort report: cannot write {out}: ")
