"""The scenarios of `kohort.conformance` on kohort, compared with the transcripts recorded from
Kafka."""

import logging
from collections.abc import Iterator

import pytest
from kohort.conformance.recordings import difference, recorded
from kohort.conformance.scenario import Scenario, load

from .brokers import play_on_kohort


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    """Loggers, which a scenario changes, are those of this process."""
    yield
    logging.getLogger("kohort").setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    "scenario", [pytest.param(each, id=f"{each.part}.{name}") for name, each in load().items()]
)
async def test_responses_are_those_of_kafka(scenario: Scenario) -> None:
    kafka = recorded(scenario)
    assert kafka is not None, "not recorded yet: make parity RECORD=1"
    differs = difference(scenario, kafka, await play_on_kohort(scenario), "kohort")
    assert differs is None, f"{scenario.rule}{differs}"
