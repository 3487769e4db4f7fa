"""Java programs that start quickly: most of the time of a short one is the start of its JVM.

A JVM keeps the classes that a program has loaded in an archive, which halves its next start. There
is one for each kind of program, beside the jars; the first that runs on a machine makes it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

# The quick compiler and the small collector suit short lives. Its own log, which may complain of
# the archive, would get among what the programs say.
FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable")


def archive(jars: Path, kind: str) -> Path:
    return jars.with_name(f"{jars.name}-{kind}.jsa")


def java(jars: Path, kind: str, *flags: str) -> list[str]:
    """The command, up to the name of the class."""
    return ["java", *FLAGS, *flags, f"-XX:SharedArchiveFile={archive(jars, kind)}", *_path(jars)]


@contextlib.contextmanager
def archiving(jars: Path, kind: str, *flags: str) -> Iterator[list[str]]:
    """The command of a program that makes the archive when it ends well."""
    partial = archive(jars, kind).with_suffix(f".{os.getpid()}")
    yield ["java", *FLAGS, *flags, f"-XX:ArchiveClassesAtExit={partial}", *_path(jars)]
    if partial.exists():  # what fails here is for the tests to say
        partial.rename(archive(jars, kind))


def _path(jars: Path) -> tuple[str, str]:
    return "-cp", f"{jars}/*"
