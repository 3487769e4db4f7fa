"""The pipeline on a standalone Spark cluster writes the lake that a single process writes."""

import sys
from pathlib import Path
from typing import Any

import pytest
from kohort.pipeline.lake.reader import Lake
from kohort.pipeline.run import LAYERS
from support.wheel import built_wheel, run

from ..test_run import append_records, contents, run_pipeline
from .standalone import WORKERS, environment, spark_command, standalone_cluster

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
        run_pipeline(spark, offsets_log.path, tmp_path / "alone", names=LAYERS)
        append_records(offsets_log, 2)
        submit = [spark_command("spark-submit"), "--master", master, "--conf", small]
        submit += ["--py-files", str(wheel), str(driver)]
        output = run(*submit, *arguments, cwd=tmp_path, **env)
        run_pipeline(spark, offsets_log.path, tmp_path / "alone", names=LAYERS)
    assert wheel.name in output
    executors = list((tmp_path / "work").glob("app-*/*"))
    assert len(executors) == 2 * WORKERS
    assert Lake(tmp_path / "lake").batch_id == 1
    assert contents(tmp_path / "lake") == contents(tmp_path / "alone")
