"""Kafka's own assignors, run on cases of ours by a small Java program that lies beside its test."""

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def ask(jars: Path, program: Path, cases: Iterable[Any]) -> list[Any]:
    """One answer for each case, both as JSON. A program that fails fails the test."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(program)]
    lines = "".join(f"{json.dumps(case)}\n" for case in cases)
    done = subprocess.run(command, input=lines, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
