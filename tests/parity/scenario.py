"""Scenarios: scripts that run on kohort and on Kafka, and the transcripts recorded from Kafka."""

import asyncio
import contextlib
import importlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from .brokers import KAFKA_VERSION, KafkaBroker, ScriptBroker, kafka_broker, kohort_broker
from .script import Script, ScriptFailed
from .transcript import Transcript, first_difference, hide

# Short sessions, so that their expiration takes little time; few offsets partitions, so that a
# broker is ready soon.
QUICK = {
    "group.min.session.timeout.ms": "500",
    "group.max.session.timeout.ms": "1800000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
}
CONFIGS = {
    **QUICK,
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.regex.refresh.interval.ms": "10000",
}
# Target assignments are computed at once, in the thread that handles the request.
CONSUMER = {**CONFIGS, "group.consumer.assignor.offload.enable": "false"}
DELAYED = {**CONSUMER, "group.initial.rebalance.delay.ms": "3000", "group.max.size": "2"}
# The client of the scripts that is not one of USERS may do everything.
AUTHORIZED = {
    **CONSUMER,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
    "auto.create.topics.enable": "true",
}
# One offsets partition, so that its number does not depend on the name of a group. Kafka looks for
# transactions that have timed out as often as time passes in scripts. Records of scripts are years
# older than Kafka's markers, which must not begin a new segment.
TRANSACTIONS = {
    **CONSUMER,
    "log.retention.ms": "-1",
    "log.roll.ms": "1000000000000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.max.timeout.ms": "60000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
}
MIGRATION = "group.consumer.migration.policy"
SETTINGS = {
    "quick": QUICK,
    "delayed": DELAYED,
    "configs": CONFIGS,
    "consumer": CONSUMER,
    "upgrade": {**CONSUMER, MIGRATION: "upgrade", "group.consumer.max.size": "2"},
    "downgrade": {**CONSUMER, MIGRATION: "downgrade", "group.max.size": "2"},
    "disabled": {**CONSUMER, MIGRATION: "disabled"},
    "transactions": TRANSACTIONS,
    "acls": AUTHORIZED,
    "open": {**AUTHORIZED, "allow.everyone.if.no.acl.found": "true"},
}

FOLDER = Path(__file__).parent
CONCURRENT_MAX = 12  # so that responses take less than `quiet_ms` on two cores
QUIET_MS, LONG_QUIET_MS = 150, 350


