"""Kafka's own assignors: a Java process that answers cases."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .cases import Case

PROGRAM = Path(__file__).with_name("KafkaAssignors.java")


def asked(jars: Path, cases: Sequence[Case], *arguments: str, timeout_s: float = 300) -> list[Any]:
    """An assignment for each case, or {"error": …}; with "time" its nanoseconds."""
    command = ["java", "-XX:+UseSerialGC", "-Dslf4j.internal.verbosity=ERROR"]
    command += ["-cp", f"{jars}/*", str(PROGRAM), *arguments]
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=timeout_s)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(cases), done.stderr
    return answers
