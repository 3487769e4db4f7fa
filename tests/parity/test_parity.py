"""All scenarios of this folder on kohort and on a running Kafka, side by side.

The other test modules compare kohort with the transcripts recorded in `vectors/`. `make parity`
starts a Kafka; `make parity RECORD=1` records its responses.
"""

import os
import sys
from pathlib import Path

import pytest

from .scenario import (
    LONG_QUIET_MS,
    SCENARIOS,
    difference,
    kafkas,
    load,
    record,
    run_on_kohort,
)


@pytest.mark.java
@pytest.mark.parity
@pytest.mark.slow
async def test_responses_are_those_of_a_running_kafka(
    kafka_jars: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load()
    is_recording = bool(os.environ.get("KOHORT_PARITY_RECORD"))
    kohort = {name: await run_on_kohort(scenario) for name, scenario in SCENARIOS.items()}
    async with kafkas(kafka_jars, tmp_path, SCENARIOS.values()) as running:
        if is_recording:
            kafka = await running.run(SCENARIOS.values(), LONG_QUIET_MS)
            record(kafka)
        else:
            kafka = await running.run(SCENARIOS.values())
            differing = [s for n, s in SCENARIOS.items() if difference(s, kafka[n], kohort[n])]
            kafka |= await running.run(differing, LONG_QUIET_MS)
    differences = {
        name: found
        for name, transcript in kohort.items()
        if (found := difference(SCENARIOS[name], kafka[name], transcript))
    }
    excused = [name for name in kohort if SCENARIOS[name].excuse and name not in differences]
    equal = len(kohort) - len(excused) - len(differences)
    report = [f"{len(kohort)} scenarios: {equal} equal, {len(excused)} excused"]
    report += [f"  excused: {name}: {SCENARIOS[name].excuse}" for name in excused]
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(report) + "\n")
    assert not differences, "".join(f"\n{name}:{text}" for name, text in differences.items())
