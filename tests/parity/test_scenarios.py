"""The scenarios of `kohort.conformance` on kohort, compared with the transcripts recorded from
Kafka."""

import logging
from collections.abc import Iterator

import pytest
from kohort.conformance.recorder import SAME_VERSIONS
from kohort.conformance.recordings import difference, recorded
from kohort.conformance.scenario import Scenario, load
from kohort.conformance.transcript import Transcript
from kohort.conformance.wire import UnsupportedVersion
from kohort.protocol.apis import APIS

from .brokers import play_on_kohort

CLASSIC = (
    *("administration", "commits", "heartbeats", "joining", "leaving", "limits"),
    *("static_members", "syncing"),
)
# The oldest versions, but the scripts themselves need DescribeGroups v5.
OLDEST = {api: same.start for api, same in SAME_VERSIONS.items()} | {"DescribeGroups": 5}
VERSIONS = {
    api.key: range(api.min_version, OLDEST.get(api.name, api.max_version) + 1) for api in APIS
}


@pytest.fixture(autouse=True)
def _levels() -> Iterator[None]:
    """Loggers, which a scenario changes, are those of this process."""
    yield
    logging.getLogger("kohort").setLevel(logging.NOTSET)


def transcript_of(scenario: Scenario) -> Transcript:
    kafka = recorded(scenario)
    assert kafka is not None, f"not recorded yet: make parity RECORD=1 FILES={scenario.part}"
    return kafka


@pytest.mark.parametrize(
    "scenario", [pytest.param(each, id=f"{each.part}.{name}") for name, each in load().items()]
)
async def test_responses_are_those_of_kafka(scenario: Scenario) -> None:
    kafka = transcript_of(scenario)
    differs = difference(scenario, kafka, await play_on_kohort(scenario), "kohort")
    assert differs is None, f"{scenario.rule}{differs}"


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(each, id=f"{each.part}.{name}")
        for name, each in load().items()
        if each.part in CLASSIC
    ],
)
async def test_responses_in_older_versions_are_those_of_kafka(scenario: Scenario) -> None:
    kafka = transcript_of(scenario)
    try:
        found = await play_on_kohort(scenario, VERSIONS)
    except UnsupportedVersion as request:
        pytest.skip(f"it needs {request}")
    differs = difference(scenario, kafka, found, "kohort", strict=False)
    assert differs is None, f"{scenario.rule}{differs}"
