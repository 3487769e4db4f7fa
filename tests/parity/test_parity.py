"""Scenarios on a running Kafka, compared with the recorded transcripts, which test_scenarios.py
compares with kohort: the first one of each file; in `make parity` all of them, or those of FILES.
`make parity RECORD=1` records Kafka's responses.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from pathlib import Path

import pytest
from kohort.conformance.broker import QUIET_MS, STARTED_MS
from kohort.conformance.player import CONCURRENT_MAX, LONG_QUIET_MS, Player, play
from kohort.conformance.recordings import FOLDER, KAFKA_VERSION, difference, recorded
from kohort.conformance.scenario import Scenario, load
from kohort.conformance.settings import (
    AUTHORIZER,
    DEFAULTS,
    GROUP_LEVEL,
    INITIAL_DELAY,
    SETTINGS,
    Settings,
)
from kohort.conformance.transcript import Transcript

from .brokers import kafka_broker, kohort_broker

YEAR_MS = 365 * 24 * 3600 * 1000
AUTHORIZING = (AUTHORIZER, "super.users", "allow.everyone.if.no.acl.found")
# Another value for each setting that was at Kafka's default when scenarios were recorded.
OTHER = {
    INITIAL_DELAY: "0",
    "auto.create.topics.enable": "false",
    "group.max.session.timeout.ms": "300000",
}


def chosen() -> list[Scenario]:
    """A sample is enough for a change: Kafka's version is pinned, and scripts rarely change."""
    scenarios = list(load().values())
    files = os.environ.get("KOHORT_PARITY_SCENARIOS", "").split()
    if files == ["all"]:
        return scenarios
    if files:
        return [each for each in scenarios if each.part in files]
    return list({each.part: each for each in reversed(scenarios)}.values())


@contextlib.asynccontextmanager
async def kafkas(
    jars: Path, folder: Path, scenarios: Collection[Scenario]
) -> AsyncIterator[Callable[[Collection[Scenario], int], Awaitable[dict[str, Transcript]]]]:
    """Start a Kafka for each of the SETTINGS that the scenarios need, and yield a function that
    plays scenarios on them."""
    players: dict[str, Player] = {}

    async def play_on_kafka(chosen: Collection[Scenario], quiet_ms: int) -> dict[str, Transcript]:
        played = await asyncio.gather(
            *(
                player.play([each for each in chosen if each.settings == name], quiet_ms=quiet_ms)
                for name, player in players.items()
            )
        )
        return {name: each for found in played for name, each in found.items()}

    async with contextlib.AsyncExitStack() as stack:
        limit = asyncio.Semaphore(CONCURRENT_MAX)
        for name in dict.fromkeys(each.settings for each in scenarios):
            starting = kafka_broker(jars, folder / name, SETTINGS[name])
            broker = await stack.enter_async_context(starting)
            players[name] = Player(broker, SETTINGS[name], limit=limit)
        yield play_on_kafka


@pytest.mark.java
@pytest.mark.parity
@pytest.mark.slow
async def test_transcripts_are_those_of_a_running_kafka(kafka_jars: Path, tmp_path: Path) -> None:
    scenarios = chosen()
    if os.environ.get("KOHORT_PARITY_RECORD") == "1":
        async with kafkas(kafka_jars, tmp_path, scenarios) as play_on_kafka:
            # The first responses of a JVM take longer than later ones.
            await play_on_kafka(scenarios, LONG_QUIET_MS)
            found = await play_on_kafka(scenarios, LONG_QUIET_MS)
        needed = {each.name: await needed_settings(each, found[each.name]) for each in scenarios}
        record(scenarios, found, needed)
        return
    async with kafkas(kafka_jars, tmp_path, scenarios) as play_on_kafka:
        found = await play_on_kafka(scenarios, QUIET_MS)
        # Scenarios for which a JVM was too slow at first are played again.
        differing = [each for each in scenarios if differs(each, found[each.name])]
        found |= await play_on_kafka(differing, LONG_QUIET_MS)
    differences = {
        each.name: text for each in differing if (text := differs(each, found[each.name]))
    }
    assert not differences, "".join(f"\n{name}:{text}" for name, text in differences.items())


def differs(scenario: Scenario, found: Transcript) -> str | None:
    transcript = recorded(scenario)
    assert transcript is not None, "not recorded yet: make parity RECORD=1"
    return difference(scenario, transcript, found, "this Kafka")


# --- recording


def record(
    scenarios: Iterable[Scenario],
    transcripts: Mapping[str, Transcript],
    needed: Mapping[str, Collection[str]],
) -> None:
    """Replace the files of the scenarios' modules; recordings of other scenarios in these files are
    lost. `needed`: the settings that each transcript depends on, by the scenario's name."""
    parts: dict[str, list[Scenario]] = {}
    for scenario in scenarios:
        parts.setdefault(scenario.part, []).append(scenario)
    for part, members in parts.items():
        head = {
            "kafka": KAFKA_VERSION,
            "recorded": "make parity RECORD=1: one node in KRaft mode, over the wire",
            "settings": {each.settings: SETTINGS[each.settings] for each in members},
        }
        text = json.dumps(head, indent=2, sort_keys=True).removesuffix("\n}")
        lists = ",\n".join(
            f"    {json.dumps(each.name)}: {json.dumps(sorted(needed[each.name]))}"
            for each in members
        )
        lines = ",\n".join(
            f"    {json.dumps(each.name)}: [\n"
            + ",\n".join(f"      {json.dumps(line)}" for line in transcripts[each.name])
            + "\n    ]"
            for each in members
        )
        (FOLDER / f"{part}.json").write_text(
            f'{text},\n  "needs": {{\n{lists}\n  }},\n  "transcripts": {{\n{lines}\n  }}\n}}\n',
            encoding="utf-8",
        )


async def needed_settings(scenario: Scenario, kafka: Transcript) -> list[str]:
    """Return the keys of the settings on which the transcript depends: the scenario is played on
    kohort with another value of each setting, mostly Kafka's default."""
    settings = SETTINGS[scenario.settings]
    # Without them, there is no authorizer, or the control connection may do nothing.
    needed = [key for key in settings if key in AUTHORIZING]
    others = {key: variant(key, value) for key, value in settings.items() if key not in needed}
    current: dict[str, str | None] = dict(settings)
    if await _is_equal(scenario, kafka, {**settings, **others}):
        return needed
    for key, value in others.items():
        changed = {**current, key: value}
        of_group = {GROUP_LEVEL[key]: settings[key]} if key in GROUP_LEVEL else {}
        if await _is_equal(scenario, kafka, changed):
            current = changed
        elif of_group and await _is_equal(scenario, kafka, changed, of_group):
            needed += of_group
        else:
            needed.append(key)
    return needed


def variant(key: str, recorded: str) -> str | None:
    """Return another value of a setting, with which a scenario is also played."""
    default = DEFAULTS[key]
    return OTHER[key] if recorded == default else default


async def _is_equal(
    scenario: Scenario,
    kafka: Transcript,
    settings: Settings,
    of_group: Mapping[str, str] | None = None,
) -> bool:
    # Records with the times of scripts are old, as on any other broker.
    async with kohort_broker(settings, now_ms=STARTED_MS + YEAR_MS) as broker:
        broker.initial_delay_ms = int(settings[INITIAL_DELAY] or 0)
        transcript = await play(scenario, broker, scenario.name, configs=of_group)
    return difference(scenario, kafka, transcript, "kohort") is None
