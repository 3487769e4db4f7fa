"""Determines which scenarios a broker can play, and in which its responses differ from Kafka's."""

import re
from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import count
from typing import Final

from .broker import NODE_ID, QUIET_MS, RemoteBroker, Unusable
from .player import LONG_QUIET_MS, Player
from .recorder import Recorder
from .recordings import difference, needs, recorded
from .scenario import Scenario
from .script import ALL_ACLS
from .settings import DEFAULTS, INITIAL_DELAY, Settings, unmet
from .snapshot import BROKER_WIDE, Snapshot
from .transcript import Transcript
from .wire import UnsupportedVersion

# Parts of requests, in recorded transcripts, that contain the id of the node.
NODE_ID_IN_REQUEST: Final = re.compile(
    rf"(resource_type [48], resource_name|broker_ids?|replicas|voter_id) \[?{NODE_ID}\b"
)
OTHER_NODE_ID: Final = f"node.id={NODE_ID}"
"""The beginning of `Result.detail` if the broker has another node id."""


class Outcome(StrEnum):
    EQUAL = "equal"
    DIFFERS = "differs"
    UNSUPPORTED = "unsupported"
    """The broker does not list a version of an API that the scenario uses."""
    SKIPPED = "skipped"
    """The broker does not have the settings that the scenario needs."""


@dataclass(frozen=True)
class Result:
    """The result of a scenario. `detail`: the first difference, the unsupported request, or the
    settings that the broker does not have."""

    scenario: Scenario
    outcome: Outcome
    detail: str = ""


async def compare(
    broker: RemoteBroker,
    scenarios: Collection[Scenario],
    run: str,
    *,
    unreported: Settings,
    assumed: Settings,
    strict: bool = False,
    on_progress: Callable[[int, int], None] = lambda _played, _total: None,
) -> list[Result]:
    """Play the scenarios that can be played, and return a result for every scenario, in the given
    order. `run`: part of the names of groups and topics; `unreported`: settings that the broker
    need not report; `assumed`: settings that replace the reported ones; `on_progress`: gets the
    number of scenarios that have been played, and of all playable ones. Raises Unusable."""
    settings = {**unreported, **broker.settings, **assumed}
    broker.initial_delay_ms = int(settings.get(INITIAL_DELAY, DEFAULTS[INITIAL_DELAY]) or 0)
    reasons = {each.name: not_playable(each, broker, settings) for each in scenarios}
    playable = [each for each in scenarios if not reasons[each.name]]
    await broker.find_first_epoch(f"probe.{run}")
    if any(each.is_authorized for each in playable):
        await _check_acls(broker)

    def has_diverged(scenario: Scenario, script: Recorder) -> bool:
        last = slice(len(script.transcript) - 1, len(script.transcript))
        kafka, other = _kafka(scenario)[last], script.transcript[last]
        return difference(scenario, kafka, other, broker.name, strict=strict) is not None

    played = count(1)

    def on_played(_scenario: Scenario) -> None:
        on_progress(next(played), len(playable))

    before = await Snapshot.take(broker, run, BROKER_WIDE)
    player = Player(broker, settings, run=run, restore=before.restore)
    found = await player.play(
        playable, quiet_ms=QUIET_MS, on_played=on_played, stops_when=has_diverged
    )
    result = partial(_result, name=broker.name, strict=strict)
    results = {each.name: result(each, found[each.name]) for each in playable}
    again = [s for s in playable if results[s.name].outcome is Outcome.DIFFERS]
    # A longer wait would break scenarios that must send their requests before a timer expires.
    timed = [each for each in again if each.keeps_delay]
    others = [each for each in again if not each.keeps_delay]
    found = await player.play(timed, quiet_ms=QUIET_MS, stops_when=has_diverged)
    found |= await player.play(others, quiet_ms=LONG_QUIET_MS, stops_when=has_diverged)
    results |= {each.name: result(each, found[each.name]) for each in again}
    return [
        results.get(each.name) or Result(each, Outcome.SKIPPED, reasons[each.name])
        for each in scenarios
    ]


def not_playable(scenario: Scenario, broker: RemoteBroker, settings: Settings) -> str:
    """Return why the scenario is skipped; "" if it can be played."""
    missing: Iterable[str] = unmet(scenario.settings, needs(scenario), settings)
    if scenario.is_authorized and broker.users is None:
        missing = ("--sasl-bootstrap-server", *missing)
    if broker.node_id != NODE_ID and _names_node(scenario):
        missing = (f"{OTHER_NODE_ID} (the broker has {broker.node_id})", *missing)
    return ", ".join(missing)


def _names_node(scenario: Scenario) -> bool:
    return any(NODE_ID_IN_REQUEST.search(line["step"]) for line in _kafka(scenario))


def _result(
    scenario: Scenario, found: Transcript | UnsupportedVersion, *, name: str, strict: bool
) -> Result:
    if isinstance(found, UnsupportedVersion):
        return Result(scenario, Outcome.UNSUPPORTED, str(found))
    differs = difference(scenario, _kafka(scenario), found, name, strict=strict)
    return Result(scenario, Outcome.DIFFERS if differs else Outcome.EQUAL, differs or "")


def _kafka(scenario: Scenario) -> Transcript:
    kafka = recorded(scenario)
    assert kafka is not None, f"{scenario.name} is not recorded"
    return kafka


async def _check_acls(broker: RemoteBroker) -> None:
    """Raise Unusable if the broker has ACLs, because scenarios would delete them."""
    with closing(await broker.connect(None)) as control:
        described = await control.call("DescribeAcls", 3, **ALL_ACLS)
    if described["resources"]:
        raise Unusable(
            "it has ACLs, which scenarios would delete: use another broker, or leave out "
            "--sasl-bootstrap-server"
        )
