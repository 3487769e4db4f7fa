"""The whole page: one file that needs nothing else, and no more of a large lake than one can read.

Groups are sorted by severity, then by time lag; the first ones have a section of their own.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from ..answers.answers import Answers
from ..answers.words import counted, when
from .markup import Html, h, more
from .overview import Rebalances, groups_table, storms_table, tally
from .scale import Scale
from .script import SCRIPT
from .section import Shown, section
from .style import STYLE

__all__ = ["page"]

# A section takes up to 150 kB and a second; a page of forty opens at once.
SECTIONS_MAX: Final = 40
# Of the others a line each: some 100 kB.
LINES_MAX: Final = 500
STORMS_MAX: Final = 50
# So far back go charts: what woke somebody up at three has not begun the day before.
WINDOW: Final = timedelta(hours=24)
POINTS: Final = 120  # of a lag chart: one each eight pixels
LEAST: Final = timedelta(seconds=30)


def page(answers: Answers) -> Iterator[str]:
    """The file, in pieces: sections are made one after the other."""
    groups = _sorted(answers)
    scale = _scale(answers)
    first = [
        group._replace(points=answers.lag_series(group.name, scale.begin, scale.end, POINTS))
        for group in groups[:SECTIONS_MAX]
    ]
    rebalances = answers.last_rebalances()
    anchors = {group.name: group.anchor for group in first}
    yield _head(answers, groups, scale)
    yield "<main><section aria-labelledby=groups><h2 id=groups>Groups</h2>"
    yield groups_table(first, rebalances, has_sections=True)
    yield _others(groups[SECTIONS_MAX:], rebalances)
    yield "</section>"
    storms = sorted(answers.storms(), key=lambda storm: storm.to_ts, reverse=True)
    if storms:
        yield "<section aria-labelledby=storms><h2 id=storms>Storms of rebalances</h2>"
        yield storms_table(storms[:STORMS_MAX], anchors)
        yield more(len(storms) - STORMS_MAX, "{} earlier storms: kohort storms.")
        yield "</section>"
    of_first = answers.among(anchors)
    for group in first:
        yield section(of_first, group, scale)
    yield f"</main><div id=tip role=tooltip hidden></div><script>{SCRIPT}</script></body></html>\n"


def _sorted(answers: Answers) -> list[Shown]:
    """The worst first."""
    statuses = {status.group: status for status in answers.groups()}
    diagnoses = {diagnosis.group: diagnosis for diagnosis in answers.diagnoses()}

    def badness(name: str) -> tuple[int, int, str]:
        severity = diagnoses[name].severity if name in diagnoses else 0
        behind = statuses[name].max_lag_ms if name in statuses else None
        return -severity, -(behind or 0), name

    names = sorted(statuses.keys() | diagnoses.keys(), key=badness)
    return [
        Shown(f"g{number}", name, diagnoses.get(name), statuses.get(name), ())
        for number, name in enumerate(names)
    ]


def _scale(answers: Answers) -> Scale:
    assert answers.as_of is not None  # a lake that has groups has read records
    begin = max(answers.began() or answers.as_of, answers.as_of - WINDOW)
    return Scale(min(begin, answers.as_of - LEAST), answers.as_of)


def _head(answers: Answers, groups: Sequence[Shown], scale: Scale) -> str:
    severities = [group.diagnosis.severity if group.diagnosis else 0 for group in groups]
    samples = "" if answers.has_samples() else NO_SAMPLES
    return (
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>Consumer groups: {counted(len(groups), 'group')}, "
        f"{sum(each == 3 for each in severities)} in error</title><style>{STYLE}</style></head>"
        f"<body id=top><header><h1>Consumer groups</h1><p>as of <b>{when(scale.end)} UTC</b>, "
        f"cluster {h(answers.cluster)}; charts go back to {when(scale.begin)}</p>"
        f"{tally(severities)}{samples}</header>"
    )


NO_SAMPLES: Final = (
    "<p class=warn>Lag is not known: the lake has no samples of where logs end. <code>kohort "
    "pipeline run</code> takes them from a broker, or from the segments of a data folder.</p>"
)


def _others(groups: Sequence[Shown], rebalances: Rebalances) -> str:
    if not groups:
        return ""
    title = f"{counted(len(groups), 'more group')}, with a line each: kohort why GROUP says more"
    made = groups_table(groups[:LINES_MAX], rebalances, has_sections=False)
    left_out = more(len(groups) - LINES_MAX, "{} more groups are not listed: kohort lag.")
    return Html(f"<details><summary><h3>{h(title)}</h3></summary>{made}{left_out}</details>")
