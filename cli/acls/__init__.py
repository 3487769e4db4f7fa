"""`kohort acls`: the counterpart of kafka-acls, with the same flags, output and exit codes.

The reference is org.apache.kafka.tools.AclCommand of Kafka 4.3.

arguments  flags and their allowed combinations, and the ACLs that they describe
command    the actions --add, --remove and --list, through kafka-python's admin client
"""

import argparse


def run(args: argparse.Namespace) -> int:
    """Return the exit code: 1 if flags are invalid or the cluster returns an error."""
    from . import command  # imports kafka-python

    return command.run(args)
