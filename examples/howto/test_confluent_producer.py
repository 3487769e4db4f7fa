"""Does an idempotent producer write a record once if the response is lost?

The confluent-kafka producer resends the batch, and the broker recognizes it. `flush()`
returns how many records are still undelivered. Without this call, a test may end before the
producer sends anything. `del producer` ends the producer's threads, so that it does not log
"Connection refused" after the test.
"""

from confluent_kafka import Producer


def test_a_record_whose_response_is_lost_is_written_once(kafka):
    orders = kafka.topic("orders", partitions=1)
    lost = kafka.faults.lose_answer("Produce")
    delivered = []
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "enable.idempotence": True,
            "retry.backoff.ms": 10,
            "log_level": 2,  # omits the line about the connection that the fault closes
        }
    )
    producer.produce("orders", b"one", on_delivery=lambda error, _: delivered.append(error))
    assert producer.flush(10) == 0
    del producer

    lost.wait()
    assert len(kafka.history.requests_of("Produce")) == 2
    assert delivered == [None]
    assert [record.value for record in orders.records()] == [b"one"]
