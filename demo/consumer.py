"""Counts the words of a topic's lines as a member of a group. An ordinary kafka-python program.

It says what it does in JSON lines: what it was assigned, what it counted, what it committed. A line
is counted before its offset is committed, so a restart may count it again, but never loses it.
"""

import argparse
import json
import re
import signal
import sys
import time
from collections import Counter
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError, RetriableError

WORD = re.compile(r"[a-z']+")


def say(event: str, **facts: Any) -> None:
    print(json.dumps({"event": event, **facts}), flush=True)


class Assignments(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: set[Any]) -> None:
        pass

    def on_partitions_assigned(self, assigned: set[Any]) -> None:
        say("assigned", partitions=sorted(partition.partition for partition in assigned))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="lines")
    parser.add_argument("--group", default="word-count")
    args = parser.parse_args()
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started us
    consumer = KafkaConsumer(
        bootstrap_servers=args.bootstrap_servers,
        group_id=args.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=500,
        reconnect_backoff_max_ms=200,
        metadata_max_age_ms=1000,
    )
    # kafka-python 3.0 can stay in a rebalance for good when metadata that come late have asked for
    # it: the leader's assignment takes the reason back, and a join that outlived the poll it began
    # in is then never finished. So we join once the topic is there, and our polls are long.
    while not (consumer.partitions_for_topic(args.topic) or stopping):
        time.sleep(0.1)
    consumer.subscribe([args.topic], listener=Assignments())
    while not stopping:
        batches = polled(consumer)
        ends: dict[TopicPartition, int] = {}
        for partition, records in batches.items():
            for record in records:
                words = Counter(WORD.findall(record.value.decode().lower()))
                line = int(record.key)
                say("counted", partition=partition.partition, line=line, words=words)
            ends[partition] = records[-1].offset + 1
        if ends:
            commit(consumer, ends)
    consumer.close()  # leaves the group, so that the others need not wait for a timeout
    say("left")
    return 0


def polled(consumer: KafkaConsumer) -> dict[TopicPartition, Any]:
    """What has come. kafka-python waits a second or two for a broker that is away, and then raises
    what it goes on after."""
    try:
        return consumer.poll(timeout_ms=1000, max_records=50)
    except RetriableError as error:
        say("poll failed", why=type(error).__name__)
        return {}


def commit(consumer: KafkaConsumer, ends: dict[TopicPartition, int]) -> None:
    """Commit what was counted. If the group has moved on, who owns the partition counts again."""
    offsets = {partition: OffsetAndMetadata(end, "", -1) for partition, end in ends.items()}
    try:
        consumer.commit(offsets)
    except KafkaError as error:
        say("commit refused", why=type(error).__name__)
    else:
        say("committed", offsets={partition.partition: end for partition, end in ends.items()})


if __name__ == "__main__":
    sys.exit(main())
