"""Java's clients, all in one JVM, which starts once per test process."""

import json
import subprocess
from pathlib import Path
from typing import Any

from support.java import FLAGS

PROGRAM = Path(__file__).with_name("JavaClient.java")


class JavaClient:
    def __init__(self, jars: Path) -> None:
        self._process = subprocess.Popen(
            ["java", *FLAGS, "-cp", f"{jars}/*", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, action: str, config: dict[str, Any], **values: str) -> str | None:
        """Return the classes and messages of the client's error and its causes, None without one.
        For the actions see JavaClient.java."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"action": action, "config": config, **values}) + "\n")
        stdin.flush()
        error: str | None = json.loads(stdout.readline())
        return error

    def close(self) -> None:
        self._process.communicate()
