"""What a scenario is, and all that there are."""

import importlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from .script import Script

Play = Callable[[Script], Awaitable[None]]

# Sessions may be short, so that scripts that wait for their end are quick; few offsets partitions,
# so that a broker is ready soon.
QUICK = {
    "group.min.session.timeout.ms": "500",
    "group.max.session.timeout.ms": "1800000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
}
# Newcomers are waited for, and two members are enough.
DELAYED = {**QUICK, "group.initial.rebalance.delay.ms": "3000", "group.max.size": "2"}
SETTINGS = {"quick": QUICK, "delayed": DELAYED}


@dataclass(frozen=True)
class Scenario:
    name: str
    rule: str
    """The state, table row or trap that it shows."""
    play: Play
    part: str
    """The module that tells it, and the file of vectors that it is in."""
    settings: str = "quick"
    excuse: str | None = None
    """Why we differ on purpose; `hides` are the fields of answers in which we may."""
    hides: tuple[str, ...] = ()


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    rule: str,
    *,
    settings: str = "quick",
    excuse: str | None = None,
    hides: tuple[str, ...] = (),
) -> Callable[[Play], Play]:
    def register(play: Play) -> Play:
        name, part = play.__name__, play.__module__.rpartition(".")[2]
        assert name not in SCENARIOS, f"two scenarios are called {name}"
        SCENARIOS[name] = Scenario(name, rule, play, part, settings, excuse, hides)
        return play

    return register


def load() -> Mapping[str, Scenario]:
    """Every scenario of the folder `scenarios`."""
    for file in sorted((Path(__file__).parent / "scenarios").glob("*.py")):
        importlib.import_module(f"{__package__}.scenarios.{file.stem}")
    return SCENARIOS
