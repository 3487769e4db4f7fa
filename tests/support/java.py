"""Java programs: their jars, and commands that start quickly.

A class data archive next to the jars halves the start of the JVM. There is one for each kind of
program; the first program of a kind on a machine creates it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from support.builds import cached

# For short runs. Warnings of the JVM about the archive would mix with the output.
FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable")


def fetched_jars(pom: Path, name: str, **properties: str) -> Path:
    """Return the folder with the jars of a pom, which Maven fetches once per machine. `properties`
    override those of the pom."""
    given = [f"-D{key}={value}" for key, value in properties.items()]

    def fetch(folder: Path) -> None:
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", *given]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True
        )
        assert done.returncode == 0, f"Maven could not fetch {name}'s jars:\n{done.stdout}"

    return cached(name, [pom.read_bytes(), *given], fetch)


def archive(jars: Path, kind: str) -> Path:
    return jars.with_name(f"{jars.name}-{kind}.jsa")


def java(jars: Path, kind: str, *flags: str) -> list[str]:
    """Return the java command up to the class name."""
    return ["java", *FLAGS, *flags, f"-XX:SharedArchiveFile={archive(jars, kind)}", *_path(jars)]


@contextlib.contextmanager
def archiving(jars: Path, kind: str, *flags: str) -> Iterator[list[str]]:
    """Yield the command of a program that creates the archive when it exits normally."""
    partial = archive(jars, kind).with_suffix(f".{os.getpid()}")
    yield ["java", *FLAGS, *flags, f"-XX:ArchiveClassesAtExit={partial}", *_path(jars)]
    if partial.exists():  # missing after a failure, which the test reports
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
