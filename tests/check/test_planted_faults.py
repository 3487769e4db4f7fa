"""Each promise that a running broker breaks is found within seconds, by the check that is named
after it."""

import asyncio
import re

import pytest
from kohort.check.analysis import analyse
from kohort.check.nemesis import Nemesis
from kohort.check.recorder import History
from kohort.check.run import Options, run
from kohort.check.targets import OWN_SESSION_TIMEOUT_MS, OwnBroker
from kohort.client_security import Security
from kohort.protocol.bootstrap import addresses
from support.faulty_broker import FAULTS, Fault

PAUSE_SECONDS = 0.003
# Usually one is enough; on a busy machine, a group may need longer for its rebalances.
RUNS_MAX = 10


def check(
    broker: OwnBroker, seed: int = 1, nemesis: str | None = None, seconds: float = 1.5
) -> dict[str, str]:
    """The names of the anomalies, each with its smallest counter-example."""
    history = History()
    options = Options(
        addresses(broker.bootstrap),
        Security(),
        seconds,
        seed,
        10,
        OWN_SESSION_TIMEOUT_MS,
        PAUSE_SECONDS,
    )
    chosen = {} if nemesis is None else {nemesis: broker.nemeses[nemesis]}
    disturb = Nemesis(chosen, seed, history) if chosen else None
    asyncio.run(run(options, disturb, history))
    return {each.check.name: each.anomalies[0].what for each in analyse(history)}


@pytest.mark.interpreted
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    with OwnBroker() as broker:
        fault.plant(broker, monkeypatch)
        found: dict[str, str] = {}
        for seed in range(RUNS_MAX):
            found |= check(broker, seed, fault.nemesis, fault.seconds)
            if fault.anomaly in found:
                return
    raise AssertionError(f"{fault.anomaly} was not found, only {found}")


def test_lost_responses_are_named() -> None:
    with OwnBroker() as broker:
        history = History()
        options = Options(addresses(broker.bootstrap), Security(), 6, 1, 10, OWN_SESSION_TIMEOUT_MS)
        disturb = Nemesis({"lost": broker.nemeses["lost"]}, 1, history)
        asyncio.run(run(options, disturb, history))
    lost = [each.describe() for each in history if each.client == "nemesis"]
    assert any(
        re.match(r"lost the response to \w+ v\d+ of kohort-check-[a-z]+-\d+\.\d+", each)
        for each in lost
    ), lost


def test_nothing_is_found_without_a_fault() -> None:
    with OwnBroker() as broker:
        assert check(broker) == {}
