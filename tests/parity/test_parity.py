"""All scenarios on kohort and on a running Kafka, side by side.

test_scenarios.py compares kohort with the recorded transcripts. `make parity` starts a Kafka;
`make parity RECORD=1` records its responses.
"""

import os
import sys
from pathlib import Path

import pytest
from kohort.conformance.broker import QUIET_MS
from kohort.conformance.player import LONG_QUIET_MS
from kohort.conformance.recordings import difference, record
from kohort.conformance.scenario import load

from .brokers import kafkas, play_on_kohort
from .needs import needed_settings


@pytest.mark.java
@pytest.mark.parity
@pytest.mark.slow
async def test_responses_are_those_of_a_running_kafka(
    kafka_jars: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenarios = load()
    every = scenarios.values()
    is_recording = os.environ.get("KOHORT_PARITY_RECORD") == "1"
    kohort = {name: await play_on_kohort(scenario) for name, scenario in scenarios.items()}
    # Otherwise the scenarios that a JVM is too slow for at first are played again.
    warm_up = every if is_recording else ()
    async with kafkas(kafka_jars, tmp_path, warm_up) as running:
        kafka = await running.play(every, LONG_QUIET_MS if is_recording else QUIET_MS)
        if not is_recording:
            differing = [
                s for n, s in scenarios.items() if difference(s, kafka[n], kohort[n], "kohort")
            ]
            kafka |= await running.play(differing, LONG_QUIET_MS)
    if is_recording:
        needed = {name: await needed_settings(s, kafka[name]) for name, s in scenarios.items()}
        record(every, kafka, needed)
    differences = {
        name: found
        for name, transcript in kohort.items()
        if (found := difference(scenarios[name], kafka[name], transcript, "kohort"))
    }
    excused = [name for name in kohort if scenarios[name].excuse and name not in differences]
    equal = len(kohort) - len(excused) - len(differences)
    report = [f"{len(kohort)} scenarios: {equal} equal, {len(excused)} excused"]
    report += [f"  excused: {name}: {scenarios[name].excuse}" for name in excused]
    with capsys.disabled():
        sys.stdout.write("\n" + "\n".join(report) + "\n")
    assert not differences, "".join(f"\n{name}:{text}" for name, text in differences.items())
