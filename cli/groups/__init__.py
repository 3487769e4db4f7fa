"""`kohort groups`: what kafka-consumer-groups does, with its flags, tables, messages, exit codes.

Checked against the tool of Kafka 4.3 (org.apache.kafka.tools.consumer.group): a script may call
this in its place.

arguments.py   the flags, and which go together
command.py     the five actions
cluster.py     a cluster's groups and logs, read and changed through kafka-python
describing.py  what a coordinator tells of a group
client.py      the client's properties file, in Java's keys
rows.py        what is known of a group: the lines of the tables
tables.py      Kafka's tables
output.py      table, json or csv; where errors go; the exit code
resetting.py   --reset-offsets: which partitions, to which offsets
plans.py       from offsets to the new offsets of a reset: pure
times.py       Kafka's notations of dates and durations
errors.py      what goes wrong, in Kafka's words
"""

import argparse

from ..errors import UserError


def run(args: argparse.Namespace) -> int:
    """0, as Kafka's tool ends even where the cluster refuses; 1 for flags that do not go together
    and, with --format json or csv, for every failure."""
    try:
        from . import command  # brings kafka-python along
    except ImportError as error:
        raise UserError("it needs kafka-python 3: pip install 'kafka-python>=3'.") from error
    return command.run(args)
