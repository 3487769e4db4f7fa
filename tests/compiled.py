"""Build kohort with compiled modules (setup.py) and test them: `make compiled`.

python tests/compiled.py build      unpack the built wheel into build/compiled
python tests/compiled.py test       run the tests on it
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from support.builds import ROOT, built_wheel, run

INSTALLED = ROOT / "build" / "compiled"
TESTS = (
    "tests/broker",
    "tests/clients/test_commits.py",
    "tests/clients/test_groups.py",
    "tests/crash/test_acknowledged_commits_survive.py",
    "tests/log",
    "tests/offsets",
    "tests/parity",
    "tests/simulation",
    # The tests of the harness that act on compiled modules directly. Other tests call them as
    # clients do.
    "tests/testing/test_consumer_groups.py",
    "tests/testing/test_disk.py",
    "tests/testing/test_faults.py",
    "tests/testing/test_group_control.py",
    "tests/testing/test_lifecycle.py",
    "tests/testing/test_network.py",
    "tests/testing/test_restarts.py",
    "tests/testing/test_session_expiry.py",
    "tests/testing/test_transaction_faults.py",
    "tests/testing/test_transactional_commits.py",
)
# Tests that call no function of a compiled module (found with a profiler), or that measure time,
# which is meaningless in a build without optimization.
NOT_AFFECTED = (
    "tests/log/test_compaction_steps.py",
    *("tests/broker/test_config.py", "tests/broker/test_event_log.py"),
    *("tests/broker/test_fetch_sessions.py", "tests/broker/test_topic_metadata.py"),
    *("tests/broker/security/test_authorizer.py", "tests/broker/security/test_exchanges.py"),
    *("tests/broker/security/test_principal.py", "tests/broker/security/test_rates.py"),
)
SMOKE_TEST = "tests/clients/test_commits.py"
LEFT_OUT = ("interpreted", "java", "slow", "spark", "toolchain")
"""Markers of tests that are not affected or cannot run (pyproject.toml describes them)."""


def has_compiler() -> bool:
    """Whether there is a C compiler with the headers of this Python."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    preprocess = (*compiler, f"-I{sysconfig.get_path('include')}", "-E", "-")
    try:
        done = subprocess.run(preprocess, input=b"#include <Python.h>", capture_output=True)
    except FileNotFoundError:
        return False
    return done.returncode == 0


def passed() -> bool:
    environment = {**os.environ, "PYTHONPATH": str(INSTALLED)}
    chosen = " and ".join(f"not {mark}" for mark in LEFT_OUT)
    pytest = [Path(sys.executable).with_name("pytest"), "-q", "-m", chosen]
    pytest += ["-o", f"cache_dir={INSTALLED / 'pytest_cache'}"]
    pytest += [f"--ignore={path}" for path in NOT_AFFECTED]
    # Without this, tests of a build that does not work would wait for an hour.
    smoke = subprocess.run([*pytest, "-x", SMOKE_TEST], cwd=ROOT, env=environment)
    if smoke.returncode != 0:
        return False
    # Tests of real clients may fail on a busy machine, so failed tests run again, as in `make
    # test`.
    attempts = (("-n", "auto", *TESTS), ("--lf", "--lfnf", "none", *TESTS))
    return any(
        subprocess.run([*pytest, *how], cwd=ROOT, env=environment).returncode == 0
        for how in attempts
    )


def build() -> None:
    shutil.rmtree(INSTALLED, ignore_errors=True)
    if not has_compiler():
        return
    with TemporaryDirectory() as folder:
        # No behavior depends on optimization, and the compiler is faster without it.
        built = built_wheel(Path(folder), KOHORT_COMPILE="1", MYPYC_OPT_LEVEL="0")
        with zipfile.ZipFile(built) as wheel:
            wheel.extractall(INSTALLED)


def main(step: str) -> int:
    if step == "build":
        build()
        return 0
    if not INSTALLED.exists():
        print("NOT RUN: no C compiler with the headers of this Python, so nothing was compiled.")
        return 0
    version = (sys.executable, "-m", "kohort", "--version")
    says = run(*version, cwd=ROOT, PYTHONPATH=str(INSTALLED))
    assert says.endswith("(compiled)\n"), says
    return 0 if passed() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
