"""Hypothesis profiles, marks of folders, Kafka's command line tools, and tests that need Java."""

import gc
import json
import os
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from support.java import fetched_jars, java

# `fast` draws the same few examples in every run; `unshrunk` does not shrink failures; `deep` draws
# many examples. There is no deadline, because machines may be busy and no test measures time.
settings.register_profile(
    "fast",
    max_examples=50,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "unshrunk", settings.get_profile("fast"), phases=[Phase.explicit, Phase.generate]
)
settings.register_profile("deep", max_examples=5_000, deadline=None)
settings.load_profile(os.environ.get("KOHORT_HYPOTHESIS_PROFILE", "fast"))

# With KAFKA_KOHORT_REQUEST_CACHE=false, brokers in this process also run without the request cache.
# (Brokers in other processes read the variable themselves.)
if cache := os.environ.get("KAFKA_KOHORT_REQUEST_CACHE"):
    from kohort.broker.config.keys import BROKER_KEYS

    key = BROKER_KEYS["kohort.request.cache"]
    object.__setattr__(key, "default", key.parse(cache))

# A background job of a script ignores SIGINT, and so would the processes it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The objects that pytest creates for thousands of tests live until the end, so the garbage
# collector need not examine them.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


NEEDS = {
    "java": ("needs Kafka's own tools: a Java runtime and Maven", ("java", "mvn")),
    "spark": ("needs a Java runtime, 17 or newer", ("java",)),
}
"""Marker -> the reason to skip, and the required programs."""

# kafka-python leaves a socket open if a client is closed while it connects.
UNCLOSED_SOCKET, UNCLOSED_TLS_SOCKET = (
    pytest.mark.filterwarnings(f"ignore:unclosed <{kind}:ResourceWarning")
    for kind in ("socket", "ssl")
)
MARKS = {
    "tests/clients/": (pytest.mark.clients, UNCLOSED_SOCKET, UNCLOSED_TLS_SOCKET),
    "tests/cli/groups/": (UNCLOSED_SOCKET,),
    # Most attacks take seconds, and each starts a broker and a well-behaved neighbor.
    "tests/hostile/": (pytest.mark.slow,),
    "tests/kafka_tools/": (pytest.mark.java,),
}
"""Folder -> the marks of all its tests."""

# Tests wait for clients, processes and sessions half of the time.
WORKERS_PER_CORE = 2


def pytest_xdist_auto_num_workers() -> int:
    """The number of workers of `-n auto`."""
    return WORKERS_PER_CORE * (os.cpu_count() or 1)


def pytest_itemcollected(item: pytest.Item) -> None:
    for folder, marks in MARKS.items():
        if item.nodeid.startswith(folder):
            for mark in marks:
                item.add_marker(mark)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow tests first: each worker gets some at the beginning of its share, so that no worker
    ends with a slow test."""
    slow: dict[Path, list[pytest.Item]] = {}
    others = []
    for item in items:
        if item.get_closest_marker("slow") is None:
            others.append(item)
        else:
            slow.setdefault(item.path, []).append(item)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    # The modules stay together, because their fixtures are slow too.
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for number, module in enumerate(sorted(slow.values(), key=_takes_minutes, reverse=True)):
        shares[number % workers] += module
    # worksteal divides the tests into as many contiguous parts.
    left, unfilled = len(items), workers
    items.clear()
    for share in shares:
        size = left // unfilled
        share += others[: (rest := max(size - len(share), 0))]
        del others[:rest]
        items += share
        left, unfilled = left - size, unfilled - 1
    items += others


def _takes_minutes(module: list[pytest.Item]) -> bool:
    """Whether the module's slow tests need a Kafka process or another language's tools."""
    return any(item.get_closest_marker(mark) for item in module for mark in ("parity", "toolchain"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests whose programs are missing; in CI they fail instead."""
    for marker, (says, programs) in NEEDS.items():
        if item.get_closest_marker(marker) is None or all(map(shutil.which, programs)):
            continue
        if os.environ.get("CI") == "true":
            pytest.fail(f"{says}, and CI must not skip it", pytrace=False)
        pytest.skip(says)


KAFKA_FOLDER = Path(__file__).parent / "kafka_folder" / "kafka-4.3.tar.gz"


@pytest.fixture
def kafka_data(tmp_path: Path) -> Path:
    """A copy of the data folder that was recorded from Kafka 4.3."""
    with tarfile.open(KAFKA_FOLDER) as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path / "data"


@pytest.fixture(scope="session")
def kafka_responses() -> dict[str, Any]:
    """Kafka's responses about the groups of its folder (kafka_folder/group_requests.py)."""
    with tarfile.open(KAFKA_FOLDER) as tar:
        content = tar.extractfile("responses.json")
        assert content is not None
        responses: dict[str, Any] = json.load(content)
        return responses


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The folder with the jars of Kafka's distribution (about 57 MB)."""
    return fetched_jars(Path(__file__).parent / "kafka" / "pom.xml", "kafka")


@pytest.fixture(scope="session")
def kafka_tool(kafka_jars: Path) -> Callable[..., str]:
    """`kafka_tool("org.apache.kafka.tools.DumpLogSegments", "--files", ...)` -> its output.

    Tests that use it are marked `@pytest.mark.java`. They fail if the tool fails.
    """

    def run(tool_class: str, *args: str | Path) -> str:
        command = [*java(kafka_jars, "tools"), tool_class, *map(str, args)]
        done = subprocess.run(command, capture_output=True, text=True)
        output = done.stdout + done.stderr
        assert done.returncode == 0, f"{tool_class} ended with {done.returncode}:\n{output}"
        return done.stdout

    return run
