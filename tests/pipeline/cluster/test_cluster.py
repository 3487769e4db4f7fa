"""The pipeline on a standalone Spark cluster writes the lake that a single process writes."""

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kohort.pipeline.lake.reader import Lake
from log_builder import run_pipeline
from support.builds import built_wheel, run

from ..test_run import append_records, contents

WORKERS = 2
MASTER_AT = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = re.compile(r"Successfully registered with master")

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

# The program for spark-submit, with the wheel as --py-files.
DRIVER = """\
import sys
import kohort
from kohort.cli.main import main

print("kohort is imported from", kohort.__file__)
sys.exit(main())
"""


def test_a_cluster_writes_the_lake_of_a_single_process(
    spark: Any, offsets_log: Any, tmp_path: Path
) -> None:
    """One batch with `--master`, one with `spark-submit` and the code as a wheel."""
    wheel = built_wheel(tmp_path / "wheel")
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    arguments = ["pipeline", "run", "--log", offsets_log.path, "--lake", tmp_path / "lake"]
    arguments += ["--cluster", "east"]
    small = "spark.executor.memory=600m"
    with standalone_cluster(tmp_path) as master:
        env = environment(tmp_path)
        append_records(offsets_log, 1)
        kohort = [sys.executable, "-m", "kohort"]
        run(*kohort, *arguments, "--master", master, "--conf", small, cwd=tmp_path, **env)
        run_pipeline(spark, offsets_log.path, tmp_path / "alone")
        append_records(offsets_log, 2)
        submit = [spark_command("spark-submit"), "--master", master, "--conf", small]
        submit += ["--py-files", str(wheel), str(driver)]
        output = run(*submit, *arguments, cwd=tmp_path, **env)
        run_pipeline(spark, offsets_log.path, tmp_path / "alone")
    assert wheel.name in output
    executors = list((tmp_path / "work").glob("app-*/*"))
    assert len(executors) == 2 * WORKERS
    assert Lake(tmp_path / "lake").batch_id == 1
    assert contents(tmp_path / "lake") == contents(tmp_path / "alone")


# --- a standalone cluster: a master and two workers, processes on 127.0.0.1


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
