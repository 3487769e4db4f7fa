"""The results as text, JSON and Markdown."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from .conformance import OTHER_NODE_ID, Outcome, Result
from .recordings import KAFKA_VERSION
from .scenario import AREAS

COLUMNS: Final = tuple(Outcome)


def count_by_area(results: Iterable[Result]) -> dict[str, Counter[Outcome]]:
    """Return the number of each outcome, by area, in the order of AREAS."""
    counts: dict[str, Counter[Outcome]] = {area: Counter() for area in AREAS.values()}
    for result in results:
        counts[result.scenario.area][result.outcome] += 1
    return {area: count for area, count in counts.items() if count}


def _text(results: Sequence[Result], server: str) -> Iterator[str]:
    counts = count_by_area(results)
    width = max(map(len, (*counts, "total")))
    yield f"{server} compared with Apache Kafka {KAFKA_VERSION}:"
    yield ""
    yield f"{'':{width}}" + "".join(f"{each:>13}" for each in COLUMNS)
    total: Counter[Outcome] = Counter()
    for area, count in counts.items():
        yield f"{area:{width}}" + "".join(f"{count[each]:13}" for each in COLUMNS)
        total += count
    yield f"{'total':{width}}" + "".join(f"{total[each]:13}" for each in COLUMNS)
    for result in results:
        if result.outcome is Outcome.DIFFERS:
            yield ""
            yield f"differs: {_name(result)}: {result.scenario.rule}"
            yield result.detail.strip("\n")
    for outcome in (Outcome.UNSUPPORTED, Outcome.SKIPPED):
        details = Counter(each.detail for each in results if each.outcome is outcome)
        if details:
            yield ""
        for detail, number in details.most_common():
            scenarios = "1 scenario needs" if number == 1 else f"{number} scenarios need"
            yield f"{outcome}: {scenarios} {detail}"
    if text := remedy(results):
        yield text


def remedy(results: Iterable[Result]) -> str:
    """Return how to get the settings that skipped scenarios need; "" if none needs any."""
    names = list(
        dict.fromkeys(
            each.scenario.settings
            for each in results
            if each.outcome is Outcome.SKIPPED and not each.detail.startswith(OTHER_NODE_ID)
        )
    )
    if not names:
        return ""
    name, others = (names[0], "") if len(names) == 1 else ("NAME", f"; NAME: {', '.join(names)}")
    prints = "prints the settings of these scenarios"
    return f"`kohort conformance --print-settings {name}` {prints}{others}"


def _json(results: Sequence[Result], server: str) -> Iterator[str]:
    scenarios = [
        {
            "scenario": _name(each),
            "area": each.scenario.area,
            "rule": each.scenario.rule,
            "outcome": each.outcome,
            "detail": each.detail,
        }
        for each in results
    ]
    document: Mapping[str, Any] = {
        "broker": server,
        "kafka": KAFKA_VERSION,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "scenarios": scenarios,
    }
    yield json.dumps(document, indent=2)


def _markdown(results: Sequence[Result], server: str) -> Iterator[str]:
    date = datetime.now(UTC).date().isoformat()
    yield f"{server} compared with Apache Kafka {KAFKA_VERSION}, {date}:"
    yield ""
    yield f"| area | {' | '.join(COLUMNS)} |"
    yield "|---|" + "---:|" * len(COLUMNS)
    for area, count in count_by_area(results).items():
        yield f"| {area} | {' | '.join(str(count[each]) for each in COLUMNS)} |"
    differing = [each for each in results if each.outcome is Outcome.DIFFERS]
    if differing:
        yield ""
        yield "Different:"
        yield ""
    for result in differing:
        yield f"- `{_name(result)}`: {result.scenario.rule}"


def _name(result: Result) -> str:
    return f"{result.scenario.part}.{result.scenario.name}"


FORMATS: Final = {"text": _text, "json": _json, "markdown": _markdown}
"""The functions that return the lines of a report, for results and the address of the broker."""
