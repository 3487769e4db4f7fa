"""Kafka's transcripts, recorded by `make parity RECORD=1`: a JSON file for each module of
scenarios."""

import json
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from .broker import KOHORT
from .differences import first_difference
from .scenario import Scenario
from .settings import SETTINGS
from .transcript import Transcript, hide, without, without_details

KAFKA_VERSION: Final = "4.3.0"  # as in tests/kafka/pom.xml
FOLDER: Final = Path(__file__).parent / "transcripts"


def recorded(scenario: Scenario) -> Transcript | None:
    transcripts: dict[str, Transcript] = _file(scenario.part).get("transcripts", {})
    return transcripts.get(scenario.name)


def needs(scenario: Scenario) -> Collection[str]:
    """Return the settings that the transcript depends on: all, unless fewer are recorded."""
    found: dict[str, list[str]] = _file(scenario.part).get("needs", {})
    return found.get(scenario.name, SETTINGS[scenario.settings].keys())


def difference(
    scenario: Scenario, kafka: Transcript, other: Transcript, name: str, *, strict: bool = True
) -> str | None:
    """Return the first difference outside the hidden fields, with the steps before it. `name`: the
    other broker's name; KOHORT may lack fields. Unless `strict`, fields that clients do not read
    are not compared."""
    if name == KOHORT:
        kafka = without(kafka, scenario.kohort_lacks)
    if not strict:
        kafka, other = without_details(kafka), without_details(other)
    return first_difference(hide(kafka, scenario.hides), hide(other, scenario.hides), name)


@cache
def _file(part: str) -> dict[str, Any]:
    path = FOLDER / f"{part}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def record(
    scenarios: Iterable[Scenario],
    transcripts: Mapping[str, Transcript],
    needed: Mapping[str, Collection[str]],
) -> None:
    """Replace the files of the scenarios' modules; recordings of other scenarios in these files are
    lost. `needed`: the settings that each transcript depends on, by the scenario's name."""
    parts: dict[str, list[Scenario]] = {}
    for scenario in scenarios:
        parts.setdefault(scenario.part, []).append(scenario)
    for part, members in parts.items():
        head = {
            "kafka": KAFKA_VERSION,
            "recorded": "make parity RECORD=1: one node in KRaft mode, over the wire",
            "settings": {each.settings: SETTINGS[each.settings] for each in members},
        }
        text = json.dumps(head, indent=2, sort_keys=True).removesuffix("\n}")
        lists = ",\n".join(
            f"    {json.dumps(each.name)}: {json.dumps(sorted(needed[each.name]))}"
            for each in members
        )
        lines = ",\n".join(
            f"    {json.dumps(each.name)}: [\n"
            + ",\n".join(f"      {json.dumps(line)}" for line in transcripts[each.name])
            + "\n    ]"
            for each in members
        )
        (FOLDER / f"{part}.json").write_text(
            f'{text},\n  "needs": {{\n{lists}\n  }},\n  "transcripts": {{\n{lines}\n  }}\n}}\n',
            encoding="utf-8",
        )
