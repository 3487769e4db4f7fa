"""Does the alert fire when a group falls behind, and not before?"""

from kafka import KafkaConsumer, TopicPartition


def lag_of(bootstrap_servers, group_id, topic):
    """The query behind the alert, as in production."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, group_id=group_id)
    partitions = [TopicPartition(topic, index) for index in consumer.partitions_for_topic(topic)]
    ends = consumer.end_offsets(partitions)
    lag = sum(end - (consumer.committed(partition) or 0) for partition, end in ends.items())
    consumer.close()
    return lag


def test_a_stopped_service_falls_behind(kafka, start):
    orders = kafka.topic("orders", partitions=2)
    orders.produce(["one", "two"])
    service = start(kafka, lambda order: None)
    kafka.group("billing").wait_committed("orders", 0, 1)
    kafka.group("billing").wait_committed("orders", 1, 1)
    assert lag_of(kafka.bootstrap_servers, "billing", "orders") == 0

    service.stop()
    orders.produce(str(number) for number in range(100))
    assert lag_of(kafka.bootstrap_servers, "billing", "orders") == 100
