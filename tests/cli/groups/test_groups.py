"""`kohort groups` against a broker: output, changes and errors."""

import csv
import io
import json
from pathlib import Path
from uuid import uuid4

import pytest
from kohort.cli.main import main
from kohort.testing import Kafka

from .conftest import Commit, Kohort

FAILED = "\nError: Executing consumer group command failed due to "
EXCEPTION = "org.apache.kafka.common.errors."


@pytest.fixture
def group(commit: Commit) -> str:
    """A group without members that has committed offsets of `orders` and `bills`."""
    name = f"group-{uuid4()}"
    commit(name, {("orders", 0): 4, ("orders", 2): 10, ("bills", 0): 1})
    return name


def committed(groups: Kohort, group: str) -> dict[tuple[str, int], int]:
    """The committed offsets, from --describe."""
    _, out, _ = groups("--describe", "--group", group, "--format", "json")
    return {(row["topic"], row["partition"]): row["current_offset"] for row in json.loads(out)}


def new_offsets(out: str) -> list[list[str]]:
    """Topic, partition and new offset of each line of the reset table."""
    return [line.split()[1:] for line in out.splitlines()[2:]]


def test_groups_are_listed_by_name_and_by_state(groups: Kohort, group: str, live: str) -> None:
    code, out, err = groups("--list")
    assert (code, err) == (0, "")
    assert {group, live} <= set(out.splitlines())
    # Tests with Kafka's tool may have created groups of the consumer protocol.
    _, out, _ = groups("--list", "--state", "stable", "--type", "classic")
    assert [line.split() for line in out.splitlines()] == [
        ["GROUP", "TYPE", "STATE"],
        [live, "Classic", "Stable"],
    ]


def test_a_description_has_the_lag_of_each_partition(groups: Kohort, group: str) -> None:
    code, out, err = groups("--describe", "--group", group)
    assert (code, err) == (0, f"\nConsumer group '{group}' has no active members.\n")
    assert [line.split()[1:6] for line in out.splitlines()[2:]] == [
        ["bills", "0", "1", "5", "4"],
        ["orders", "0", "4", "10", "6"],
        ["orders", "2", "10", "10", "0"],
    ]


def test_a_group_of_kafka_connect_is_no_consumer_group(capsys: pytest.CaptureFixture[str]) -> None:
    with Kafka() as kafka:
        kafka.fake_member("workers", protocol_type="connect", connectors={"sink": 2})
        flags = ("--describe", "--group", "workers")
        main(["groups", "--bootstrap-server", kafka.bootstrap_servers, *flags])
    reason = "GroupId workers is not a consumer group (connect)."
    assert f"{FAILED}java.lang.IllegalArgumentException: {reason}" in capsys.readouterr().out


def test_members_are_described_with_their_partitions(groups: Kohort, live: str) -> None:
    code, out, err = groups("--describe", "--group", live, "--members", "--format", "json")
    assert (code, err) == (0, "")
    rows = sorted(json.loads(out), key=lambda row: row["client_id"])
    assert [(row["group_instance_id"], row["assignment"]) for row in rows] == [
        (None, "bills:0"),
        ("fixed", "orders:0,1,2"),
    ]
    _, out, _ = groups("--describe", "--group", live)
    assert [line.split()[1:6] for line in out.splitlines()[2:]] == [
        ["orders", "0", "-", "10", "-"],
        ["orders", "1", "-", "10", "-"],
        ["orders", "2", "-", "10", "-"],
        ["bills", "0", "2", "5", "3"],
    ]


def test_the_state_contains_the_coordinators_address(
    groups: Kohort, live: str, address: str
) -> None:
    _, out, _ = groups("--describe", "--group", live, "--state")
    assert out.splitlines()[2].split() == [live, address, "(1)", "range", "Stable", "2"]


def test_an_unknown_group_fails_describe_with_kafkas_message(groups: Kohort, group: str) -> None:
    for more in ([], ["--members"], ["--state"]):
        code, out, err = groups("--describe", "--group", group, "--group", "nobody", *more)
        message = f"{EXCEPTION}GroupIdNotFoundException: Group nobody not found."
        assert (code, out, err) == (0, f"{FAILED}{message}\n", "")


