"""What if a commit is answered and was not applied, or applied and not answered?

Kafka does the second whenever a connection breaks at the wrong moment. The first would be a lost
acknowledged commit: no Kafka does that, but a service can be asked whether it would notice.
"""


def test_a_commit_that_was_applied_and_not_answered_is_sent_again(kafka, start):
    kafka.topic("orders", partitions=1).produce(["one"])
    charged = []
    kafka.faults.lose_answer("OffsetCommit")
    start(kafka, charged.append)
    kafka.wait_request("OffsetCommit", count=2)
    kafka.group("billing").wait_committed("orders", 0, 1)
    assert charged == [b"one"]


def test_a_commit_that_was_answered_and_not_applied_is_charged_again(kafka, start):
    kafka.topic("orders", partitions=1).produce(["one"])
    charged = []
    fault = kafka.faults.answer("OffsetCommit", error="NONE")  # "all is well", and it is not
    service = start(kafka, charged.append)
    fault.wait()
    service.stop()
    assert kafka.group("billing").committed("orders", 0) is None

    start(kafka, charged.append)
    kafka.group("billing").wait_committed("orders", 0, 1)
    assert charged == [b"one", b"one"]
