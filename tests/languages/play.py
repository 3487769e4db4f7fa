"""Plays all stories with a client. The stories of one client run concurrently.

    PYTHONPATH=tests python -m languages.play [--broker kafka] [--record] [CLIENT [STORY …]]

CLIENT: a part of the names in clients.py. Prints the outcomes; --record writes them to
results.json, from which docs/compatibility.md is generated.
"""

import argparse
import contextlib
import json
import platform
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import kohort
from support.java import fetched_jars

from .brokers import Cluster, kafka_process, kohort_in_process
from .clients import CLIENTS, Client, Missing
from .driver import Driver, Unsupported
from .stories import STORIES, Stage

RESULTS = Path(__file__).with_name("results.json")
TOOLCHAINS = (
    ("Java", "java", "--version"),
    ("Go", "go", "version"),
    ("Node", "node", "--version"),
    ("Rust", "rustc", "--version"),
    ("GCC", "cc", "--version"),
)
# Stories wait for heartbeats and sessions most of the time.
AT_ONCE = 6

WORKS = "works"
UNSUPPORTED = "not supported: "
DIFFERS = "differs: "
FAILED = "failed: "


def play(client: Client, cluster: Cluster, names: Iterable[str] = STORIES) -> dict[str, str]:
    """Return the outcome of each story: WORKS, or UNSUPPORTED, DIFFERS or FAILED with the reason.
    Raises Missing."""
    command = client.command()

    def outcome(name: str) -> str:
        known = client.differs.get(name)
        stage = Stage(driver, lambda: Driver(command), cluster, differs=known is not None)
        try:
            STORIES[name](stage)
        except Unsupported as reason:
            return f"{UNSUPPORTED}{reason}"
        except Exception:
            failure = traceback.format_exc()
            if known is not None and known.failure in failure:
                return f"{DIFFERS}{known.what}"
            return f"{FAILED}{failure}"
        finally:
            stage.close()
        return f"{FAILED}it works: clients.py says otherwise" if known else WORKS

    names = list(names)
    with contextlib.closing(Driver(command)) as driver, ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(names, pool.map(outcome, names), strict=True))


@contextlib.contextmanager
def broker(name: str, folder: Path) -> Iterator[Cluster]:
    """`kohort` in this process, or `kafka` in a separate process."""
    if name == "kohort":
        with kohort_in_process() as cluster:
            yield cluster
        return
    jars = fetched_jars(Path(__file__).parents[1] / "kafka" / "pom.xml", "kafka")
    with kafka_process(jars, folder) as cluster:
        yield cluster


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--broker", choices=("kohort", "kafka"), default="kohort")
    parser.add_argument("client", nargs="?", default="")
    parser.add_argument("story", nargs="*", default=list(STORIES))
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    played: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as folder, broker(given.broker, Path(folder)) as cluster:
        for client in CLIENTS:
            if given.client not in client.name:
                continue
            print(client.name, flush=True)
            try:
                outcomes = play(client, cluster, given.story)
            except Missing as missing:
                print(f"  skipped: {missing}")
                continue
            played[client.name] = outcomes
            for name, outcome in outcomes.items():
                print(f"  {name}: {outcome}")
    is_failed = any(text.startswith(FAILED) for each in played.values() for text in each.values())
    if given.record and not is_failed:
        record(played)
    return int(is_failed)


def recorded(file: Path = RESULTS) -> dict[str, dict[str, str]]:
    """Client -> story -> outcome, as recorded."""
    found = json.loads(file.read_text(encoding="utf-8"))["clients"]
    return {each["name"]: each["outcomes"] for each in found}


def versions() -> list[str]:
    """The versions of kohort and of the toolchains."""
    found = [f"kohort {kohort.__version__}", f"Python {platform.python_version()}"]
    for name, *command in TOOLCHAINS:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found.append(f"{name} {re.findall(r'[0-9]+[.][0-9.]+', output)[0]}")
    return found


def record(played: Mapping[str, dict[str, str]]) -> None:
    """Write the outcomes, and keep those of clients that were not played."""
    known = {**(recorded() if RESULTS.exists() else {}), **played}
    results = {
        "date": date.today().isoformat(),
        "versions": versions(),
        "stories": {name: (each.__doc__ or "").strip() for name, each in STORIES.items()},
        "clients": [
            {"language": each.language, "name": each.name, "outcomes": known[each.name]}
            for each in CLIENTS
            if each.name in known
        ],
    }
    text = json.dumps(results, indent=1, ensure_ascii=False)
    RESULTS.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
