"""`make conformance`: play all scenarios on Kafka, kohort, kfake and librdkafka's mock cluster, and
write the tables of docs/conformance.md.

Kafka and kohort are started once with each of the settings that scenarios were recorded with, and
once with the defaults. kfake and the mock cluster have few settings, and are started once.
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import confluent_kafka
import kohort
from kohort.conformance.broker import RemoteBroker
from kohort.conformance.conformance import Outcome, Result, compare
from kohort.conformance.recordings import KAFKA_VERSION
from kohort.conformance.report import count_by_area
from kohort.conformance.scenario import load
from kohort.conformance.settings import AUTHORIZER, INITIAL_DELAY, SETTINGS, properties
from support.java import fetched_jars
from support.kafka_process import free_ports
from support.running_broker import start_broker

from .brokers import kafka_broker, prepared

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "conformance.md"
RESULTS = ROOT / "build" / "conformance"  # of each subject; the tables need all
KFAKE = ROOT / "benchmarks" / "kfake"
DEFAULT = "default settings"
JOIN_GROUP, CONSUMER_GROUP_HEARTBEAT = 11, 68
# What it does, but does not report: it has no initial delay, and assigns partitions at once.
KFAKE_SETTINGS = {
    INITIAL_DELAY: "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
    "group.min.session.timeout.ms": "500",
    "group.max.session.timeout.ms": "1800000",
}

Running = Callable[[str, Path], "contextlib.AbstractAsyncContextManager[RemoteBroker]"]


@dataclass(frozen=True)
class Subject:
    """`running(name, folder)` starts a broker with SETTINGS[name], or with DEFAULT ones."""

    title: str
    running: Running
    runs: Sequence[str] = (*SETTINGS, DEFAULT)
    assumed: Mapping[str, str] | None = None


@contextlib.asynccontextmanager
async def kafka(name: str, folder: Path) -> AsyncIterator[RemoteBroker]:
    jars = fetched_jars(ROOT / "tests" / "kafka" / "pom.xml", "kafka")
    async with kafka_broker(jars, folder / "kafka", SETTINGS.get(name, {})) as broker:
        yield broker


@contextlib.asynccontextmanager
async def kohort_serve(name: str, folder: Path) -> AsyncIterator[RemoteBroker]:
    port, sasl_port = free_ports(2)
    text = properties(name) if name in SETTINGS else ""
    is_authorized = AUTHORIZER in SETTINGS.get(name, {})
    config = folder / "server.properties"
    config.write_text(text.replace(":9092", f":{port}").replace(":9093", f":{sasl_port}"))
    where = ("--data-dir", folder / "data", "--durability", "none", "--config", config)
    listener = () if is_authorized else ("--port", str(port))
    with start_broker(folder, *where, *listener):
        users = ("127.0.0.1", sasl_port) if is_authorized else None
        yield await prepared(RemoteBroker("127.0.0.1", port, users=users))


@contextlib.asynccontextmanager
async def kfake(_name: str, folder: Path) -> AsyncIterator[RemoteBroker]:
    binary = folder / "kfake"
    subprocess.run(["go", "build", "-C", KFAKE, "-o", binary, "."], check=True)
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen([binary], stdout=subprocess.PIPE, text=True, cwd=folder)
        )
        stack.callback(process.kill)
        assert process.stdout is not None
        port = process.stdout.readline().rpartition(":")[2]
        yield await prepared(RemoteBroker("127.0.0.1", int(port)))


@contextlib.asynccontextmanager
async def mock_cluster(_name: str, _folder: Path) -> AsyncIterator[RemoteBroker]:
    settings = {"bootstrap.servers": "127.0.0.1:1", "test.mock.num.brokers": 1, "log_level": 0}
    producer = confluent_kafka.Producer(settings)  # the cluster ends with it
    (node,) = producer.list_topics(timeout=10).brokers.values()
    # Some of these requests fail an assertion of the mock cluster, which ends this process, and
    # JoinGroup v6, the newest version that it lists, closes the connection.
    without = (JOIN_GROUP, CONSUMER_GROUP_HEARTBEAT)
    yield await prepared(RemoteBroker(node.host, node.port), without)


SUBJECTS = {
    "kafka": Subject(f"Apache Kafka {KAFKA_VERSION}", kafka),
    "kohort": Subject(f"kohort {kohort.__version__}", kohort_serve),
    "kfake": Subject("kfake", kfake, (DEFAULT,), KFAKE_SETTINGS),
    "mock": Subject(
        f"librdkafka {confluent_kafka.libversion()[0]} mock",
        mock_cluster,
        (DEFAULT,),
        {**KFAKE_SETTINGS, INITIAL_DELAY: "3000"},
    ),
}


async def play(subject: Subject) -> dict[str, list[Result]]:
    """Return the results of each run."""
    found = {}
    for name in subject.runs:
        began = time.monotonic()
        with TemporaryDirectory() as folder:
            async with subject.running(name, Path(folder)) as broker:
                found[name] = await compare(
                    broker,
                    [each for each in load().values() if name in (DEFAULT, each.settings)],
                    "matrix.",
                    unreported=SETTINGS.get(name, {}),
                    assumed=subject.assumed or {},
                )
        counts = Counter(each.outcome.value for each in found[name])
        seconds = time.monotonic() - began
        print(f"{subject.title}, {name}: {dict(counts)} in {seconds:.0f} s", flush=True)
        for result in found[name]:
            if result.outcome is Outcome.DIFFERS:
                print(f"  {result.scenario.part}.{result.scenario.name}: {result.detail}")
    return found


def table(results: Mapping[str, Mapping[str, Sequence[Result]]]) -> str:
    """Return the Markdown table of areas and brokers. `results`: by subject and run."""
    # The results of the run with default settings count for brokers that have no other.
    counted = {
        key: [
            each for name, run in runs.items() if name != DEFAULT or len(runs) == 1 for each in run
        ]
        for key, runs in results.items()
    }
    counts = {key: count_by_area(each) for key, each in counted.items()}
    rows = [["area", *(SUBJECTS[key].title for key in results)], ["---"] * (len(results) + 1)]
    for area in dict.fromkeys(area for each in counts.values() for area in each):
        rows.append([area, *(_cell(each[area]) for each in counts.values())])
    totals = [sum(each.values(), Counter[Outcome]()) for each in counts.values()]
    rows.append(["**all**", *map(_cell, totals)])
    defaults = [
        _cell(Counter(each.outcome for each in runs[DEFAULT])) if DEFAULT in runs else ""
        for runs in results.values()
    ]
    rows.append([f"**all, {DEFAULT}**", *defaults])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(count: Mapping[Outcome, int]) -> str:
    return " / ".join(str(count.get(each, 0)) for each in Outcome)


def differences(results: Mapping[str, Mapping[str, Sequence[Result]]]) -> Iterator[str]:
    """Yield the lines that list the scenarios in which Kafka and kohort differ."""
    for key in ("kafka", "kohort"):
        found = {
            f"{each.scenario.part}.{each.scenario.name}": each.scenario.rule
            for run in results[key].values()
            for each in run
            if each.outcome is Outcome.DIFFERS
        }
        yield f"{SUBJECTS[key].title}: {len(found) or 'no'} scenarios{':' if found else '.'}"
        yield ""
        yield from (f"- `{name}`: {rule}" for name, rule in found.items())
        if found:
            yield ""


def excuses() -> Iterator[str]:
    for each in load().values():
        fields = [name for name in each.hides if name != "error_message"]
        if fields:
            names = ", ".join(f"`{name}`" for name in fields)
            yield f"- {names} in `{each.part}.{each.name}`: {each.excuse}"


def replace_part(page: str, name: str, text: str) -> str:
    before, rest = page.split(f"<!-- {name} -->\n")
    _, after = rest.split(f"<!-- /{name} -->")
    return f"{before}<!-- {name} -->\n{text}\n<!-- /{name} -->{after}"


def save(key: str, runs: Mapping[str, Sequence[Result]]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    found = {
        name: [(each.scenario.name, each.outcome, each.detail) for each in run]
        for name, run in runs.items()
    }
    (RESULTS / f"{key}.json").write_text(json.dumps(found, indent=1))


def saved(key: str) -> dict[str, list[Result]]:
    scenarios = load()
    found = json.loads((RESULTS / f"{key}.json").read_text())
    return {
        name: [Result(scenarios[each], Outcome(outcome), text) for each, outcome, text in run]
        for name, run in found.items()
    }


def write_page() -> None:
    results = {key: saved(key) for key in SUBJECTS}
    date = datetime.now(UTC).date().isoformat()
    page = PAGE.read_text()
    page = replace_part(page, "matrix", f"{table(results)}\n\nPlayed on {date}.")
    page = replace_part(page, "differences", "\n".join(differences(results)).rstrip())
    page = replace_part(page, "excuses", "\n".join(excuses()))
    PAGE.write_text(page)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subjects", nargs="*", default=list(SUBJECTS))
    for key in parser.parse_args().subjects:
        save(key, await play(SUBJECTS[key]))
    if all((RESULTS / f"{key}.json").exists() for key in SUBJECTS):
        write_page()


if __name__ == "__main__":
    asyncio.run(main())
