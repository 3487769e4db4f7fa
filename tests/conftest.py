"""What all tests share: Hypothesis profiles, Kafka's own tools, and when they may be missing."""

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from support.java import fetched_jars, java

# `fast` draws the same few examples in every run; `unshrunk` too, for those who only want to know
# whether one fails; `deep` goes looking, for hours if need be.
# No deadline in any: a shared machine stalls, and no test here is about time.
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

# KAFKA_KOHORT_REQUEST_CACHE=false: brokers in this process run without the request cache too (those
# that tests start as processes read the variable themselves).
if cache := os.environ.get("KAFKA_KOHORT_REQUEST_CACHE"):
    from kohort.broker.config.keys import BROKER_KEYS

    key = BROKER_KEYS["kohort.request.cache"]
    object.__setattr__(key, "default", key.parse(cache))

# A run that a script has put into the background ignores it, and so would what is started here.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

NEEDS = {
    "java": ("needs Kafka's own tools: a Java runtime and Maven", ("java", "mvn")),
    "spark": ("needs a Java runtime, 17 or newer", ("java",)),
}
"""What a marker asks for, and the programs by which it is there."""

# For each core: half of the time of a run is waiting for clients, processes and sessions.
WORKERS_PER_CORE = 2


def pytest_xdist_auto_num_workers() -> int:
    """How many `-n auto` are."""
    return WORKERS_PER_CORE * (os.cpu_count() or 1)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest tests come first, so that the run does not end with one worker busy alone."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Where Java is missing its tests are skipped; in CI nothing may be skipped unnoticed."""
    for marker, (says, programs) in NEEDS.items():
        if item.get_closest_marker(marker) is None or all(map(shutil.which, programs)):
            continue
        if os.environ.get("CI") == "true":
            pytest.fail(f"{says}, and CI must not skip it", pytrace=False)
        pytest.skip(says)


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """Folder with the jars of Kafka's distribution (about 55 MB)."""
    return fetched_jars(Path(__file__).parent / "kafka" / "pom.xml", "kafka")


@pytest.fixture(scope="session")
def kafka_tool(kafka_jars: Path) -> Callable[..., str]:
    """`kafka_tool("org.apache.kafka.tools.DumpLogSegments", "--files", ...)` -> its output.

    A test that uses it is marked `@pytest.mark.java`. A tool that fails fails the test.
    """

    def run(tool_class: str, *args: str | Path) -> str:
        command = [*java(kafka_jars, "tools"), tool_class, *map(str, args)]
        done = subprocess.run(command, capture_output=True, text=True)
        output = done.stdout + done.stderr
        assert done.returncode == 0, f"{tool_class} ended with {done.returncode}:\n{output}"
        return done.stdout

    return run
