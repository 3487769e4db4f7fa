"""kohort: a wire-compatible Kafka group coordinator in Python, made for tests.

The parts, from the command line inwards (each may import only parts below it):

    cli/          `kohort …`
    control_api/  the test harness over HTTP;  check/: `kohort check`
    testing/      the test harness
    broker/       sockets -> coordinator -> log -> responses;  conformance/: scenarios
    pipeline/     PySpark over the offsets log
    coordinator/  group state machines, pure
    topics/       topic registry, partitions, configuration, producer state
    offsets/      committed offsets: record formats, table, snapshot, store
    log/          partition logs: RecordBatch v2 in Kafka's files
    protocol/     bytes <-> messages
    assignors/    partition assignment, pure

docs/reading-guide.md follows eight operations through these parts.
"""

__version__ = "0.1.0"


def is_compiled() -> bool:
    """Whether the modules on the hot path are C extensions (setup.py)."""
    from importlib.machinery import EXTENSION_SUFFIXES
    from pathlib import Path

    one_of_them = Path(__file__).parent / "protocol" / "framing"
    return any(one_of_them.with_suffix(suffix).exists() for suffix in EXTENSION_SUFFIXES)
