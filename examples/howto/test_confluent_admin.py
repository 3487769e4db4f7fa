"""Does the deployment create its topics, and does a second run report that they already exist?

An AdminClient is an ordinary client. `create_topics` returns one future per topic; `args[0].code()`
of the future's exception is Kafka's error code.
"""

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic


def create(bootstrap_servers):
    """Create the topics as the deployment does."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    topic = NewTopic("orders", num_partitions=3, config={"retention.ms": "-1"})
    admin.create_topics([topic])["orders"].result(10)


def test_the_topics_are_created_once(kafka):
    create(kafka.bootstrap_servers)
    assert kafka.topic("orders").partitions == 3
    with pytest.raises(KafkaException) as raised:
        create(kafka.bootstrap_servers)
    assert raised.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
