"""Exceptions of the pipeline and of Spark as user errors: one line with the remedy."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...pipeline.lake import LakeError
from ...pipeline.queries import GroupNotFound
from ...pipeline.session import SparkUnavailable
from ...pipeline.source.source import ClusterUnreachable, SourceError
from ..errors import Unreachable, UserError


@contextmanager
def user_errors(lake: Path, spark_log: Path | None = None) -> Iterator[None]:
    """Convert exceptions to UserError. `spark_log` is the file with Spark's output."""
    try:
        yield
    except ClusterUnreachable as error:
        hint = "start the broker, or correct --bootstrap-server"
        raise Unreachable(f"no broker responded: {error}; {hint}.") from error
    except (LakeError, GroupNotFound, SparkUnavailable, SourceError) as error:
        raise UserError(str(error)) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise UserError(_disk_full(lake)) from error
        raise UserError(f"{error.filename or lake}: {error.strerror or error}.") from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in {"pyspark", "py4j"}:
            raise
        from ...pipeline.run import error_text  # needs numpy, unlike queries

        if text := error_text(error, SourceError, LakeError):
            raise UserError(text) from error
        if "No space left on device" in str(error):
            raise UserError(_disk_full(lake)) from error
        reason = _main_line(error).rstrip(".")
        text = f"Spark failed: {reason}. The lake contains only complete batches."
        details = f" Details are in {spark_log}." if spark_log else ""
        raise UserError(text + details) from error


def _main_line(error: Exception) -> str:
    """Return the last line of a Spark worker's traceback, or the first line of Spark's message."""
    text = str(error).strip()
    _, _, traceback = text.partition("Traceback (most recent call last):")
    if lines := traceback.strip().partition("\n\n")[0].splitlines():
        return lines[-1].strip()
    return text.splitlines()[0].strip() if text else type(error).__name__


def _disk_full(lake: Path) -> str:
    return (
        f"no space left on the disk of {lake}, or of Spark's temporary files (--conf "
        "spark.local.dir=DIR): the lake contains only complete batches; free some space and run "
        "the command again."
    )
