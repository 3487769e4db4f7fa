"""Effects of another user, a terminal, a full device or a bad disk on a broker that is restarted
with the same data: acknowledged commits are kept, and a corrupted offset is reported."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crash.commits import GroupCommits, check, create_topic, error_of_commit
from kohort.log.batch import split
from support.broker import batch
from support.running_broker import CLEAN_ENVIRONMENT, TIMEOUT_SECONDS, kohort
from support.wire import Client

from .conftest import FULL, Target

COMMITS = 10_000 if FULL else 100
WITHOUT_DELAY = ("--events", "off", "-o", "group.initial.rebalance.delay.ms=0")


@pytest.fixture
def start(attack) -> Callable[..., Target]:
    return lambda **kwargs: attack(*WITHOUT_DELAY, **kwargs)


@pytest.fixture
def commits() -> GroupCommits:
    return GroupCommits("billing")


def acknowledge(target: Target, commits: GroupCommits) -> None:
    """Commit, next to the neighbor, until all commits are acknowledged."""
    create_topic(target.broker)
    with target.client() as client:
        for _ in range(COMMITS):
            client.socket.sendall(commits.encode(client, offset := commits.next_offset(1)))
            assert error_of_commit(client.receive()) == "none"
            commits.acknowledge(offset)


@pytest.mark.parametrize(
    ("closed", "number"),
    [((0,), signal.SIGTERM), ((0, 2), signal.SIGHUP)],
    ids=str,
)
def test_a_broker_stops_cleanly_without_standard_streams(
    start, commits, closed, number: int
) -> None:
    """Descriptors that were closed at the start must not be reused for sockets and files. A
    terminal that is closed later sends SIGHUP."""
    # Under `nohup`, this process ignores SIGHUP, and its children inherit this setting.
    code = "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL);"
    code += f"[os.close(each) for each in {closed}];"
    code += "os.execv(sys.executable, [sys.executable, '-m', 'kohort', *sys.argv[1:]])"
    target = start(kohort=("-c", code))
    acknowledge(target, commits)
    target.stop(number)
    check(start().broker, [[commits]])


def test_a_broker_is_started_again_after_a_start_with_a_full_device(start, commits) -> None:
    target = start()
    acknowledge(target, commits)
    target.stop()
    serve = [sys.executable, "-m", "kohort", "serve", "--port", "0", "--data-dir", target.data]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            serve,
            stdout=full,
            stderr=subprocess.PIPE,
            env=CLEAN_ENVIRONMENT,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
    lines = [line for line in done.stderr.splitlines() if " INFO " not in line]
    problem = "kohort serve: no space left for standard output or data: free some space."
    assert (done.returncode, lines) == (2, [problem])
    check(start().broker, [[commits]])


def test_a_flipped_bit_in_a_base_offset_is_reported(start, commits) -> None:
    """No checksum covers a base offset. Consumers receive the record at the wrong offset."""
    target = start()
    acknowledge(target, commits)
    with target.client() as client:
        for _ in range(3):
            produce(client)
    target.stop()
    segment = target.data / "orders-0" / f"{0:020d}.log"
    content = bytearray(segment.read_bytes())
    *_, (last, _) = split(content)
    content[last + 7] ^= 4  # offset 2 becomes 6
    segment.write_bytes(content)
    verified = kohort("log", "verify", target.data)
    assert verified.returncode == 1
    assert "offsets 2..5 are in no batch" in verified.stdout
    target = start()
    check(target.broker, [[commits]])
    with target.client() as client:
        produce(client)
    assert target.has_logged("offsets 2 to 5 are in no batch, but the log was never compacted")


def produce(client: Client) -> None:
    assert client.produce(batch(b"x"))["error_code"] == "none"


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
@pytest.mark.parametrize("given", [False, True], ids=["new", "given"])
def test_other_users_neither_read_nor_change_the_data(start, commits, tmp_path, given) -> None:
    """Other users may read a parent folder that was created for them in advance."""
    parent = tmp_path / "parent"
    data = parent / "data"
    if given:
        parent.mkdir(0o755)
        data.mkdir(0o755)
    target = start()
    acknowledge(target, commits)
    with target.client() as client:
        produce(client)
    target.stop()
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in (parent, *parent.rglob("*"))}
    assert data / "orders-0" in modes
    assert modes[data] == (0o755 if given else 0o750)
    assert not {path: oct(mode) for path, mode in modes.items() if mode & 0o022}
