"""Playing scenarios and comparing what came of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping
from pathlib import Path

from .kafka_broker import kafka_broker
from .peers import Kafka, Peer, ours, prepare
from .registry import SETTINGS, Scenario
from .script import Script, ScriptFailed
from .transcript import first_difference, without
from .vectors import Transcript

AT_ONCE_MAX = 12  # so that answers come well within the quiet while on two cores
QUIET_MS, QUIET_LONGER_MS = 150, 350


async def play(scenario: Scenario, peer: Peer, group: str) -> Transcript:
    """The transcript; a script that cannot go on says so in its last line."""
    async with Script(peer, group) as script:
        try:
            await scenario.play(script)
        except ScriptFailed as failure:
            script.transcript.append({"step": "the script cannot go on", "answer": str(failure)})
    return script.transcript


async def play_on_ours(scenario: Scenario) -> Transcript:
    """Each scenario has a broker of its own."""
    async with ours(SETTINGS[scenario.settings]) as peer:
        return await play(scenario, peer, scenario.name)


class Kafkas:
    """One real Kafka for each set of settings."""

    def __init__(self, peers: Mapping[str, Kafka]) -> None:
        self._peers = peers
        self._times = 0

    async def play(
        self, scenarios: Collection[Scenario], quiet_ms: int = QUIET_MS
    ) -> dict[str, Transcript]:
        """Transcripts by name; many scripts side by side, each with groups of its own."""
        self._times += 1
        turn = asyncio.Semaphore(AT_ONCE_MAX)

        async def one(scenario: Scenario) -> Transcript:
            async with turn:
                peer = self._peers[scenario.settings]
                return await play(scenario, peer, f"{scenario.name}.{self._times}")

        for peer in self._peers.values():
            peer.quiet_ms = quiet_ms
        transcripts = await asyncio.gather(*map(one, scenarios))
        return {s.name: t for s, t in zip(scenarios, transcripts, strict=True)}


@contextlib.asynccontextmanager
async def kafkas(jars: Path, folder: Path, warm_up: Collection[Scenario]) -> AsyncIterator[Kafkas]:
    """Started, and after `warm_up`: the first answers of a JVM take longer than the quiet."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(name: str) -> Kafka:
            broker = kafka_broker(jars, folder / name, SETTINGS[name])
            peer = Kafka(await stack.enter_async_context(broker), QUIET_MS)
            await prepare(peer)
            return peer

        kafka = Kafkas({name: await start(name) for name in SETTINGS})
        await kafka.play(warm_up)
        yield kafka


def difference(scenario: Scenario, theirs: Transcript, mine: Transcript) -> str | None:
    """What is wrong, for a person to read; fields that are excused are not looked at."""
    if scenario.hides:
        theirs, mine = (
            [without(line, scenario.hides) for line in transcript] for transcript in (theirs, mine)
        )
    return first_difference(theirs, mine)
