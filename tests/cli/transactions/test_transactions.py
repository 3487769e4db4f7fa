"""`kohort transactions`, with a transaction of each kind. Kafka's own tool prints the same."""

import re
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaException, Producer
from kohort.cli.main import main
from kohort.log.batch import BatchBuilder, BatchProducer
from kohort.testing import Kafka

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

TOOL = "org.apache.kafka.tools.TransactionsCommand"
HANGING_PRODUCER = 42
Tool = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Kafka]:
    """A broker with a committed, an open, a hanging and an uninitialized transaction."""
    with Kafka() as kafka:
        kafka.topic("orders", partitions=2)
        producers = [transactional(kafka, name) for name in ("committed", "idle", "open")]
        for partition, each in ((0, producers[0]), (1, producers[2])):
            each.begin_transaction()
            each.produce("orders", b"a", partition=partition)
            each.flush()
        producers[0].commit_transaction()
        kafka.call(lambda _broker: hang(kafka))
        kafka.transactions.wait("committed", "committed")
        yield kafka


def transactional(kafka: Kafka, transactional_id: str) -> Producer:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0}
    producer = Producer({**settings, "transactional.id": transactional_id})
    producer.init_transactions(10)
    return producer


def hang(kafka: Kafka) -> None:
    """Append a transactional batch that no coordinator knows, an hour ago."""
    partition = kafka.broker.node.topics.partition("orders", 0)
    assert partition is not None
    batch = BatchBuilder(BatchProducer(HANGING_PRODUCER, 0))
    batch.add(None, b"lost", kafka.broker.node.clock.wall_ms() - 3_600_000)
    partition.log.append_built(batch)


@pytest.fixture
def transactions(cluster: Kafka, capsys: pytest.CaptureFixture[str]) -> Tool:
    """Return exit code, standard output and standard error."""

    def run(*flags: str) -> tuple[int, str, str]:
        try:
            code = main(["transactions", "--bootstrap-server", cluster.bootstrap_servers, *flags])
        except SystemExit as ended:
            code = int(str(ended.code))
        return (code, *capsys.readouterr())

    return run


def table(text: str) -> list[list[str]]:
    return [re.split(r" *\t", line)[:-1] for line in text.splitlines()]


def test_transactions_are_listed(transactions: Tool) -> None:
    code, out, err = transactions("list")
    assert (code, err) == (0, "")
    assert out == (
        "TransactionalId\tCoordinator\tProducerId\tTransactionState\t\n"
        "committed      \t1          \t0         \tCompleteCommit  \t\n"
        "idle           \t1          \t1         \tEmpty           \t\n"
        "open           \t1          \t2         \tOngoing         \t\n"
    )
    listed = table(transactions("list", "--transactional-id-pattern", "i.*")[1])
    assert [row[0] for row in listed[1:]] == ["idle"]


def test_a_transaction_is_described_by_its_id(transactions: Tool, cluster: Kafka) -> None:
    (_, row) = table(transactions("describe", "--transactional-id", "open")[1])
    assert row[:6] == ["1", "open", "2", "0", "Ongoing", "60000"]
    assert row[8:] == ["orders-1"]
    assert 0 <= cluster.clock.now_ms - int(row[6]) - int(row[7]) < 60_000
    (_, row) = table(transactions("describe", "--transactional-id", "idle")[1])
    assert row[4:] == ["Empty", "60000", "None", "None", ""]
    assert transactions("describe", "--transactional-id", "nobody") == (
        1,
        "",
        (
            "Failed to describe transaction state of transactional-id `nobody`: "
            "DescribeTransactions request for transactionalId `nobody` failed because the ID could "
            "not be found. Enable debug logging for additional detail.\n"
        ),
    )


def test_a_hanging_transaction_is_found_and_aborted(transactions: Tool, cluster: Kafka) -> None:
    found = table(transactions("find-hanging", "--topic", "orders")[1])
    assert [row[:6] for row in found[1:]] == [["orders", "0", "42", "0", "-1", "2"]]
    assert found[1][7] in ("60", "61")
    assert table(transactions("find-hanging", "--broker-id", "1")[1])[1:] == found[1:]
    where = ("--topic", "orders", "--partition", "0")
    unknown = "Could not find any open transactions starting at offset 7 on partition orders-0\n"
    assert transactions("abort", *where, "--start-offset", "7") == (1, "", unknown)
    assert transactions("abort", *where, "--start-offset", "2") == (0, "", "")
    assert table(transactions("find-hanging", *where)[1])[1:] == []
    row = table(transactions("describe-producers", *where)[1])[2]
    assert (row[0], row[5]) == ("42", "None")
    cluster.call(lambda _broker: hang(cluster))
    known = ("--producer-id", "42", "--producer-epoch", "0", "--coordinator-epoch", "0")
    assert transactions("abort", *where, *known) == (0, "", "")
    assert table(transactions("find-hanging", *where)[1])[1:] == []
    cluster.call(lambda _broker: hang(cluster))


