"""`kohort groups`: the counterpart of kafka-consumer-groups.

Scripts can use either tool, because flags, tables, messages and exit codes are the same. The
reference is the package org.apache.kafka.tools.consumer.group of Kafka 4.3.

arguments      flags and their allowed combinations
command        the actions --list, --describe, --delete and --delete-offsets
reset_offsets  --reset-offsets
cluster        groups and logs of a cluster, through kafka-python's admin client
connecting     the admin client, and why it cannot connect
tables         rows, Kafka's tables, JSON and CSV
errors         errors with the names and messages of Kafka's Java classes
"""

import argparse


def run(args: argparse.Namespace) -> int:
    """Return the exit code: as in Kafka's tool, 1 for invalid flags and 0 otherwise, even if the
    cluster returns an error. Unlike in Kafka's tool, it is 1 without a connection to the cluster
    and, with --format json or csv, for every failure."""
    from . import command  # imports kafka-python

    return command.run(args)
