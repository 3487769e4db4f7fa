"""The pipeline on a cluster of Spark's own: a master, two workers, the lake where all of them see
it. What they leave there is what one process leaves."""

import sys
from pathlib import Path
from typing import Any

import pytest
from kohort.pipeline.lake import Lake
from kohort.pipeline.run import LAYERS
from support.wheel import built_wheel, run

from ..test_run import contents, pipeline, tell_more
from .standalone import WORKERS, environment, spark_command, standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

# What a user hands to spark-submit beside the wheel.
DRIVER = """\
import sys
import kohort
from kohort.cli.main import main

print("kohort is of", kohort.__file__)
sys.exit(main())
"""


def test_a_cluster_makes_the_lake_that_one_process_makes(
    spark: Any, offsets_log: Any, tmp_path: Path
) -> None:
    """One batch by `--master`, one by `spark-submit`, which brings the code along as a wheel."""
    wheel = built_wheel(tmp_path / "wheel")
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    what = ["pipeline", "run", "--log", offsets_log.path, "--lake", tmp_path / "lake"]
    what += ["--cluster", "east"]
    small = "spark.executor.memory=600m"
    with standalone_cluster(tmp_path) as master:
        env = environment(tmp_path)
        tell_more(offsets_log, 1)
        kohort = [sys.executable, "-m", "kohort"]
        run(*kohort, *what, "--master", master, "--conf", small, cwd=tmp_path, **env)
        pipeline(spark, offsets_log.path, tmp_path / "alone", names=LAYERS)
        tell_more(offsets_log, 2)
        submit = [spark_command("spark-submit"), "--master", master, "--conf", small]
        submit += ["--py-files", str(wheel), str(driver)]
        said = run(*submit, *what, cwd=tmp_path, **env)
        pipeline(spark, offsets_log.path, tmp_path / "alone", names=LAYERS)
    assert wheel.name in said
    executors = list((tmp_path / "work").glob("app-*/*"))
    assert len(executors) == 2 * WORKERS
    assert Lake(tmp_path / "lake").batch_id == 1
    assert contents(tmp_path / "lake") == contents(tmp_path / "alone")
