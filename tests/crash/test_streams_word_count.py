"""Kafka Streams counts words with `exactly_once_v2`, while the application, the broker or both are
killed with SIGKILL. The output has each count of each word exactly once, in order."""

import contextlib
import random
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.java import FLAGS
from support.running_broker import TIMEOUT_SECONDS, BrokerProcess, config_flags, start_broker

PROGRAM = Path(__file__).with_name("WordCount.java")
CHANGELOG = "word-count-counts-changelog"
WORDS = ("to", "be", "or", "not", "that", "is", "the", "question")
WORDS_PER_LINE = 5
LINES = 400  # sent before each kill
PARTITIONS = 2
PROGRESS_SECONDS_MAX = 60  # for a busy machine
KILLS = ("application", "broker", "application", "application and broker")
OPTIONS = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    "log.cleaner.backoff.ms=100",
)

pytestmark = [pytest.mark.crash, pytest.mark.java, pytest.mark.slow, pytest.mark.toolchain]

Record = tuple[bytes, bytes]
"""The key and the value of a record."""


class Application:
    """A process of the program."""

    def __init__(self, jars: Path, bootstrap: str, folder: Path) -> None:
        self._log = folder / "application.log"
        command = ["java", *FLAGS, "-cp", f"{jars}/*", PROGRAM, bootstrap, folder / "state"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def check(self, deadline: float) -> None:
        assert self._process.poll() is None, self._log.read_text()
        assert time.monotonic() < deadline, f"it makes no progress:\n{self._log.read_text()}"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(TIMEOUT_SECONDS)


def create_topics(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    new = [NewTopic(name, num_partitions=PARTITIONS) for name in ("lines", "counts")]
    for created in admin.create_topics(new).values():
        created.result(TIMEOUT_SECONDS)


def send_lines(broker: BrokerProcess, randomly: random.Random) -> Counter[str]:
    """Send lines of random words, and return how often each word occurs."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    words = Counter[str]()
    for number in range(LINES):
        line = randomly.choices(WORDS, k=WORDS_PER_LINE)
        producer.produce("lines", " ".join(line), partition=number % PARTITIONS)
        words.update(line)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    return words


@contextlib.contextmanager
def consumer(broker: BrokerProcess, topic: str, isolation: str) -> Iterator[Consumer]:
    """Yield a consumer of a topic that starts at the first record."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "readers",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    try:
        yield consumer
    finally:
        consumer.close()


def read_until(reader: Consumer, found: set[Record], count: int, application: Application) -> None:
    """Read until `found` has `count` different records."""
    deadline = time.monotonic() + PROGRESS_SECONDS_MAX
    while len(found) < count:
        application.check(deadline)
        message = reader.poll(0.1)
        if message is not None and message.error() is None:
            found.add((message.key() or b"", message.value() or b""))


def records(broker: BrokerProcess, topic: str, isolation: str) -> list[Record]:
    """Return all records of a topic up to the ends of its partitions."""
    found, ends = [], 0
    with consumer(broker, topic, isolation) as reader:
        while ends < PARTITIONS:
            message = reader.poll(TIMEOUT_SECONDS)
            assert message is not None
            if message.error() is None:
                found.append((message.key() or b"", message.value() or b""))
            else:
                ends += 1
    return found


def test_each_word_is_counted_exactly_once(tmp_path: Path, kafka_jars: Path) -> None:
    port = "0"

    def start_broker_again() -> BrokerProcess:
        where = ("--port", port, "--data-dir", tmp_path / "data", "--durability", "os")
        return stack.enter_context(start_broker(tmp_path, *where, *config_flags(OPTIONS)))

    def start_application() -> Application:
        application = Application(kafka_jars, broker.bootstrap, tmp_path)
        stack.callback(application.kill)
        return application

    words, written, randomly = Counter[str](), set[Record](), random.Random(1)
    with contextlib.ExitStack() as stack:
        broker = start_broker_again()
        port = str(broker.port)
        create_topics(broker)
        application = start_application()
        with consumer(broker, "counts", "read_uncommitted") as progress:
            for killed in KILLS:
                before = words.total()
                words += send_lines(broker, randomly)
                halfway = (before + words.total()) // 2
                read_until(progress, written, halfway, application)
                if "application" in killed:
                    application.kill()
                if "broker" in killed:
                    broker.stop(9)
                    broker = start_broker_again()
                if "application" in killed:
                    application = start_application()
        with consumer(broker, "counts", "read_committed") as reader:
            read_until(reader, set(), words.total(), application)
        application.kill()
        counts = defaultdict[str, list[int]](list)
        for word, count in records(broker, "counts", "read_committed"):
            counts[word.decode()].append(int(count))
        assert counts == {word: [*range(1, count + 1)] for word, count in words.items()}
        # Transactions were open when the application was killed, and the changelog, from which it
        # restores its state, was compacted.
        assert len(records(broker, "counts", "read_uncommitted")) > words.total()
        assert len(records(broker, CHANGELOG, "read_uncommitted")) < words.total()
        assert broker.stop() == 0
