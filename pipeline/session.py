"""A Spark session for the pipeline: on this machine, or on the cluster that `master` names."""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

__all__ = ["FEW_RECORDS", "NoSpark", "new_session", "tune"]

# So many records, or rows, are read and told in less time than Spark takes to compile programs for
# them, to start Python for them, and to watch how its tasks do: all of that is left out. Above it
# pays.
FEW_RECORDS: Final = 100_000

JAVA_WANTED: Final = 17

_ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
    # Without it a data source that has pushFilters is refused.
    "spark.sql.python.filterPushdown.enabled": "true",
    # The default, INT96, is read by few and has no statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    # Rows of groups are few; a mini cluster needs no two hundred.
    "spark.sql.shuffle.partitions": "4",
}
# What a job on this machine adds: nobody else is to reach it, and a batch of a million records with
# the windows over it fits into twice the default heap.
_HERE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    # Hundreds of small queries of records of groups: Java's best compiler never pays for itself
    # (measured up to 60,000 generations of three members, and ten million commits).
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
_FOR_FEW = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


class NoSpark(Exception):
    """There is no Spark to be had; one sentence that says what to install."""


def new_session(
    master: str | None = None,
    more: Mapping[str, str] | None = None,
    log: Path | None = None,
) -> "SparkSession":
    """`master` null: what `spark-submit` says, else all cores of this machine. `log`: a file for
    what Spark, its JVM and its workers say; null: standard error.

    Raises NoSpark.
    """
    try:
        from pyspark import SparkConf
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise NoSpark(
            "Spark is not installed: pip install './kohort[pipeline]', in the folder that holds "
            "its clone."
        ) from error

    # Otherwise workers run whatever `python3` is in their PATH, and die without a word about it.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = "SPARK_ENV_LOADED" in os.environ
    here = not submitted and (master or "local").startswith("local")
    if here:
        # Or Spark looks for a name of this machine, and complains of what it finds.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf().setAppName("kohort")
    conf.setAll([*_ALWAYS.items(), *(_HERE.items() if here else ())])
    conf.setAll(list((more or {}).items()))
    if master is not None or not submitted:
        conf.setMaster(master or "local[*]")
    if not submitted and SparkSession.getActiveSession() is None:
        _start_jvm(conf, log)
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def tune(session: "SparkSession", rows: int) -> None:
    """For what reads so many; what the user has set stays as it is."""
    conf = session.sparkContext.getConf()
    for key, value in _FOR_FEW.items():
        given = conf.get(key)
        if given is not None and given != _ALWAYS.get(key):
            continue
        if rows <= FEW_RECORDS:
            session.conf.set(key, value)
        elif given is None:
            session.conf.unset(key)
        else:
            session.conf.set(key, given)


def _start_jvm(conf: "SparkConf", log: Path | None) -> None:
    """As Spark itself would, but that all of it is written to `log`. Raises NoSpark."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise NoSpark(f"JAVA_HOME is {home}, and there is no bin/java in it: correct or unset it.")
    if not home and shutil.which("java") is None:
        raise NoSpark(
            f"Spark needs Java {JAVA_WANTED} or later, and there is no `java`: install one (apt "
            "install default-jre-headless, brew install openjdk), or set JAVA_HOME."
        )
    with (log or Path(os.devnull)).open("wb") as file:
        # A signal to our process group (of a supervisor, of a terminal) is ours to heed: the batch
        # is finished first, and the JVM is needed for that. It ends when we do.
        how = {"start_new_session": True, **({"stdout": file, "stderr": file} if log else {})}
        try:
            gateway = launch_gateway(conf, how)  # type: ignore[no-untyped-call]
            SparkContext._ensure_initialized(gateway=gateway, conf=conf)
        except PySparkRuntimeError as error:
            raise NoSpark(_why_not(log)) from error


def _why_not(log: Path | None) -> str:
    """Of a JVM that ended before it was there."""
    told = log.read_text(errors="replace").splitlines() if log else []
    # The class files of Spark 4 are of Java 17; an older one says so, or knows none of the flags.
    if any("UnsupportedClassVersion" in line or "Unrecognized" in line for line in told):
        return f"This Java is too old: Spark needs {JAVA_WANTED} or later; set JAVA_HOME to one."
    lines = (line.strip() for line in told if not line.startswith("WARNING"))
    said = next(filter(None, lines), "it said nothing")
    return f"Java could not start Spark, which needs Java {JAVA_WANTED} or later: {said}"
