"""Java programs: where their jars are from, and how they start quickly, for most of the time of a
short one is the start of its JVM.

A JVM keeps the classes that a program has loaded in an archive, which halves its next start. There
is one for each kind of program, beside the jars; the first that runs on a machine makes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# The quick compiler and the small collector suit short lives. Its own log, which may complain of
# the archive, would get among what the programs say.
FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable")


def fetched_jars(pom: Path, name: str) -> Path:
    """Folder with the jars of a pom; by Maven, once per machine."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "kohort"
    jars = cache / f"{name}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes side by side fetch them only once
        if not jars.exists():
            partial = jars.with_suffix(".partial")
            shutil.rmtree(partial, ignore_errors=True)
            command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
            done = subprocess.run(
                [*command, f"-DoutputDirectory={partial}"], capture_output=True, text=True
            )
            assert done.returncode == 0, f"Maven could not fetch {name}'s jars:\n{done.stdout}"
            partial.rename(jars)
    return jars


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


def run_oracle(jars: Path, program: Path, cases: Iterable[Any]) -> list[Any]:
    """Run a source file with one line of JSON per case; returns one result per case."""
    command = ["java", "-XX:TieredStopAtLevel=1", *_path(jars), str(program)]
    lines = "".join(f"{json.dumps(case)}\n" for case in cases)
    done = subprocess.run(command, input=lines, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
