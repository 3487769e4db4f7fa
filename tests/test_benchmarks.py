"""`python -m benchmarks` at a small scale: each part prints a table and removes its files."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SMALL_PARTS = (
    *("disk", "starts", "loads", "security", "transfers"),
    *("memory", "assignors", "harness", "pipeline"),
)
PARTS = (*SMALL_PARTS[:-1], "recovery", "compaction", "pipeline")
# Most parts run at 0.01; compaction needs a larger log and a longer load.
SCALES = {"recovery": 0.007, "compaction": 0.05}
SECONDS = {"compaction": 0.2}
# Brokers of this test write snapshots of smaller partitions.
SMALLER_SNAPSHOTS = "from kohort.broker.runtime import snapshots; snapshots.EVERY_RECORDS = 200"
PARTS_SECONDS_MAX = 300

pytestmark = pytest.mark.slow


def run(folder: Path, *parts: str) -> tuple[str, Any]:
    """Return the output and the results by part."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KOHORT_BENCH_")}
    scratch, results = folder / "scratch", folder / "results.json"
    scratch.mkdir()
    if "recovery" in parts:
        (folder / "sitecustomize.py").write_text(SMALLER_SNAPSHOTS)
        paths = (str(folder), environment.get("PYTHONPATH", ""))
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    scale, seconds = SCALES.get(parts[0], 0.01), SECONDS.get(parts[0], 0.1)
    flags = ("--rounds", "1", "--seconds", str(seconds), "--scale", str(scale))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *parts, *flags, "--json", str(results)],
        cwd=ROOT,
        env={**environment, "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        timeout=PARTS_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # The folders of the compilers remain.
    assert list(scratch.glob("kohort-bench-*")) == []
    return done.stdout, json.loads(results.read_text())


def test_help_and_readme_list_all_parts() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert ", ".join(PARTS) in " ".join(done.stdout.split())
    readme = (ROOT / "benchmarks" / "README.md").read_text()
    assert [part for part in PARTS if f"| `{part}` |" not in readme] == []


def test_small_parts_print_and_store_their_figures(tmp_path: Path) -> None:
    """One run for all parts, so that Go compiles the load client once."""
    shown, results = run(tmp_path, *SMALL_PARTS)
    assert results["disk"]
    assert results["starts"]
    assert results["loads"]
    assert "security" in results  # this and the next are empty without Go
    assert "transfers" in results
    assert "kohort os, --cache-offsets 1000" in shown
    assert "Milliseconds for an assignment, different subscriptions" in shown
    assert all(cell["kohort"] > 0 and "kafka-python" in cell for cell in results["assignors"])
    assert "kohort.testing, median" in shown
    assert all(each["kohort"] > 0 for each in results["harness"].values())
    assert "Decoding an offsets log to Arrow" in shown
    assert all(of["records_s"] > 0 for of in results["pipeline"]["source"].values())
    assert results["memory"]["kohort os, --cache-offsets 1000"]["idle_mib"] > 0


def test_recovery_is_measured_with_and_without_snapshots(tmp_path: Path) -> None:
    shown, results = run(tmp_path, "recovery")
    assert "Process start to the first OffsetFetch" in shown
    ours = [row for row in results["recovery"] if row["offsets"] == 7_000]
    assert [(row["name"], row["records"]) for row in ours if row["name"].startswith("kohort")] == [
        ("kohort, without snapshot", 7_000),
        ("kohort, without snapshot", 70_000),
        ("kohort, with snapshot", 70_000),
    ]
    assert all(0 < row["first_s"] <= row["all_s"] for row in results["recovery"])


def test_commits_are_measured_with_and_without_continuous_compaction(tmp_path: Path) -> None:
    _, all_results = run(tmp_path, "compaction")
    results = all_results["compaction"]
    for found in results["server"].values():
        assert found["without"]["compactions"] == 0
        assert found["with"]["compactions"] > 0
        assert found["with"]["on_disk_per_current"] < found["without"]["on_disk_per_current"]
    assert results["offline"]["written_per_appended"] > 0
