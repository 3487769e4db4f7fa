"""What if a commit is applied without a response, or acknowledged without being applied?

The first case happens with Kafka whenever a connection breaks at the wrong moment. The second case
would be the loss of an acknowledged commit, which Kafka does not allow; a test can check whether
the service would notice.
"""


def test_a_commit_without_a_response_is_retried(kafka, start):
    kafka.topic("orders", partitions=1).produce(["one"])
    charged = []
    kafka.faults.lose_answer("OffsetCommit")
    start(kafka, charged.append)
    kafka.wait_request("OffsetCommit", count=2)
    kafka.group("billing").wait_committed("orders", 0, 1)
    assert charged == [b"one"]


def test_orders_of_a_lost_commit_are_charged_again(kafka, start):
    kafka.topic("orders", partitions=1).produce(["one"])
    charged = []
    fault = kafka.faults.answer("OffsetCommit", error="NONE")  # success, but not applied
    service = start(kafka, charged.append)
    fault.wait()
    service.stop()
    assert kafka.group("billing").committed("orders", 0) is None

    start(kafka, charged.append)
    kafka.group("billing").wait_committed("orders", 0, 1)
    assert charged == [b"one", b"one"]
