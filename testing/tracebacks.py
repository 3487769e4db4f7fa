"""Removes the harness from the tracebacks in reports of failed tests.

An error that the harness raises on purpose explains itself. All other errors, which are bugs, keep
their tracebacks. `--full-trace` shows all tracebacks.
"""

import dis
import sys
from pathlib import Path
from types import TracebackType

import pytest

_PACKAGE = __package__.partition(".")[0]
# Modules between a test's line and the harness's error. AsyncKafka adds threads.
_INTERNAL = (f"{_PACKAGE}.", "asyncio.", "concurrent.futures.", "threading")
# Modules that call the test and the plugin's hooks.
_RUNNERS = ("_pytest.", "pluggy.")
_RAISE = dis.opmap["RAISE_VARARGS"]


def shorten(failure: pytest.ExceptionInfo[BaseException]) -> bool:
    """End the traceback at the line of the test, if the harness raised the error on purpose. Return
    True if there is no such line, because the error was raised before or after the test."""
    entries = _entries(failure.tb)
    if not _is_on_purpose(entries[-1], failure.value):
        return False
    own = [each for each in entries if not _module(each).startswith(_INTERNAL)] or entries[:1]
    if _module(own[-1]).startswith(_RUNNERS):
        return True
    own[-1].tb_next = None
    failure.traceback = type(failure.traceback)(failure.tb)
    return False


def _entries(traceback: TracebackType) -> list[TracebackType]:
    entries = [traceback]
    while (following := entries[-1].tb_next) is not None:
        entries.append(following)
    return entries


def _module(entry: TracebackType) -> str:
    return str(entry.tb_frame.f_globals.get("__name__", ""))


def _is_on_purpose(entry: TracebackType, error: BaseException) -> bool:
    """Whether a `raise` in this package raised the error. A failed `assert` is a bug."""
    code, position = entry.tb_frame.f_code.co_code, entry.tb_lasti
    is_raise = code[position : position + 1] == bytes([_RAISE])
    return (
        _module(entry).startswith(f"{_PACKAGE}.") and is_raise and type(error) is not AssertionError
    )


def is_barrier_timeout(failure: pytest.ExceptionInfo[BaseException]) -> bool:
    module = sys.modules.get(f"{__package__}.loop_thread")
    return module is not None and failure.errisinstance(module.BarrierTimeout)


def skip_location(
    failure: pytest.ExceptionInfo[BaseException], item: pytest.Item
) -> tuple[str, int] | None:
    """Return the line of the test that led to real_cluster.skip, or the first line of the test;
    None for other exceptions. pytest would show the line that raised SkipTest."""
    package = Path(__file__).parent
    if Path(failure.traceback[-1].path) != package / "real_cluster.py":
        return None
    for entry in reversed(failure.traceback):
        path = Path(entry.path)
        is_internal = path.is_relative_to(package) or "site-packages" in path.parts
        if not is_internal and path.is_relative_to(item.config.rootpath):
            return str(path), entry.lineno + 1
    return str(item.path), (item.location[1] or 0) + 1
