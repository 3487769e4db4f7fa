"""`kohort acls`, on a broker with an authorizer. Expected output is that of kafka-acls of Kafka
4.3, sorted."""

import io
from collections.abc import Callable, Iterator

import pytest
from kohort.broker.config.keys import STANDARD_AUTHORIZER
from kohort.cli.main import main
from kohort.testing import Kafka
from support.running_broker import BrokerThread

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

Acls = Callable[..., tuple[int, str, str]]
ORDERS = "ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)"


def entry(operation: str, user: str = "alice", host: str = "*", kind: str = "ALLOW") -> str:
    return f"(principal=User:{user}, host={host}, operation={operation}, permissionType={kind})"


@pytest.fixture
def address() -> Iterator[str]:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with BrokerThread(config) as broker:
        yield broker.bootstrap


@pytest.fixture
def acls(address: str, capsys: pytest.CaptureFixture[str]) -> Acls:
    """Return exit code, standard output and standard error."""

    def run(*flags: str) -> tuple[int, str, str]:
        code = main(["acls", "--bootstrap-server", address, *flags])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_acls_are_added_listed_and_removed(acls: Acls) -> None:
    alice = ("--allow-principal", "User:alice", "--topic", "orders")
    added = acls("--add", *alice, "--operation", "Write", "--operation", "Read")
    lines = f"\t{entry('WRITE')}\n\t{entry('READ')}\n"
    assert added == (0, f"Adding ACLs for resource `{ORDERS}`: \n {lines}\n", "")
    again = acls("--add", *alice, "--operation", "Read")
    assert again == (0, f"Acl (pattern={ORDERS}, entry={entry('READ')}) already exists.\n", "")
    acls("--add", "--deny-principal", "User:bob", "--deny-host", "10.0.0.1", "--topic", "orders")
    everything = [
        f"Current ACLs for resource `{ORDERS}`:",
        f"\t{entry('READ')}",
        f"\t{entry('WRITE')}",
        f"\t{entry('ALL', 'bob', '10.0.0.1', 'DENY')}",
        "",
    ]
    assert acls("--list") == (0, "\n".join(everything) + "\n", "")
    assert acls("--list", "--topic", "other") == (0, "", "")
    of_bob = [f"ACLs for principal `User:bob`\n{everything[0]}", everything[3], ""]
    assert acls("--list", "--principal", "User:bob") == (0, "\n".join(of_bob) + "\n", "")
    assert acls("--remove", "--force", *alice, "--operation", "Write") == (0, "", "")
    assert entry("WRITE") not in acls("--list")[1]
    assert acls("--remove", "--force", "--topic", "orders") == (0, "", "")
    assert acls("--list") == (0, "", "")


@pytest.mark.parametrize(
    ("answer", "is_removed"), [("y\n", True), ("Y\n", True), ("n\n", False), ("", False)]
)
def test_acls_are_removed_after_a_confirmation(
    acls: Acls, monkeypatch: pytest.MonkeyPatch, answer: str, *, is_removed: bool
) -> None:
    acls("--add", "--allow-principal", "User:alice", "--topic", "orders")
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    question = f"Are you sure you want to delete all ACLs for resource filter `{ORDERS}`? (y/n)\n"
    assert acls("--remove", "--topic", "orders") == (0, question, "")
    assert (acls("--list")[1] == "") is is_removed


def test_a_producer_and_a_consumer_get_what_they_need(acls: Acls) -> None:
    producer = ("--producer", "--idempotent", "--transactional-id", "x")
    consumer = ("--consumer", "--group", "g")
    acls("--add", *producer, *consumer, "--topic", "t", "--allow-principal", "User:alice")
    _, listed, _ = acls("--list")
    found: dict[str, set[str]] = {}
    for line in listed.splitlines():
        if line.startswith("Current"):
            name = line.split("name=")[1].split(",")[0]
        elif line:
            found.setdefault(name, set()).add(line.split("operation=")[1].split(",")[0])
    assert found == {
        "t": {"WRITE", "DESCRIBE", "CREATE", "READ"},
        "g": {"READ"},
        "x": {"WRITE", "DESCRIBE"},
        "kafka-cluster": {"IDEMPOTENT_WRITE"},
    }


def test_an_idempotent_producer_of_a_prefix_needs_the_cluster(acls: Acls) -> None:
    flags = "--add --producer --idempotent --topic t --resource-pattern-type prefixed"
    _, added, _ = acls(*flags.split(), "--allow-principal", "User:a")
    cluster = "ResourcePattern(resourceType=CLUSTER, name=kafka-cluster, patternType=LITERAL)"
    line = f"\t{entry('IDEMPOTENT_WRITE', 'a')}"
    assert f"Adding ACLs for resource `{cluster}`: \n {line}\n\n" in added


