"""Send the lines of a text to a topic, with their numbers as keys. Plain kafka-python.

Sends are retried, and no line is stored twice (idempotent producer).
"""

import argparse
import json
import sys
import time
from pathlib import Path

from kafka import KafkaProducer

TEXT = Path(__file__).parent / "text.txt"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="lines")
    parser.add_argument("--client-id", default="line-producer")
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument("--lines-per-second", type=float, default=250)
    args = parser.parse_args()
    producer = KafkaProducer(
        bootstrap_servers=args.bootstrap_servers,
        client_id=args.client_id,
        acks="all",
        enable_idempotence=True,
        linger_ms=5,
        reconnect_backoff_max_ms=200,
    )
    lines = args.text.read_text(encoding="utf-8").splitlines()
    begun = time.monotonic()
    sent = []
    for number, line in enumerate(lines):
        sent.append(producer.send(args.topic, key=b"%d" % number, value=line.encode()))
        ahead = number / args.lines_per_second - (time.monotonic() - begun)
        if ahead > 0:
            time.sleep(ahead)
    producer.flush()
    acknowledged = sum(future.succeeded() for future in sent)
    print(json.dumps({"event": "sent", "lines": len(lines), "acknowledged": acknowledged}))
    producer.close()
    return 0 if acknowledged == len(lines) else 1


if __name__ == "__main__":
    sys.exit(main())
