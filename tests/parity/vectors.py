"""Transcripts recorded from Kafka, one file for each part of the scenarios."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from .kafka_broker import VERSION
from .registry import SETTINGS, Scenario

FOLDER = Path(__file__).parent / "vectors"
Transcript = list[dict[str, Any]]


@cache
def _part(part: str) -> dict[str, Any]:
    file = FOLDER / f"{part}.json"
    return json.loads(file.read_text()) if file.exists() else {}


def recorded(scenario: Scenario) -> Transcript | None:
    """What Kafka said, if it has been asked."""
    return _part(scenario.part).get("transcripts", {}).get(scenario.name)


def write(transcripts: Mapping[str, Transcript], scenarios: Mapping[str, Scenario]) -> None:
    """Replace all vectors by these."""
    for part in {scenario.part for scenario in scenarios.values()}:
        names = [name for name, scenario in scenarios.items() if scenario.part == part]
        lines = ",\n".join(
            f"    {json.dumps(name)}: [\n"
            + ",\n".join(f"      {json.dumps(line)}" for line in transcripts[name])
            + "\n    ]"
            for name in names
        )
        head = {
            "kafka": VERSION,
            "recorded": "make parity RECORD=1: one node in KRaft mode, played on the wire",
            "settings": {
                key: SETTINGS[key] for key in {scenarios[name].settings for name in names}
            },
        }
        text = json.dumps(head, indent=2, sort_keys=True).removesuffix("\n}")
        (FOLDER / f"{part}.json").write_text(f'{text},\n  "transcripts": {{\n{lines}\n  }}\n}}\n')
