"""The commands and flags of kafka-transactions. Imported for every `kohort --help`: must not import
anything slow. Upstream: TransactionsCommand."""

import argparse
from functools import partial
from typing import Any, Final

from ...printable import shortened

HELP: Final = """\
List and describe transactions in any Kafka cluster, and find and abort hanging ones.

Flags, output and exit codes match those of kafka-transactions in Kafka 4.3:

    kohort transactions --bootstrap-server 127.0.0.1:9092 list"""

MAX_TIMEOUT_MINUTES: Final = 15  # Kafka's transaction.max.timeout.ms
EXIT_CODE: Final = 1


def add_commands(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = "one or more brokers, separated by commas"
    add("--bootstrap-server", metavar="H:P", required=True, help=text)
    add("--command-config", metavar="FILE", help="a properties file for Java clients")
    parser.set_defaults(module="transactions.command")
    commands = parser.add_subparsers(dest="action", metavar="COMMAND", required=True)

    add = _add(commands, "list", "list transactions")
    text = "only transactions that began more than this many milliseconds ago (negative: all)"
    add("--duration-filter", metavar="MS", type=_long, help=text)
    text = "only transactional ids that match this regular expression"
    add("--transactional-id-pattern", metavar="REGEX", help=text)

    add = _add(commands, "describe", "describe the transaction of a transactional id")
    add("--transactional-id", metavar="ID", required=True)

    add = _add(commands, "describe-producers", "describe the active producers of a partition")
    text = "id of a broker with a replica of the partition (default: the leader's)"
    add("--broker-id", metavar="N", type=_int, help=text)
    _add_partition(add, required=True)

    add = _add(commands, "abort", "abort a hanging transaction")
    _add_partition(add, required=True)
    add("--start-offset", metavar="N", type=_long, help="the first offset of the transaction")
    text = "instead of --start-offset, for brokers before Kafka 3.0; all three are required"
    add("--producer-id", metavar="N", type=_long, help=text)
    add("--producer-epoch", metavar="N", type=_short, help=text)
    add("--coordinator-epoch", metavar="N", type=_int, help=text)

    add = _add(commands, "forceTerminateTransaction", "abort the transaction of a transactional id")
    add("--transactionalId", metavar="ID", dest="transactional_id", required=True)

    add = _add(commands, "find-hanging", "find transactions that no coordinator will end")
    add("--broker-id", metavar="N", type=_int, help="only partitions of this broker")
    text = "only transactions that have been idle for more than this many minutes "
    text += f"(default: {MAX_TIMEOUT_MINUTES})"
    minutes: dict[str, Any] = {"type": _int, "default": MAX_TIMEOUT_MINUTES}
    add("--max-transaction-timeout", metavar="MINUTES", **minutes, help=text)
    _add_partition(add, required=False)


def _integer(bits: int, text: str) -> int:
    smallest, largest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    try:
        value = int(text)
    except ValueError:
        value = largest + 1
    if not smallest <= value <= largest:
        expected = f"an integer from {smallest} to {largest}"
        raise argparse.ArgumentTypeError(f"invalid number '{shortened(text)}': expected {expected}")
    return value


_short, _int, _long = (partial(_integer, bits) for bits in (16, 32, 64))


def _add(commands: "argparse._SubParsersAction[Any]", name: str, summary: str) -> Any:
    description = f"{summary[0].upper()}{summary[1:]}."
    command = commands.add_parser(name, help=summary, description=description)
    command.exit_code = EXIT_CODE
    return command.add_argument


def _add_partition(add: Any, *, required: bool) -> None:
    add("--topic", metavar="NAME", required=required)
    add("--partition", metavar="N", type=_int, required=required)
