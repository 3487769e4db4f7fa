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

# Up to this many rows, code generation, Python workers and adaptive execution cost more time than
# they save.
FEW_RECORDS: Final = 100_000

JAVA_MIN: Final = 17

_ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
    # The default, INT96, is deprecated and has no statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    # Groups have few rows.
    "spark.sql.shuffle.partitions": "4",
}
# For a local session: unreachable from other machines, and with enough memory for a batch of a
# million records and its windows.
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    # The C2 compiler never pays off for hundreds of small queries (measured up to 60,000
    # generations of three members, and ten million commits).
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
_FOR_FEW = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


class SparkUnavailable(Exception):
    """Spark or Java is missing or does not start; the message says what to install."""


def new_session(
    master: str | None = None, more: Mapping[str, str] | None = None, log: Path | None = None
) -> "SparkSession":
    """Return a session. `master`: by default the master of `spark-submit`, or all local cores.
    `log`: a file for the output of Spark, its JVM and its workers; None: standard error. Raises
    SparkUnavailable."""
    try:
        from pyspark import SparkConf
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkUnavailable(
            "Spark is not installed: run pip install './kohort[pipeline]' in the folder that "
            "contains the clone."
        ) from error

    # By default workers run the first `python3` in PATH, which may lack kohort, and exit silently.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    submitted = "SPARK_ENV_LOADED" in os.environ
    is_local = not submitted and (master or "local").startswith("local")
    if is_local:
        # Avoids the lookup of the host name, and a warning about its result.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf().setAppName("kohort")
    conf.setAll([*_ALWAYS.items(), *(_LOCAL.items() if is_local else ())])
    conf.setAll(list((more or {}).items()))
    if master is not None or not submitted:
        conf.setMaster(master or "local[*]")
    if not submitted and SparkSession.getActiveSession() is None:
        _start_jvm(conf, log)
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def tune(session: "SparkSession", rows: int) -> None:
    """Configure the session for queries over this many rows; the user's settings are kept."""
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
    """Start the JVM as Spark does, with its output in `log`. Raises SparkUnavailable."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise SparkUnavailable(f"JAVA_HOME is {home}, which has no bin/java: correct or unset it.")
    if not home and shutil.which("java") is None:
        raise SparkUnavailable(
            f"Spark needs Java {JAVA_MIN} or later, and `java` was not found: install it (apt "
            "install default-jre-headless, brew install openjdk), or set JAVA_HOME."
        )
    with (log or Path(os.devnull)).open("wb") as file:
        # The JVM does not receive signals sent to the process group (by a terminal or a
        # supervisor), because it is needed to finish the batch. It ends with this process.
        options = {"start_new_session": True, **({"stdout": file, "stderr": file} if log else {})}
        try:
            gateway = launch_gateway(conf, options)  # type: ignore[no-untyped-call]
            SparkContext._ensure_initialized(gateway=gateway, conf=conf)
        except PySparkRuntimeError as error:
            raise SparkUnavailable(_start_failure(log)) from error


def _start_failure(log: Path | None) -> str:
    output = log.read_text(errors="replace").splitlines() if log else []
    # Spark 4 is compiled for Java 17; an older JVM reports that, or rejects one of the flags.
    if any("UnsupportedClassVersion" in line or "Unrecognized" in line for line in output):
        return f"This Java is too old: set JAVA_HOME to Java {JAVA_MIN} or later."
    lines = (line.strip() for line in output if not line.startswith("WARNING"))
    first = next(filter(None, lines), "no output")
    return f"Java could not start Spark, which needs Java {JAVA_MIN} or later: {first}"