def test_csv_and_json_have_all_columns_and_exit_with_1_on_failure(
    groups: Kohort, group: str
) -> None:
    _, out, _ = groups("--describe", "--group", group, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["topic"], row["lag"], row["consumer_id"]) for row in rows] == [
        ("bills", "4", ""),
        ("orders", "6", ""),
        ("orders", "0", ""),
    ]
    code, out, err = groups("--describe", "--group", "nobody", "--format", "json")
    assert (code, out) == (1, "")
    assert err.endswith("Group nobody not found.\n")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--all-topics", "--to-earliest"], "bills 0 0, orders 0 0, orders 2 0"),
        (["--topic", "orders", "--to-latest"], "orders 0 10, orders 1 10, orders 2 10"),
        (["--topic", "orders", "--to-current"], "orders 0 4, orders 1 10, orders 2 10"),
        (
            ["--topic", "orders:0,1", "--topic", "bills", "--to-offset", "6"],
            "bills 0 5, orders 0 6, orders 1 6",
        ),
        (["--all-topics", "--shift-by", "-3"], "bills 0 0, orders 0 1, orders 2 7"),
        (["--topic", "orders:0", "--to-datetime", "2020-01-01T00:00:00.000"], "orders 0 0"),
        (["--topic", "orders:0", "--by-duration", "P1D"], "orders 0 0"),
        (["--topic", "orders:0", "--by-duration", "P99999D"], "orders 0 0"),  # before 1970
    ],
)
def test_a_dry_run_prints_the_new_offsets_and_changes_nothing(
    groups: Kohort, group: str, flags: list[str], expected: str
) -> None:
    before = committed(groups, group)
    code, out, err = groups("--reset-offsets", "--group", group, *flags)
    assert code == 0
    assert err.startswith("WARN: No action will be performed as the --execute option is missing.")
    assert new_offsets(out) == [line.split() for line in expected.split(", ")]
    assert committed(groups, group) == before


def test_a_reset_with_execute_is_committed(groups: Kohort, group: str) -> None:
    reset = ("--reset-offsets", "--group", group, "--all-topics", "--to-earliest", "--execute")
    code, _, err = groups(*reset)
    assert (code, err) == (0, "")
    assert set(committed(groups, group).values()) == {0}


def test_a_reset_creates_a_group_that_does_not_exist(groups: Kohort) -> None:
    name = f"new-{uuid4()}"
    groups("--reset-offsets", "--group", name, "--topic", "bills", "--to-latest", "--execute")
    assert committed(groups, name) == {("bills", 0): 5}


def test_an_exported_plan_can_be_used_by_another_reset(
    groups: Kohort, group: str, tmp_path: Path
) -> None:
    reset = ("--reset-offsets", "--group", group)
    _, plan, _ = groups(*reset, "--all-topics", "--to-current", "--dry-run", "--export")
    assert plan == "bills,0,1\norders,0,4\norders,2,10\n\n"
    groups(*reset, "--all-topics", "--to-earliest", "--execute")
    file = tmp_path / "plan.csv"
    file.write_text(plan)
    groups(*reset, "--from-file", file, "--execute")
    assert committed(groups, group) == {("orders", 0): 4, ("orders", 2): 10, ("bills", 0): 1}


def test_a_time_after_the_last_record_falls_back_to_the_end(groups: Kohort, group: str) -> None:
    later = ("--to-datetime", "2999-01-01T00:00:00.000")
    _, out, _ = groups("--reset-offsets", "--group", group, "--topic", "bills", *later, "--dry-run")
    assert out == (
        "\nWarn: Partition 0 from topic bills is empty. Falling back to latest known offset.\n"
        "\n"
        f"{'GROUP':<42} TOPIC           PARTITION  NEW-OFFSET\n"
        f"{group:<42} bills           0          5\n"
    )


def test_a_group_with_members_is_not_reset(groups: Kohort, live: str) -> None:
    before = committed(groups, live)
    reset = ("--reset-offsets", "--group", live, "--topic", "bills", "--to-earliest", "--execute")
    code, out, _ = groups(*reset)
    assert code == 0
    assert out.startswith(
        f"\nError: Assignments can only be reset if the group '{live}' is inactive, but the "
        "current state is Stable.\n"
    )
    assert committed(groups, live) == before


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--topic", "nix", "--to-latest"], "This server does not host this topic-partition."),
        (["--topic", "bills:7", "--to-latest"], 'The partitions "bills-7" do not exist'),
        (["--topic", "bills", "--to-offset", "x"], "Cannot parse argument 'x' of option to-offset"),
        (["--from-file", "no.csv"], "java.io.IOException: Unable to read file no.csv"),
        (["--topic", "bills", "--by-duration", "1H"], "Text cannot be parsed to a Duration"),
    ],
)
def test_a_reset_that_fails_prints_the_reason(
    groups: Kohort, group: str, flags: list[str], message: str
) -> None:
    result = groups("--reset-offsets", "--group", group, *flags, "--dry-run")
    assert result == (0, f"{FAILED}{message}\n", "")


