"""Kafka's transcripts, recorded by tests/parity/test_parity.py (`make parity RECORD=1`): a JSON
file for each module of scenarios."""

import json
from collections.abc import Collection
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
    """Return the recorded settings that the transcript depends on, or all if none are recorded."""
    found: dict[str, list[str]] = _file(scenario.part).get("needs", {})
    return found.get(scenario.name, SETTINGS[scenario.settings].keys())


def difference(
    scenario: Scenario, kafka: Transcript, other: Transcript, name: str, *, strict: bool = True
) -> str | None:
    """Return the first difference outside the hidden fields, with the steps before it. `name`: the
    other broker's name; KOHORT may lack the fields in `kohort_lacks`. Unless `strict`, fields that
    clients do not read are not compared."""
    if name == KOHORT:
        kafka = without(kafka, scenario.kohort_lacks)
    if not strict:
        kafka, other = without_details(kafka), without_details(other)
    return first_difference(hide(kafka, scenario.hides), hide(other, scenario.hides), name)


@cache
def _file(part: str) -> dict[str, Any]:
    path = FOLDER / f"{part}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
