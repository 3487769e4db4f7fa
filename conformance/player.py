"""Plays scenarios on a broker, concurrently because they wait most of the time."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Final

from .broker import RemoteBroker, ScriptBroker
from .recorder import Diverged, Recorder, ScriptFailed
from .recordings import needs
from .scenario import Scenario
from .script import Script
from .settings import Settings, of_group
from .transcript import Transcript
from .wire import UnsupportedVersion

CONCURRENT_MAX: Final = 12  # so that responses take less than QUIET_MS on two cores
LONG_QUIET_MS: Final = 350  # for scenarios that are played again
SECONDS_MAX: Final = 180.0  # for a scenario; the longest one takes 30 s on Kafka

FAILED: Final = "the script failed"


async def play(
    scenario: Scenario,
    broker: ScriptBroker,
    group: str,
    *,
    configs: Mapping[str, str] | None = None,
    stops_when: Callable[[Recorder], bool] = lambda _script: False,
) -> Transcript:
    """Play a scenario and return the transcript. If the script fails, the last line is the error.
    `configs`: configs of the group. `stops_when`: returns whether to skip the rest of the script.
    Raises UnsupportedVersion, and OSError if a client cannot connect."""
    async with Script(
        broker,
        group,
        keeps_delay=scenario.keeps_delay,
        is_exact=scenario.is_exact,
        has_diverged=stops_when,
    ) as script:

        async def run() -> None:
            if configs:
                await script.prepare_group(configs)
            await scenario.run(script)

        try:
            await _run(script, run())
        finally:
            if scenario.is_authorized:
                await _run(script, script.delete_acls())
    return script.transcript


async def _run(script: Script, part: Awaitable[None]) -> None:
    """Run a part of a script. If it fails, add the error to the transcript. Raises
    UnsupportedVersion."""
    try:
        async with asyncio.timeout(SECONDS_MAX):
            await part
    except Diverged:
        pass  # the transcript ends with the difference
    except UnsupportedVersion:
        raise
    except Exception as error:  # any error that an unexpected response causes
        text = str(error) if isinstance(error, ScriptFailed) else f"{type(error).__name__}: {error}"
        script.transcript.append({"step": FAILED, "response": text})


class Player:
    """Plays scenarios on one broker, each with its own groups and topics. `settings`: the broker's
    settings; `run`: part of the names of groups; `restore`: undoes the changes of a scenario that
    is played alone; `limit`: limits the number of concurrent scenarios; several players can share
    it."""

    def __init__(
        self,
        broker: RemoteBroker,
        settings: Settings,
        *,
        run: str = "",
        restore: Callable[[], Awaitable[object]] | None = None,
        limit: asyncio.Semaphore | None = None,
    ) -> None:
        self._broker, self._settings, self._run = broker, settings, run
        self._restore = restore
        self._runs = 0
        self._limit = limit or asyncio.Semaphore(CONCURRENT_MAX)

    async def play(
        self,
        scenarios: Collection[Scenario],
        *,
        quiet_ms: int,
        on_played: Callable[[Scenario], None] = lambda _scenario: None,
        stops_when: Callable[[Scenario, Recorder], bool] = lambda _scenario, _script: False,
    ) -> dict[str, Transcript | UnsupportedVersion]:
        """Play scenarios. Return, by name, each transcript, or the request that the broker does not
        support."""
        self._runs += 1
        self._broker.quiet_ms = quiet_ms
        # ACLs apply to the whole cluster.
        alone = asyncio.Lock()

        async def play_one(scenario: Scenario) -> Transcript | UnsupportedVersion:
            shared = contextlib.nullcontext()
            async with alone if scenario.is_authorized else shared, self._limit:
                group = f"{scenario.name}.{self._run}{self._runs}"
                try:
                    configs = of_group(scenario.settings, needs(scenario), self._settings)
                    return await play(
                        scenario,
                        self._broker,
                        group,
                        configs=configs,
                        stops_when=partial(stops_when, scenario),
                    )
                except UnsupportedVersion as unsupported:
                    return unsupported
                finally:
                    on_played(scenario)

        concurrent = [each for each in scenarios if not each.is_alone]
        try:
            async with asyncio.TaskGroup() as group:  # an error ends all scenarios
                tasks = {each.name: group.create_task(play_one(each)) for each in concurrent}
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        found = {name: task.result() for name, task in tasks.items()}
        for scenario in scenarios:
            if scenario.is_alone:
                found[scenario.name] = await play_one(scenario)
                if self._restore is not None:
                    await self._restore()
        return found
