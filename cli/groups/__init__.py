"""`kohort groups`: kafka-consumer-groups, with its flags, tables, messages and exit codes.

Compared with the tool of Kafka 4.3 (org.apache.kafka.tools.consumer.group): scripts may use either.

arguments      flags, and which go together
command        the actions --list, --describe, --delete and --delete-offsets
reset_offsets  --reset-offsets
cluster        groups and logs of a cluster, through kafka-python's admin client
tables         rows, Kafka's tables, JSON and CSV
errors         errors with the names and messages of Kafka's Java classes
"""

import argparse

from ..errors import UserError


def run(args: argparse.Namespace) -> int:
    """Return 0, even if the cluster returns an error, like Kafka's tool; 1 for invalid flags, and
    for every failure with --format json or csv. Raises UserError."""
    try:
        from . import command  # imports kafka-python
    except ImportError as error:
        raise UserError("kafka-python 3 is required: pip install 'kafka-python>=3'.") from error
    return command.run(args)
