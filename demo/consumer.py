"""Count the words of a topic's lines, as a member of a consumer group. Plain kafka-python.

Prints JSON lines: assignments, counted lines, commits. A line is counted before its offset is
committed, so after a restart it may be counted again, but is never lost.
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


def emit(event: str, **fields: Any) -> None:
    print(json.dumps({"event": event, **fields}), flush=True)


class Assignments(ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: set[Any]) -> None:
        pass

    def on_partitions_assigned(self, assigned: set[Any]) -> None:
        emit("assigned", partitions=sorted(partition.partition for partition in assigned))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="lines")
    parser.add_argument("--group", default="word-count")
    parser.add_argument("--client-id", default="word-counter")
    args = parser.parse_args()
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by run.py
    consumer = KafkaConsumer(
        bootstrap_servers=args.bootstrap_servers,
        group_id=args.group,
        client_id=args.client_id,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=500,
        reconnect_backoff_max_ms=200,
        metadata_max_age_ms=1000,
    )
    # kafka-python 3.0 may never finish a rebalance that was triggered by late metadata: the
    # leader's assignment clears the trigger, and a join that outlasts its poll is not resumed.
    # Therefore, join only after the topic exists, and poll for a long time.
    while not (consumer.partitions_for_topic(args.topic) or stopping):
        time.sleep(0.1)
    consumer.subscribe([args.topic], listener=Assignments())
    while not stopping:
        batches = poll(consumer)
        ends: dict[TopicPartition, int] = {}
        for partition, records in batches.items():
            for record in records:
                words = Counter(WORD.findall(record.value.decode().lower()))
                line = int(record.key)
                emit("counted", partition=partition.partition, line=line, words=words)
            ends[partition] = records[-1].offset + 1
        if ends:
            commit(consumer, ends)
    consumer.close()  # sends LeaveGroup, so the others do not wait for the session timeout
    emit("left")
    return 0


def poll(consumer: KafkaConsumer) -> dict[TopicPartition, Any]:
    """Poll for records. Return nothing if the broker is down (kafka-python's retriable errors)."""
    try:
        return consumer.poll(timeout_ms=1000, max_records=50)
    except RetriableError as error:
        emit("poll failed", error=type(error).__name__)
        return {}


def commit(consumer: KafkaConsumer, ends: dict[TopicPartition, int]) -> None:
    """Commit counted lines. If this fails after a rebalance, the new owner counts them again."""
    offsets = {partition: OffsetAndMetadata(end, "", -1) for partition, end in ends.items()}
    try:
        consumer.commit(offsets)
    except KafkaError as error:
        emit("commit failed", error=type(error).__name__)
    else:
        emit("committed", offsets={partition.partition: end for partition, end in ends.items()})


if __name__ == "__main__":
    sys.exit(main())