def test_all_operations_are_added_listed_and_removed(acls: Acls) -> None:
    named = ("--transactional-id", "t", "--operation", "TwoPhaseCommit")
    assert acls("--add", *named, "--allow-principal", "User:alice")[0] == 0
    assert entry("TWO_PHASE_COMMIT") in acls("--list")[1]
    assert acls("--remove", "--force", *named, "--allow-principal", "User:alice")[0] == 0
    assert acls("--list") == (0, "", "")


def test_the_message_of_the_broker_is_printed(acls: Acls) -> None:
    code, out, _ = acls("--add", "--topic", "", "--allow-principal", "User:alice")
    assert code == 1
    assert out.splitlines()[-1] == (
        "Error while executing ACL command: org.apache.kafka.common.errors."
        "InvalidRequestException: Invalid empty resource name"
    )


def test_a_match_finds_all_patterns_that_apply(acls: Acls) -> None:
    alice = ("--allow-principal", "User:alice")
    acls("--add", *alice, "--topic", "ord", "--resource-pattern-type", "prefixed")
    acls("--add", *alice, "--topic", "*")
    acls("--add", *alice, "--topic", "pay")
    for kind, count in (("match", 2), ("any", 0), ("prefixed", 0)):
        _, listed, _ = acls("--list", "--topic", "orders", "--resource-pattern-type", kind)
        assert listed.count("Current ACLs") == count


INVALID = {
    "--list --add": "Command must include exactly one action: --list, --add, --remove. ",
    "--add --topic t": "You must specify one of: --allow-principal, --deny-principal when trying "
    "to add ACLs.",
    "--add --allow-principal User:a": "You must provide at least one resource: --topic <topic> or "
    "--cluster or --group <group> or --delegation-token <Delegation Token ID>",
    "--list --producer": 'Option "[list]" can\'t be used with option "[producer]"',
    "--add --consumer --operation Read": 'Option "[consumer]" can\'t be used with option '
    '"[operation]"',
    "--add --principal User:a": "The --principal option is only available if --list is set",
    "--add --producer": "With --producer you must specify a --topic",
    "--add --idempotent": "The --idempotent option is only available if --producer is set",
    "--add --consumer --topic t": "With --consumer you must specify a --topic and a --group and no "
    "--cluster or --transactional-id option should be specified.",
    "--add --topic t --resource-pattern-type any --allow-principal User:a": "A "
    "'--resource-pattern-type' value of 'ANY' is not valid when adding acls.",
    "--add --delegation-token d --operation create_tokens --allow-principal User:a": "ResourceType "
    "DELEGATION_TOKEN only supports operations [DESCRIBE, ALL]",
    "--add --group g --operation Write --allow-principal User:a": "ResourceType GROUP only "
    "supports operations [READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS, ALL]",
}


@pytest.mark.parametrize(("flags", "message"), INVALID.items())
def test_invalid_flags_are_rejected_with_kafkas_message(
    capsys: pytest.CaptureFixture[str], flags: str, message: str
) -> None:
    assert main(["acls", "--bootstrap-server", "127.0.0.1:1", *flags.split()]) == 1
    assert capsys.readouterr().err == f"{message}\nsee `kohort acls --help`\n"


def test_an_error_of_the_broker_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with BrokerThread({}) as broker:
        assert main(["acls", "--bootstrap-server", broker.bootstrap, "--list"]) == 1
    out = capsys.readouterr().out
    start = "Error while executing ACL command: org.apache.kafka.common.errors."
    assert out.startswith(f"{start}SecurityDisabledException: ")


def test_a_lost_connection_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with Kafka() as kafka:
        kafka.faults.drop("DescribeAcls")
        assert main(["acls", "--bootstrap-server", kafka.bootstrap_servers, "--list"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("Error while executing ACL command: KafkaConnectionError: ")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            "--allow-principal alice",
            "expected a string in format principalType:principalName but got alice",
        ),
        ("--allow-principal User:alice --operation any", "operation must not be ANY"),
    ],
)
def test_principals_have_a_type_and_operations_are_not_those_of_filters(
    capsys: pytest.CaptureFixture[str], flags: str, message: str
) -> None:
    command = ["acls", "--bootstrap-server", "127.0.0.1:1", "--add", "--topic", "t"]
    assert main([*command, *flags.split()]) == 1
    assert capsys.readouterr().out == f"Error while executing ACL command: {message}\n"