@dataclass(frozen=True)
class Scenario:
    name: str
    rule: str
    """The rule of Kafka that it shows."""
    run: Callable[[Script], Awaitable[None]]
    part: str
    """The name of its test module and of its file of recorded transcripts."""
    settings: str = "quick"
    excuse: str | None = None
    """Why kohort differs on purpose, in the fields of responses that `hides` lists."""
    hides: tuple[str, ...] = ()
    is_alone: bool = False
    """Whether Kafka's responses depend on concurrent requests of others: it verifies the partitions
    of several transactions together, and then returns the errors of one client's version to all."""

    @property
    def is_authorized(self) -> bool:
        return "authorizer.class.name" in SETTINGS[self.settings]


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    rule: str, **options: Any
) -> Callable[[Callable[[Script], Awaitable[None]]], Callable[[], Awaitable[None]]]:
    """Turn a script into a test that compares kohort with Kafka's recorded transcript. `options`:
    `settings`, `excuse`, `hides`, `is_alone`."""

    def register(run: Callable[[Script], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        name = run.__name__.removeprefix("test_")
        assert name not in SCENARIOS, f"two scenarios are named {name}"
        part = run.__module__.rpartition(".test_")[2]
        found = SCENARIOS[name] = Scenario(name, rule, run, part, **options)

        async def test() -> None:
            kafka = recorded(found)
            assert kafka is not None, "not recorded yet: make parity RECORD=1"
            differs = difference(found, kafka, await run_on_kohort(found))
            assert differs is None, f"{rule}{differs}"

        return test

    return register


transactional = partial(scenario, settings="transactions")


def load() -> Mapping[str, Scenario]:
    """Return the scenarios of all test modules in this folder."""
    for file in sorted(FOLDER.glob("test_*.py")):
        importlib.import_module(f"{__package__}.{file.stem}")
    return SCENARIOS


async def run(scenario: Scenario, broker: ScriptBroker, group: str) -> Transcript:
    """Return the transcript; if the script fails, its last line is the error."""
    async with Script(broker, group) as script:
        try:
            await scenario.run(script)
        except ScriptFailed as failure:
            script.transcript.append({"step": "the script failed", "answer": str(failure)})
        if scenario.is_authorized:
            await script.delete_acls()
    return script.transcript


async def run_on_kohort(scenario: Scenario) -> Transcript:
    async with kohort_broker(SETTINGS[scenario.settings]) as broker:
        return await run(scenario, broker, scenario.name)


class Kafkas:
    """A real Kafka for each of SETTINGS."""

    def __init__(self, brokers: Mapping[str, KafkaBroker]) -> None:
        self._brokers = brokers
        self._runs = 0

    async def run(
        self, scenarios: Collection[Scenario], quiet_ms: int = QUIET_MS
    ) -> dict[str, Transcript]:
        """Run scenarios concurrently, each with its own groups; return transcripts by name."""
        self._runs += 1
        limit = asyncio.Semaphore(CONCURRENT_MAX)
        # ACLs are those of the whole cluster.
        alone = defaultdict[str, asyncio.Lock](asyncio.Lock)

        async def run_one(scenario: Scenario) -> Transcript:
            shared = contextlib.nullcontext()
            async with alone[scenario.settings] if scenario.is_authorized else shared, limit:
                broker = self._brokers[scenario.settings]
                return await run(scenario, broker, f"{scenario.name}.{self._runs}")

        for broker in self._brokers.values():
            broker.quiet_ms = quiet_ms
        concurrent = [scenario for scenario in scenarios if not scenario.is_alone]
        transcripts = await asyncio.gather(*map(run_one, concurrent))
        found = {s.name: t for s, t in zip(concurrent, transcripts, strict=True)}
        for scenario in scenarios:
            if scenario.is_alone:
                found[scenario.name] = await run_one(scenario)
        return found


@contextlib.asynccontextmanager
async def kafkas(jars: Path, folder: Path, warm_up: Collection[Scenario]) -> AsyncIterator[Kafkas]:
    """Start them and run `warm_up`: the first responses of a JVM take longer than `quiet_ms`."""
    async with contextlib.AsyncExitStack() as stack:
        brokers: dict[str, KafkaBroker] = {}
        for name, settings in SETTINGS.items():
            ports = await stack.enter_async_context(kafka_broker(jars, folder / name, settings))
            brokers[name] = KafkaBroker(*ports, QUIET_MS)
            await brokers[name].prepare()
        running = Kafkas(brokers)
        await running.run(warm_up)
        yield running


def difference(scenario: Scenario, kafka: Transcript, kohort: Transcript) -> str | None:
    """The first difference, outside the hidden fields."""
    return first_difference(hide(kafka, scenario.hides), hide(kohort, scenario.hides))


# --- recorded transcripts


def recorded(scenario: Scenario) -> Transcript | None:
    transcripts: dict[str, Transcript] = _file(scenario.part).get("transcripts", {})
    return transcripts.get(scenario.name)


@cache
def _file(part: str) -> dict[str, Any]:
    path = FOLDER / "vectors" / f"{part}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def record(transcripts: Mapping[str, Transcript]) -> None:
    """Replace all recorded transcripts."""
    for part in {scenario.part for scenario in SCENARIOS.values()}:
        names = [name for name, scenario in SCENARIOS.items() if scenario.part == part]
        lines = ",\n".join(
            f"    {json.dumps(name)}: [\n"
            + ",\n".join(f"      {json.dumps(line)}" for line in transcripts[name])
            + "\n    ]"
            for name in names
        )
        used = {SCENARIOS[name].settings for name in names}
        head = {
            "kafka": KAFKA_VERSION,
            "recorded": "make parity RECORD=1: one node in KRaft mode, over the wire",
            "settings": {key: SETTINGS[key] for key in used},
        }
        text = json.dumps(head, indent=2, sort_keys=True).removesuffix("\n}")
        path = FOLDER / "vectors" / f"{part}.json"
        path.write_text(f'{text},\n  "transcripts": {{\n{lines}\n  }}\n}}\n')
