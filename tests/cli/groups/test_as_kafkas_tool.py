"""Kafka's own tool and `kohort groups` print the same for the same flags."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kafka_folder import consumer_groups
from kafka_folder.group_requests import call

from .conftest import Commit, Kohort

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
IDLE = "idle"
RESET = f"--reset-offsets --dry-run --group {IDLE}"


@pytest.fixture
def both(
    groups: Kohort, kafka_tool: Callable[..., str], address: str
) -> Callable[..., tuple[str, str]]:
    """`both("--list")` -> the outputs of Kafka's tool and of kohort; both exit with 0."""

    def run(*args: str | Path) -> tuple[str, str]:
        code, ours, _ = groups(*args)
        assert code == 0
        return kafka_tool(TOOL, "--bootstrap-server", address, *args), ours

    return run


@pytest.fixture
def idle(commit: Commit) -> str:
    commit(IDLE, {("orders", 0): 4, ("orders", 2): 9, ("bills", 0): 1})
    return IDLE


@pytest.mark.usefixtures("idle", "live")
@pytest.mark.parametrize(
    "flags",
    [
        f"--describe --group {IDLE} --group live",
        "--describe --all-groups --verbose",
        "--describe --group live --members --verbose",
        f"--describe --group {IDLE} --group live --state --verbose",
        "--describe --group nobody",
        f"{RESET} --topic orders --to-datetime 2999-01-01T00:00:00.000",
        f"{RESET} --topic nix --to-latest",
        f"{RESET} --topic bills:3 --to-latest",
        "--reset-offsets --group live --topic bills --to-latest --execute",
        "--delete-offsets --group live --topic bills --topic orders:1,9 --topic nix",
        "--delete --group nobody",
    ],
)
def test_the_output_is_that_of_kafkas_tool(
    both: Callable[..., tuple[str, str]], flags: str
) -> None:
    kafkas, ours = both(*flags.split())
    assert ours == kafkas


@pytest.fixture(scope="session")
def modern(address: str) -> Iterator[None]:
    """Groups of the consumer protocol (KIP-848), which are deleted at the end."""
    consumer_groups.create(address, "modern")
    yield
    for group in consumer_groups.described(address, "modern").values():
        for member in group["members"]:
            leave = {"members": [{"member_id": member["member_id"]}]}
            call(address, "LeaveGroup", 5, {"group_id": group["group_id"], **leave})
        call(address, "DeleteGroups", 2, {"groups_names": [group["group_id"]]})


@pytest.mark.usefixtures("modern")
@pytest.mark.parametrize(
    "flags",
    [
        "--describe --group modern-static --members",
        "--describe --group modern-static --group modern-revoking --members --verbose",
        "--describe --group modern-mixed --group modern-left --members --verbose",
        "--describe --group modern-revoking --group modern-left --state --verbose",
        "--describe --group modern-pattern --state",
        "--describe --group modern-dynamic --offsets --verbose",
        "--delete-offsets --group modern-pattern --topic orders",
        "--delete --group modern-dynamic",
    ],
)
def test_groups_of_the_consumer_protocol_are_described_as_by_kafkas_tool(
    both: Callable[..., tuple[str, str]], flags: str
) -> None:
    kafkas, ours = both(*flags.split())
    assert ours == kafkas


@pytest.mark.usefixtures("idle", "live", "modern")
@pytest.mark.parametrize(
    "flags",
    [
        "--list --type consumer --state",
        "--list --type classic,consumer --state empty,reconciling",
        "--list --state --type",
        f"{RESET} --all-topics --shift-by 1",
        f"{RESET} --topic orders --topic bills:0 --to-current",
        f"{RESET} --all-topics --to-earliest --export",
        "--delete --group live --group nobody",
    ],
)
def test_lines_that_kafkas_tool_prints_in_hash_order_are_the_same(
    both: Callable[..., tuple[str, str]], flags: str
) -> None:
    kafkas, ours = both(*flags.split())
    assert sorted(ours.splitlines()) == sorted(kafkas.splitlines())
