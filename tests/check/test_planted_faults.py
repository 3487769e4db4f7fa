"""If a running broker breaks a promise, the corresponding check finds it within seconds."""

import asyncio
import re
from collections.abc import Collection

import pytest
from kohort.check.analysis import analyze
from kohort.check.history import Event
from kohort.check.recorder import History
from kohort.check.run import run
from kohort.check.targets import OWN_SESSION_TIMEOUT_MS, OwnBroker
from kohort.check.workload import Options
from kohort.client_security import Security
from kohort.protocol.bootstrap import addresses
from support.faulty_broker import FAULTS, Fault

PAUSE_SECONDS = 0.003
RUNS_MAX = 6
"""Each is twice as long as the one before: on a busy machine, a group may need longer for its
rebalances."""


def check(
    broker: OwnBroker,
    seconds: float,
    nemeses: Collection[str] = (),
    *,
    seed: int = 1,
    pause_s: float = PAUSE_SECONDS,
) -> tuple[History, dict[str, str]]:
    """The names of the anomalies, each with its smallest counter-example."""
    history = History()
    timeout_ms = OWN_SESSION_TIMEOUT_MS
    bootstrap = addresses(broker.bootstrap)
    options = Options(bootstrap, Security(), seconds, seed, 10, timeout_ms, pause_s)
    chosen = {each: broker.nemeses[each] for each in nemeses}
    asyncio.run(run(options, chosen, history))
    return history, {each.check.name: each.anomalies[0].what for each in analyze(history)}


@pytest.mark.interpreted
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    # A broker that does not fence leaves transactions open, for which the final reads would wait.
    monkeypatch.setattr("kohort.check.run.STABLE_SECONDS", 1.0)
    nemeses = () if fault.nemesis is None else (fault.nemesis,)
    found: dict[str, str] = {}
    with OwnBroker() as broker:
        fault.plant(broker, monkeypatch)
        for number in range(RUNS_MAX):
            found |= check(broker, fault.seconds * 2**number, nemeses, seed=number + 1)[1]
            if fault.anomaly in found:
                return
    raise AssertionError(f"{fault.anomaly} was not found, only {found}")


def test_nothing_is_found_without_a_fault() -> None:
    with OwnBroker() as broker:
        assert check(broker, 1)[1] == {}


@pytest.mark.toolchain
def test_nothing_is_found_in_a_minute_with_all_disturbances() -> None:
    seed = 644  # its first seven disturbances are of all kinds, and one loses Produce responses
    with OwnBroker() as broker:
        history, found = check(broker, 60, broker.nemeses, seed=seed, pause_s=0.02)
        assert found == {}
        disturbances = [each for each in history if isinstance(each, Event) and each.nemesis]
        assert {each.nemesis for each in disturbances} == set(broker.nemeses)
    assert any(
        re.match(r"lost the response to \w+ v\d+ of kohort-check-[a-z]+-\d+\.\d+", each.what)
        for each in disturbances
    ), disturbances
