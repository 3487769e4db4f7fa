"""Every scenario, played on ours and compared with what Kafka said; with Java, with what it says.

The scripts are in `scenarios/`, Kafka's answers in `vectors/`. `make parity` plays all of them on
a Kafka of its own; `make parity RECORD=1` writes its answers down.
"""

import os
import sys
from pathlib import Path

import pytest

from . import vectors
from .playing import QUIET_LONGER_MS, difference, kafkas, play_on_ours
from .registry import Scenario, load

SCENARIOS = load()


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=list(SCENARIOS))
async def test_ours_answers_as_kafka_did(scenario: Scenario) -> None:
    recorded = vectors.recorded(scenario)
    assert recorded is not None, "not recorded yet: make parity RECORD=1"
    found = difference(scenario, recorded, await play_on_ours(scenario))
    assert found is None, f"{scenario.rule}{found}"


@pytest.mark.java
@pytest.mark.parity
@pytest.mark.slow
async def test_ours_answers_as_a_running_kafka_does(
    kafka_jars: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = {name: await play_on_ours(scenario) for name, scenario in SCENARIOS.items()}
    async with kafkas(kafka_jars, tmp_path, SCENARIOS.values()) as kafka:
        if os.environ.get("KOHORT_PARITY_RECORD"):
            theirs = await kafka.play(SCENARIOS.values(), QUIET_LONGER_MS)
            vectors.write(theirs, SCENARIOS)
        else:
            theirs = await kafka.play(SCENARIOS.values())
            doubtful = [
                scenario
                for name, scenario in SCENARIOS.items()
                if difference(scenario, theirs[name], mine[name])
            ]
            theirs |= await kafka.play(doubtful, QUIET_LONGER_MS)
    differences = {
        name: found
        for name, scenario in SCENARIOS.items()
        if (found := difference(scenario, theirs[name], mine[name]))
    }
    excused = [name for name, s in SCENARIOS.items() if s.excuse and name not in differences]
    equal = len(SCENARIOS) - len(excused) - len(differences)
    said = [f"{len(SCENARIOS)} scenarios: {equal} equal, {len(excused)} excused"]
    said += [f"  excused: {name}: {SCENARIOS[name].excuse}" for name in excused]
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(said) + "\n")
    assert not differences, "".join(f"\n{name}:{text}" for name, text in differences.items())
