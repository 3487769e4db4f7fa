"""A broker that compacts and writes snapshots all the time is killed with SIGKILL in the middle of
it, while ten connections commit as fast as they can.

Each death comes as soon as a file shows up that only the middle of a compaction, or of a snapshot,
has. What was acknowledged is there afterwards, nothing is there that was not sent, the folder is
sound, and no larger than what is live and not yet compacted.
"""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from crash.committing import Promises, check, commit_and_kill, connected, make_topic, size_of
from crash.compacting_broker import OPTIONS
from processes import PATIENCE_SECONDS, Served, kohort, overrides, serving

BROKER = Path(__file__).with_name("compacting_broker.py")
CONNECTIONS = 10
GROUPS_OF_A_CONNECTION = 3
TEXT_SIZE = 2_000
# Of the steps that a compaction has, and a snapshot; the last is there between two renames alone.
SIGNS_OF_WORK = (".cleaned", ".new.derived", ".deleted", ".swap")
PARTITION_BYTES_MAX = 4 * 1024 * 1024

pytestmark = pytest.mark.crash


def dies_at(broker: Served, data: Path, sign: str, first: int) -> Callable[[], None]:
    """Kills it as soon as a file with this suffix is there, once its logs have reached `first`."""

    def wait() -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        try:
            while time.monotonic() < deadline:
                names = [each.name for each in data.glob("__consumer_offsets-*/*")]
                if max(map(base_offset, names), default=0) > first and any(
                    name.endswith(sign) for name in names
                ):
                    return
        finally:
            broker.process.kill()
        raise AssertionError(f"no file *{sign} was seen")

    return wait


def base_offset(name: str) -> int:
    return int(name[:20]) if name[:20].isdigit() else 0


def newest_segment(data: Path) -> int:
    names = [each.name for each in data.glob("__consumer_offsets-*/*.log")]
    return max(map(base_offset, names), default=0)


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_what_was_acknowledged_outlives_kills_in_the_middle_of_compactions(
    durability: str, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    promises = [
        [Promises(f"group-{number}-{place}", TEXT_SIZE) for place in range(GROUPS_OF_A_CONNECTION)]
        for number in range(CONNECTIONS)
    ]

    def start() -> contextlib.AbstractContextManager[Served]:
        where = ("--port", "0", "--data-dir", data, "--durability", durability)
        return serving(tmp_path, *where, *overrides(OPTIONS), kohort=[str(BROKER)])

    for sign in SIGNS_OF_WORK:
        with start() as broker:
            if not data.joinpath("__consumer_offsets-0").exists():
                with connected(broker) as connection:
                    make_topic(connection)
            check(broker, promises)
            until = dies_at(broker, data, sign, newest_segment(data))
            commit_and_kill(broker, promises, lambda: None, until)
    with start() as broker:
        check(broker, promises)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (size := size_of(data)) > 2 * PARTITION_BYTES_MAX:
            assert time.monotonic() < deadline, f"{size} bytes are left"
            time.sleep(0.05)
        assert broker.stop() == 0
        assert "Traceback" not in broker.errors.read_text()
    verified = kohort("log", "verify", data)
    assert verified.returncode == 0, verified.stdout
    assert all(promise.kept for own in promises for promise in own)