def test_the_transaction_of_an_expired_transactional_id_is_hanging(
    transactions: Tool, cluster: Kafka
) -> None:
    flags = ("find-hanging", "--topic", "orders", "--partition", "1")
    everything = ("--max-transaction-timeout", "-1")
    assert table(transactions(*flags, *everything)[1])[1:] == []
    # A transactional id expires after it was listed.
    cluster.faults.answer("DescribeTransactions", "TRANSACTIONAL_ID_NOT_FOUND")
    found = table(transactions(*flags, *everything)[1])
    assert [row[:3] for row in found[1:]] == [["orders", "1", "2"]]


@pytest.mark.filterwarnings("ignore:zombie producer")
def test_an_open_transaction_is_terminated(capsys: pytest.CaptureFixture[str]) -> None:
    with Kafka() as kafka:
        kafka.topic("orders", partitions=1)
        producer = transactional(kafka, "open")
        producer.begin_transaction()
        producer.produce("orders", b"a")
        producer.flush()
        flags = ("--bootstrap-server", kafka.bootstrap_servers, "forceTerminateTransaction")
        terminate = ["transactions", *flags, "--transactionalId", "open"]
        assert main(terminate) == 0
        assert capsys.readouterr() == ("", "")
        # It was aborted in epoch 1; then a producer was initialized in the next.
        found = kafka.transactions.describe("open")
        assert (found.state, found.producer_epoch, found.timeout_ms) == ("Empty", 2, 30_000)
        with pytest.raises(KafkaException, match="fenced"):
            producer.commit_transaction()
        for error, reason in (
            ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "transactional ID authorization failure"),
            ("INVALID_TRANSACTION_TIMEOUT", "unexpected error"),
        ):
            kafka.faults.answer("InitProducerId", error)
            assert main(terminate) == 1
            assert capsys.readouterr().err == (
                "Failed to force terminate transactionalId `open`: InitProducerId request for "
                f"transactionalId `open` failed due to {reason}. Enable debug logging for "
                "additional detail.\n"
            )


ERRORS = {
    "find-hanging": "The `find-hanging` command requires either --topic or --broker-id to limit "
    "the scope of the search",
    "find-hanging --broker-id 1 --partition 0": "The --partition argument requires --topic to be "
    "provided",
    "abort --topic orders --partition 0 --producer-id 1": "Missing required argument "
    "--producer-epoch",
    "abort --topic orders --partition 0": "The transaction to abort must be identified either with "
    "--start-offset (for brokers on 3.0 or above) or with --producer-id, --producer-epoch, and "
    "--coordinator-epoch (for older brokers)",
    "describe-producers --topic nope --partition 0": "Failed to describe producers for partition "
    "nope-0 on leader: This server does not host this topic-partition. Enable debug logging for "
    "additional detail.",
    "find-hanging --topic nope": "Failed to describe 1 topics: This server does not host this "
    "topic-partition. Enable debug logging for additional detail.",
    # Kafka's tool: "request sent to broker 1 failed with an unexpected exception"
    "list --transactional-id-pattern bil(": "Failed to list transactions: The regular expression "
    "is not valid. Enable debug logging for additional detail.",
    "describe": "kohort transactions describe: the following arguments are required: "
    "--transactional-id; see `kohort transactions describe --help`.",
    "forceTerminateTransaction --transactional-id open": "kohort transactions "
    "forceTerminateTransaction: unrecognized arguments: --transactional-id: did you mean "
    "--transactionalId? See `kohort transactions forceTerminateTransaction --help`.",
    "describe --transaction-id=open": "kohort transactions describe: unrecognized arguments: "
    "--transaction-id=open: did you mean --transactional-id? See `kohort transactions describe "
    "--help`.",
}


@pytest.mark.parametrize(("flags", "message"), ERRORS.items())
def test_errors_have_exit_code_1(transactions: Tool, flags: str, message: str) -> None:
    assert transactions(*flags.split()) == (1, "", f"{message}\n")


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        "list",
        "list --duration-filter 0",
        "list --duration-filter 100000000",
        "describe --transactional-id open",
        "describe --transactional-id idle",
        "describe-producers --topic orders --partition 0",
        "describe-producers --topic orders --partition 1 --broker-id 1",
        "find-hanging --topic orders",
        "find-hanging --broker-id 1 --max-transaction-timeout 0",
        "find-hanging --topic orders --partition 0 --max-transaction-timeout 100",
    ],
)
def test_the_output_is_that_of_kafkas_transaction_tool(
    transactions: Tool, kafka_tool: Callable[..., str], cluster: Kafka, flags: str
) -> None:
    theirs = kafka_tool(TOOL, "--bootstrap-server", cluster.bootstrap_servers, *flags.split())
    code, ours, _ = transactions(*flags.split())
    assert code == 0
    assert sorted(without_durations(ours)) == sorted(without_durations(theirs))


def without_durations(text: str) -> list[str]:
    """Return the lines without the columns for the time since a transaction began."""
    rows = table(text)
    omitted = {rows[0].index(n) for n in ("TransactionDurationMs", "Duration(min)") if n in rows[0]}
    return ["\t".join(c for i, c in enumerate(row) if i not in omitted) for row in rows]
