"""What can end a command of the pipeline: one sentence each, with what to do."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import UserError

__all__ = ["explained"]

_FULL = "No space left on device"


@contextmanager
def explained(lake: Path, log: Path | None = None) -> Iterator[None]:
    """`log`: where Spark says more. Raises UserError."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise UserError(
            "pyarrow is not installed, and Spark perhaps neither: pip install "
            "'./kohort[pipeline]', in the folder that holds its clone."
        ) from error
    from ...pipeline.lake import LakeError
    from ...pipeline.session import NoSpark
    from ...pipeline.source.source import SourceError

    try:
        yield
    except (LakeError, NoSpark, SourceError) as error:
        raise UserError(str(error)) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise UserError(_full(lake)) from error
        raise UserError(f"{error.filename or lake}: {error.strerror or error}.") from error
    except Exception as error:
        if not _of_spark(error):
            raise
        from ...pipeline.run import said

        text = str(error)
        if sentence := said(error, SourceError, LakeError):
            raise UserError(sentence) from error
        if _FULL in text:
            raise UserError(_full(lake)) from error
        more = f" Spark says more in {log}." if log else ""
        raise UserError(f"Spark failed: {_gist(error)} The lake is as it was.{more}") from error


def _gist(error: Exception) -> str:
    """The last line of a traceback of one of Spark's workers, or what Spark says first."""
    text = str(error)
    _, found, traceback = text.partition("Traceback (most recent call last):")
    lines = [line.strip() for line in (traceback.strip().partition("\n\n")[0]).splitlines()]
    if found and lines:
        return lines[-1]
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)


def _full(lake: Path) -> str:
    return (
        f"no space is left on the disk of {lake}, or where Spark keeps its temporary files (--conf "
        "spark.local.dir=DIR): the lake is as it was; make room and run it again."
    )


def _of_spark(error: Exception) -> bool:
    return type(error).__module__.partition(".")[0] in {"pyspark", "py4j"}
