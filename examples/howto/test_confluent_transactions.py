"""Does a service that consumes, transforms and produces write each result once, even if it fails?

The result and its input's offset belong to one transaction. The first instance fails before it
commits; the second one fences it, handles the same input, and commits. The test uses
confluent-kafka. [transactions.md](transactions.md) covers transactions in detail.
"""

from confluent_kafka import Consumer, Producer, TopicPartition


def new_consumer(kafka, topic, group):
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        }
    )
    consumer.subscribe([topic])
    return consumer


class Exchange:
    """Converts amounts in EUR to cents. Each amount is converted in its own transaction."""

    def __init__(self, kafka):
        self.consumer = new_consumer(kafka, "amounts", "exchange")
        self.producer = Producer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "transactional.id": "exchange-1",
                "retry.backoff.ms": 10,
            }
        )
        self.producer.init_transactions(10)

    def handle(self):
        message = self.consumer.poll(10)
        self.producer.begin_transaction()
        self.producer.produce("cents", str(int(message.value()) * 100))
        position = TopicPartition(message.topic(), message.partition(), message.offset() + 1)
        metadata = self.consumer.consumer_group_metadata()
        self.producer.send_offsets_to_transaction([position], metadata)
        self.producer.flush(10)


def test_each_amount_is_converted_once(kafka):
    kafka.topic("amounts", partitions=1).produce(["1", "2"])
    kafka.topic("cents", partitions=1)
    failed = Exchange(kafka)
    failed.handle()
    failed.consumer.close()  # before it commits

    restarted = Exchange(kafka)
    for _ in range(2):
        restarted.handle()
        restarted.producer.commit_transaction()
    restarted.consumer.close()

    assert kafka.group("exchange").committed("amounts", 0) == 2
    ledger = new_consumer(kafka, "cents", "ledger")
    assert [ledger.poll(10).value() for _ in range(2)] == [b"100", b"200"]
    ledger.close()
    changes = [each.after for each in kafka.history.transaction_changes("exchange-1")]
    assert (changes.count("CompleteAbort"), changes.count("CompleteCommit")) == (1, 2)
