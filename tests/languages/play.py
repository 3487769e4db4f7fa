"""Plays all stories with a client; those of one client run concurrently.

    PYTHONPATH=tests python -m languages.play [--broker kafka] [CLIENT [STORY]]

CLIENT: a part of the names in clients.py. Prints the outcomes.
"""

import argparse
import contextlib
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.java import fetched_jars

from .brokers import Cluster, kafka_process, kohort_in_process
from .clients import CLIENTS, Client, Missing
from .driver import Differs, Driver, Unsupported
from .stories import STORIES, Stage

# Stories wait for heartbeats and sessions most of the time.
AT_ONCE = 6

WORKS = "works"
UNSUPPORTED = "not supported: "
DIFFERS = "differs: "
FAILED = "failed: "


def play(client: Client, cluster: Cluster, names: Iterable[str] = STORIES) -> dict[str, str]:
    """Return the outcome of each story: WORKS, or UNSUPPORTED, DIFFERS or FAILED with the reason. Raises
    Missing."""
    command = client.command()

    def outcome(name: str) -> str:
        stage = Stage(driver, lambda: Driver(command), cluster)
        try:
            STORIES[name](stage)
        except Unsupported as reason:
            return f"{UNSUPPORTED}{reason}"
        except Differs as how:
            return f"{DIFFERS}{how}"
        except Exception:
            if name in client.differs:
                return f"{DIFFERS}{client.differs[name]}"
            return f"{FAILED}{traceback.format_exc()}"
        finally:
            stage.close()
        return f"{FAILED}it works: clients.py says otherwise" if name in client.differs else WORKS

    names = list(names)
    with contextlib.closing(Driver(command)) as driver, ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(names, pool.map(outcome, names), strict=True))


@contextlib.contextmanager
def broker(name: str, folder: Path) -> Iterator[Cluster]:
    """`kohort` in this process, or `kafka` in one of its own."""
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
    given = parser.parse_args()
    is_failed = False
    with tempfile.TemporaryDirectory() as folder, broker(given.broker, Path(folder)) as cluster:
        for client in CLIENTS:
            if given.client not in client.name:
                continue
            print(client.name)
            try:
                outcomes = play(client, cluster, given.story)
            except Missing as missing:
                print(f"  skipped: {missing}")
                continue
            for name, outcome in outcomes.items():
                print(f"  {name}: {outcome}")
            is_failed |= any(each.startswith(FAILED) for each in outcomes.values())
    return int(is_failed)


if __name__ == "__main__":
    sys.exit(main())
