"""`kohort conformance`: which scenarios it plays on a broker, what it reports, its exit codes."""

from collections.abc import Callable, Iterator

import pytest
from kohort.cli.main import main
from kohort.testing import Kafka

# They need no setting, and take little time.
NEUTRAL = "heartbeats.a_heartbeat_to_an_unknown_group"
DELAYED = "joining.a_lone_member_waits_for_the_initial_delay"


@pytest.fixture(scope="module")
def kohort() -> Iterator[str]:
    with Kafka(preset="kafka") as kafka:
        yield kafka.bootstrap_servers


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def conformance(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command; return its exit code and output."""

    def run(*arguments: str) -> tuple[int, str]:
        code = main(["conformance", *arguments])
        output = capsys.readouterr()
        return code, output.out + output.err

    return run
