"""Run Kafka's assignors in a Java program."""

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def run_oracle(jars: Path, program: Path, cases: Iterable[Any]) -> list[Any]:
    """Return one result per case; fail if the program fails."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(program)]
    lines = "".join(f"{json.dumps(case)}\n" for case in cases)
    done = subprocess.run(command, input=lines, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
