"""The scenarios of `kohort.conformance` on kohort, compared with the transcripts recorded from
Kafka."""

import pytest
from kohort.conformance.recordings import difference, recorded
from kohort.conformance.scenario import Scenario, load

from .brokers import play_on_kohort


@pytest.mark.parametrize(
    "scenario", [pytest.param(each, id=f"{each.part}.{name}") for name, each in load().items()]
)
async def test_responses_are_those_of_kafka(scenario: Scenario) -> None:
    kafka = recorded(scenario)
    assert kafka is not None, "not recorded yet: make parity RECORD=1"
    differs = difference(scenario, kafka, await play_on_kohort(scenario), "kohort")
    assert differs is None, f"{scenario.rule}{differs}"
