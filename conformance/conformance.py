"""Which scenarios a broker can play, and in which its responses differ from Kafka's."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from .broker import QUIET_MS, RemoteBroker, Unusable
from .player import LONG_QUIET_MS, Player
from .recordings import difference, needs, recorded
from .scenario import Scenario
from .script import ALL_ACLS
from .settings import Settings, unmet
from .transcript import Transcript
from .wire import UnsupportedVersion

__all__ = ["Outcome", "Result", "compare", "not_playable"]

# Messages of errors are for people; a client cannot depend on their wording.
MESSAGES: Final = ("error_message",)


class Outcome(StrEnum):
    EQUAL = "equal"
    DIFFERS = "differs"
    UNSUPPORTED = "unsupported"
    """The broker does not list a version of an API that the scenario uses."""
    SKIPPED = "skipped"
    """The broker has other settings than those that the scenario needs."""


@dataclass(frozen=True)
class Result:
    """`detail`: the first difference, the unsupported request, or the settings."""

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
    with_messages: bool = False,
    on_played: Callable[[Scenario], None] = lambda _scenario: None,
) -> list[Result]:
    """Play what can be played, and return a result for each scenario, in their order. `run`: part
    of the names of groups and topics; `unreported`: settings of the broker if it does not report
    them; `assumed`: settings whatever it reports. Raises Unusable."""
    settings = {**unreported, **broker.settings, **assumed}
    reasons = {each.name: not_playable(each, broker, settings) for each in scenarios}
    playable = [each for each in scenarios if not reasons[each.name]]
    if any(each.is_authorized for each in playable):
        await _check_acls(broker)
    hides = () if with_messages else MESSAGES
    player = Player(broker, settings, run=run)
    found = await player.play(playable, quiet_ms=QUIET_MS, on_played=on_played)
    results = {each.name: _result(each, found[each.name], hides) for each in playable}
    again = [s for s in playable if results[s.name].outcome is Outcome.DIFFERS]
    found = await player.play(again, quiet_ms=LONG_QUIET_MS)
    results |= {each.name: _result(each, found[each.name], hides) for each in again}
    return [
        results.get(each.name) or Result(each, Outcome.SKIPPED, reasons[each.name])
        for each in scenarios
    ]


def not_playable(scenario: Scenario, broker: RemoteBroker, settings: Settings) -> str:
    """Return why the scenario is skipped, or an empty text."""
    missing: Iterable[str] = unmet(scenario.settings, needs(scenario), settings)
    if scenario.is_authorized and broker.users is None:
        missing = ("--sasl-bootstrap-server", *missing)
    return ", ".join(missing)


def _result(
    scenario: Scenario, found: Transcript | UnsupportedVersion, hides: tuple[str, ...]
) -> Result:
    if isinstance(found, UnsupportedVersion):
        return Result(scenario, Outcome.UNSUPPORTED, str(found))
    kafka = recorded(scenario)
    assert kafka is not None, f"{scenario.name} is not recorded"
    differs = difference(scenario, kafka, found, "broker", hides)
    return Result(scenario, Outcome.DIFFERS if differs else Outcome.EQUAL, differs or "")


async def _check_acls(broker: RemoteBroker) -> None:
    """Scenarios delete all ACLs, so there must be none of others."""
    control = await broker.connect(None)
    described = await control.call("DescribeAcls", 3, **ALL_ACLS)
    control.close()
    if described["resources"]:
        raise Unusable(
            "it has ACLs, which scenarios would delete: use another broker, or leave out "
            "--sasl-bootstrap-server"
        )
