"""The examples in other languages: their own test runners, with `kohort` on the PATH.

Each is copied first, so that its tools do not write into the project. The tools download their
libraries once per machine.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.running_broker import CLEAN_ENVIRONMENT

EXAMPLES = Path(__file__).parents[2] / "examples"


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not on the PATH: {', '.join(missing)}")


def run(folder: Path, *command: str) -> str:
    """Run a command that must succeed, and return its output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, cwd=folder, env={**CLEAN_ENVIRONMENT, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def example(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the folder that the test is about."""
    there = shutil.ignore_patterns("target", "node_modules")
    return Path(shutil.copytree(EXAMPLES / request.param, tmp_path / "example", ignore=there))


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.toolchain
@pytest.mark.parametrize("example", ["java"], indirect=True)
def test_the_example_in_java_runs_in_junit(example: Path) -> None:
    run(example, "mvn", "-q", "-B", "test")
    (report,) = (example / "target" / "surefire-reports").glob("*.txt")
    assert "Tests run: 1, Failures: 0, Errors: 0, Skipped: 0" in report.read_text()


@needs("go")
@pytest.mark.clients
@pytest.mark.slow
@pytest.mark.toolchain
@pytest.mark.parametrize("example", ["go"], indirect=True)
def test_the_example_in_go_runs_in_go_test(example: Path) -> None:
    assert "--- PASS: TestAService" in run(example, "go", "test", "-count=1", "-v", "./...")


@needs("node", "npm")
@pytest.mark.clients
@pytest.mark.slow
@pytest.mark.toolchain
@pytest.mark.parametrize("example", ["node"], indirect=True)
def test_the_example_in_node_runs_in_node_test(example: Path) -> None:
    run(example, "npm", "ci", "--no-audit", "--no-fund", "--prefer-offline")
    assert "# pass 1\n# fail 0\n" in run(example, "npm", "test", "--", "--test-reporter=tap")
