"""`--kafka-timeline FILE.html`: the histories of all tests of a run, drawn on one page.

The page has no scripts and no external resources. Each test process draws its own histories
(drawing.py), and the reporting process writes the page.
"""

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

import pytest

# The maximum number of tests on the page, failed tests first. A browser handles about 50 MB well.
TESTS_MAX = 500
MESSAGE_LENGTH_MAX = 2000

REPORT_ATTRIBUTE: Final = "kafka_timeline"
"""The test report attribute that holds the drawings, as a string so that xdist transfers them.
"""


@dataclass(frozen=True, slots=True)
class Section:
    """The section of one test."""

    name: str
    outcome: str
    seconds: float
    message: str
    drawing: str


class TimelinePage:
    """A pytest plugin for the reporting process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sections: list[Section] = []
        self._error: OSError | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        drawing = getattr(report, REPORT_ATTRIBUTE, None)
        if drawing is None:
            return
        message = "" if report.passed else report.longreprtext
        crash = getattr(report.longrepr, "reprcrash", None)
        self._sections.append(
            Section(
                report.nodeid,
                report.outcome,
                report.duration,
                str(crash.message if crash is not None else message)[:MESSAGE_LENGTH_MAX],
                drawing,
            )
        )

    def pytest_sessionfinish(self) -> None:
        # An exception would prevent the summary of the run.
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(page(self._sections), encoding="utf-8")
        except OSError as error:
            self._error = error

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        count = len(self._sections)
        result = self._path if self._error is None else f"not written: {self._error}"
        terminalreporter.write_line(f"timeline of {count} test{'s' * (count != 1)}: {result}")


def page(sections: list[Section]) -> str:
    """Return the HTML file. Failed tests come first and are expanded."""
    ordered = sorted(sections, key=lambda each: each.outcome != "failed")
    failed = sum(each.outcome == "failed" for each in sections)
    tests = f"{len(sections)} test{'s' * (len(sections) != 1)}"
    omitted = len(ordered) - TESTS_MAX
    more = f"<p>{omitted} more tests are not shown.</p>" if omitted > 0 else ""
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>Kafka timeline: {tests}, {failed} failed</title>"
        f"<style>{STYLE}</style></head><body>"
        f"<h1>Kafka timeline</h1><p>{tests} with a broker, {failed} failed. "
        "Times are seconds of wall-clock time since the broker of the test was created.</p>"
        f"{LEGEND}{''.join(map(_section, ordered[:TESTS_MAX]))}{more}</body></html>\n"
    )


def _section(section: Section) -> str:
    message = f"<pre>{escape(section.message)}</pre>" if section.message else ""
    drawing = (
        section.drawing or "<p class=more>No member, no committed offset and no transaction.</p>"
    )
    return (
        f"<details class={section.outcome}{' open' * (section.outcome == 'failed')}><summary>"
        f"<b>{escape(section.outcome)}</b> {escape(section.name)} "
        f"<small>{section.seconds:.2f} s</small></summary>{message}{drawing}</details>"
    )


LEGEND: Final = """<p class=legend>
<svg viewBox="0 0 30 14"><rect class="bar g1" y="1" width="14" height="12" rx="2"/>
<rect class="bar g2" x="15" y="1" width="14" height="12" rx="2"/></svg> a member and its partitions,
one color for each generation
<svg viewBox="0 0 44 14"><rect class="bar committed" y="1" width="14" height="12" rx="2"/>
<rect class="bar aborted" x="15" y="1" width="14" height="12" rx="2"/>
<rect class="bar open" x="30" y="1" width="14" height="12" rx="2"/></svg> a transaction: committed,
aborted, open; the line marks the decision
<svg viewBox="0 0 14 14"><rect class=rebalance width="14" height="14"/></svg> rebalance
<svg viewBox="0 0 8 14"><path class=commit d="M4 3v9"/></svg> commit or other event, such as the
initialization of a producer
<svg viewBox="0 0 14 14"><path class=rejected d="M3 3l8 8m-8 0l8 -8"/></svg> rejected commit
<svg viewBox="0 0 14 14"><path class=exit d="M3 3l8 8m-8 0l8 -8"/></svg> member left or was removed
<svg viewBox="0 0 14 14"><path class=fault d="M7 1l5 6l-5 6l-5 -6z"/></svg> fault
<svg viewBox="0 0 8 14"><line class=clock x1="4" x2="4" y2="14"/></svg> clock or broker changed
</p>"""

STYLE: Final = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1d2733; --faint: #6b7785;
  --rule: #e3e8ee; --rebalance: #f1b84255; --red: #c62828; --violet: #7b2fbf; --bar-ink: #102030;
  --g0: #a9d3f5; --g1: #b5e3b0; --g2: #f7cf9b; --g3: #dcc3f2; --g4: #9fe0dc; --g5: #f5bccb; }
@media (prefers-color-scheme: dark) { :root { --ground: #14191f; --ink: #e4e9ef;
  --faint: #93a0ae; --rule: #2a323c; --rebalance: #f1b84240; --red: #ff7b72; --violet: #d2a8ff;
  --bar-ink: #f2f6fa; --g0: #245a86; --g1: #2c6a35; --g2: #83571a; --g3: #61418a; --g4: #1c6b67;
  --g5: #85384f; } }
body { background: var(--ground); color: var(--ink); margin: 1.5rem auto; max-width: 1400px;
  padding: 0 1rem; font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.4rem; margin: 0; }
details { border-top: 1px solid var(--rule); padding: .5rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
summary b { font-weight: 600; color: var(--faint); }
.failed > summary b { color: var(--red); }
small, .more, .legend { color: var(--faint); font-size: .85rem; }
pre { background: color-mix(in srgb, var(--red) 8%, transparent); border-left: 3px solid var(--red);
  padding: .4rem .8rem; overflow-x: auto; font-size: .8rem; white-space: pre-wrap; }
figure { margin: .6rem 0 1rem; overflow-x: auto; }
figcaption { font-weight: 600; }
figure svg { width: 100%; min-width: 1000px; display: block; }
.legend { line-height: 2; }
.legend svg { height: 14px; vertical-align: -2px; margin-left: .8rem; }
text { font: 9.5px ui-monospace, monospace; fill: var(--ink); }
text.cause, text.tick { fill: var(--faint); }
text.tick { text-anchor: middle; }
text.owned { fill: var(--bar-ink); }
text.clock { fill: var(--violet); }
.rule { stroke: var(--rule); }
.tick { stroke: var(--faint); }
text.tick { stroke: none; }
.rebalance { fill: var(--rebalance); }
.bar.none { opacity: .35; }
.g0 { fill: var(--g0); } .g1 { fill: var(--g1); } .g2 { fill: var(--g2); }
.g3 { fill: var(--g3); } .g4 { fill: var(--g4); } .g5 { fill: var(--g5); }
.committed { fill: var(--g1); } .aborted { fill: var(--g5); } .open { fill: var(--g2); }
path { fill: none; stroke-width: 1.6; }
.commit, .event { stroke: var(--ink); stroke-width: 1.2; }
.rejected { stroke: var(--red); stroke-width: 2; }
.exit { stroke: var(--ink); stroke-width: 2; }
.decided { stroke: var(--bar-ink); stroke-width: 1; }
.fault { fill: var(--red); }
.clock { stroke: var(--violet); stroke-dasharray: 3 2; }
text.clock { stroke: none; }
.hit { stroke: transparent; stroke-width: 8; }
"""
