"""A standalone Spark cluster on this machine: a master and two workers, processes on 127.0.0.1."""

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
    """The environment of daemons, `spark-submit` and jobs."""
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        # Fast to start: for processes that run for seconds.
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def spark_command(name: str) -> str:
    """The path of `spark-submit` or `spark-class` of pyspark."""
    import pyspark

    return str(Path(pyspark.__file__).parent / "bin" / name)


@contextlib.contextmanager
def standalone_cluster(folder: Path) -> Iterator[str]:
    """Yields the URL of the master when all workers have registered."""
    deploy = "org.apache.spark.deploy"
    host = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    with contextlib.ExitStack() as running:
        master = running.enter_context(daemon(folder, f"{deploy}.master.Master", *host))
        url = wait_for(master, MASTER_AT)[1]
        size = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"))
        workers = [
            running.enter_context(daemon(folder, f"{deploy}.worker.Worker", *host, *size, url))
            for _ in range(WORKERS)
        ]
        for worker in workers:
            wait_for(worker, REGISTERED)
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


def wait_for(process: subprocess.Popen[str], pattern: re.Pattern[str]) -> re.Match[str]:
    """Return the first match in the log of the process. The rest of the log is discarded."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if match := pattern.search(line):
            threading.Thread(target=_drain, args=(process.stderr,), daemon=True).start()
            return match
    raise AssertionError(f"{process.args} ended without {pattern.pattern}:\n{''.join(lines[-20:])}")


def _drain(lines: Iterator[str]) -> None:
    with contextlib.suppress(ValueError):  # closed when the process ends
        for _ in lines:
            pass
