"""kohort: a Kafka group coordinator in Python, wire-compatible, made for tests.

The parts, from the command line inwards (each may import those below it):

    cli/        `kohort …`
    testing/    the harness: a broker that a test starts, asks and steers
    broker/     sockets -> coordinator -> log -> replies
    offsets/    what is committed: Kafka's record bytes, the table (cache)
    topics/     what exists: the registry of topics, their partitions, producers' state
    log/        segmented log of RecordBatch v2
    protocol/   bytes <-> messages
    assignors/  who gets which partition
"""

__version__ = "0.1.0"


def is_compiled() -> bool:
    """Whether the modules that every request goes through are C extensions (setup.py)."""
    from importlib.machinery import EXTENSION_SUFFIXES
    from pathlib import Path

    one_of_them = Path(__file__).parent / "protocol" / "framing"
    return any(one_of_them.with_suffix(suffix).exists() for suffix in EXTENSION_SUFFIXES)