def test_groups_with_members_are_not_deleted(groups: Kohort, group: str, live: str) -> None:
    _, out, _ = groups("--delete", "--group", group, "--group", live, "--group", "nobody")
    assert out == (
        "\nError: Deletion of some consumer groups failed:\n"
        f"* Group '{live}' could not be deleted due to: {EXCEPTION}GroupNotEmptyException: "
        "The group is not empty.\n"
        f"* Group 'nobody' could not be deleted due to: {EXCEPTION}GroupIdNotFoundException: "
        "The group id does not exist.\n"
        f"\nThese consumer groups were deleted successfully: '{group}'\n"
    )
    _, out, _ = groups("--list")
    assert group not in out.splitlines()
    assert live in out.splitlines()


def test_a_successful_deletion_is_reported(groups: Kohort, group: str) -> None:
    message = f"Deletion of requested consumer groups ('{group}') was successful.\n"
    assert groups("--delete", "--group", group) == (0, message, "")


def test_a_group_whose_coordinator_is_loading_is_not_deleted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Kafka() as kafka:
        kafka.topic("orders", partitions=1)
        flags = ["groups", "--bootstrap-server", kafka.bootstrap_servers, "--timeout", "300"]
        both = ["--group", "billing", "--group", "orders-service"]
        main([*flags, "--reset-offsets", *both, "--topic", "orders", "--to-latest", "--execute"])
        capsys.readouterr()
        with kafka.group("billing").loading():
            assert main([*flags, "--describe", "--group", "billing"]) == 1
            assert capsys.readouterr().out == (
                f"{FAILED}{EXCEPTION}TimeoutException: "
                "The coordinator is loading and hence can't process requests. "
                "(retried for 300 ms)\n"
            )
            main([*flags, "--delete", *both])
    assert capsys.readouterr().out == (
        "\nError: Deletion of some consumer groups failed:\n"
        f"* Group 'billing' could not be deleted due to: {EXCEPTION}CoordinatorLoadInProgress"
        "Exception: The coordinator is loading and hence can't process requests.\n"
        "\nThese consumer groups were deleted successfully: 'orders-service'\n"
    )


def test_offsets_are_deleted_partition_by_partition(groups: Kohort, group: str) -> None:
    topics = ("--topic", "orders:2,8", "--topic", "nix")
    code, out, err = groups("--delete-offsets", "--group", group, *topics)
    error = f"Error: {EXCEPTION}UnknownTopicOrPartitionException: "
    error += "This server does not host this topic-partition."
    assert (code, err) == (0, "")
    assert out == (
        "\nError: Encountered some partition-level error, see the follow-up details.\n"
        "\n"
        "TOPIC           PARTITION  STATUS         \n"
        f"nix             -          {error}\n"
        "orders          2          Successful     \n"
        f"orders          8          {error}\n"
    )
    assert committed(groups, group) == {("orders", 0): 4, ("bills", 0): 1}


def test_offsets_of_a_subscribed_topic_are_not_deleted(groups: Kohort, live: str) -> None:
    code, out, _ = groups("--delete-offsets", "--group", live, "--topic", "bills")
    assert code == 0
    assert "GroupSubscribedToTopicException" in out
    assert committed(groups, live)["bills", 0] == 2


def test_deleting_offsets_of_an_unknown_group_fails(groups: Kohort) -> None:
    _, out, _ = groups("--delete-offsets", "--group", "nobody", "--topic", "bills")
    assert out.startswith("\nError: The group id does not exist.\n\nTOPIC ")


def test_an_unreachable_broker_fails_at_the_timeout(
    capsys: pytest.CaptureFixture[str], unused_address: str
) -> None:
    flags = ["groups", "--bootstrap-server", unused_address, "--list", "--timeout", "300"]
    assert main(flags) == 1
    message = f"No broker of {unused_address} responded within 300 ms."
    assert capsys.readouterr().out == f"{FAILED}{EXCEPTION}TimeoutException: {message}\n"
    assert main([*flags, "--format", "csv"]) == 1
