"""Spark's own standalone cluster on this machine: one master and two workers, each a process, as on
machines of their own. It speaks on 127.0.0.1 only, on ports that the system chooses."""

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

WORKERS = 2
MASTER_AT = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = re.compile(r"Successfully registered with master")


def environment(folder: Path) -> dict[str, str]:
    """What daemons, `spark-submit` and jobs need alike."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        # The quick compiler and the small collector suit short lives.
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def spark_command(name: str) -> str:
    """`spark-submit`, `spark-class`: as they come with pyspark."""
    import pyspark

    return str(Path(pyspark.__file__).parent / "bin" / name)


@contextlib.contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """The master's URL, once all workers have registered."""
    deploy = "org.apache.spark.deploy"
    host = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with contextlib.ExitStack() as running:
        master = running.enter_context(daemon(folder, f"{deploy}.master.Master", *host))
        url = told(master, MASTER_AT)[1]
        size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"))
        workers = [
            running.enter_context(daemon(folder, f"{deploy}.worker.Worker", *host, *size, url))
            for _ in range(WORKERS)
        ]
        for worker in workers:
            told(worker, REGISTERED)
        yield url


@contextlib.contextmanager
def daemon(folder: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [spark_command("spark-class"), name, *arguments],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)
        assert process.stderr is not None
        process.stderr.close()


def told(process: subprocess.Popen[str], pattern: re.Pattern[str]) -> re.Match[str]:
    """The line of its log that says so; what comes after it is read and forgotten."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if match := pattern.search(line):
            threading.Thread(target=_drain, args=(process.stderr,), daemon=True).start()
            return match
    raise AssertionError(f"{process.args} ended without it:\n{''.join(lines[-20:])}")


def _drain(lines: Iterator[str]) -> None:
    with contextlib.suppress(ValueError):  # closed, as the process is at its end
        for _ in lines:
            pass
