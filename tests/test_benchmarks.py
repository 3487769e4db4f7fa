"""`python -m benchmarks` in small: each part runs to its end, prints a table, leaves nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SMALL_PARTS = ("disk", "starts", "loads", "transfers", "memory", "assignors", "harness", "pipeline")
PARTS = (*SMALL_PARTS[:-1], "wake", "compaction", "pipeline")
# A hundred times smaller. Compaction only shows at some size, and after some time.
SCALES = {"wake": 0.007, "compaction": 0.05}
SECONDS = {"compaction": 0.2}
# A snapshot is for a partition of ten thousand records; in the brokers of this test, of fewer.
SMALLER = "from kohort.broker import snapshots; snapshots.EVERY_RECORDS = 200"
PARTS_SECONDS_MAX = 300

pytestmark = pytest.mark.slow


def run(folder: Path, *parts: str) -> tuple[str, Any]:
    """What is printed, and the results by part."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KOHORT_BENCH_")}
    scratch, results = folder / "scratch", folder / "results.json"
    scratch.mkdir()
    if "wake" in parts:
        (folder / "sitecustomize.py").write_text(SMALLER)
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
    # The compilers have folders of their own there.
    assert list(scratch.glob("kohort-bench-*")) == []
    return done.stdout, json.loads(results.read_text())


def test_all_parts_are_listed_here() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert ", ".join(PARTS) in " ".join(done.stdout.split())
    told = (ROOT / "benchmarks" / "README.md").read_text()
    assert [part for part in PARTS if f"| `{part}` |" not in told] == []


def test_small_parts_tell_their_figures_and_end(tmp_path: Path) -> None:
    """All in one run: the programs that they load with are compiled once."""
    shown, results = run(tmp_path, *SMALL_PARTS)
    assert results["disk"]
    assert results["starts"]
    assert results["loads"]
    assert "transfers" in results  # empty without Go: there is nobody to transfer records
    assert "kohort os, --cache-offsets 1000" in shown
    assert "Milliseconds for an assignment, unequal subscriptions" in shown
    assert all(cell["kohort"] > 0 and "kafka-python" in cell for cell in results["assignors"])
    assert "The harness, median" in shown
    assert all(each["kohort"] > 0 for each in results["harness"].values())
    assert "An offsets log to Arrow" in shown
    assert all(of["records_s"] > 0 for of in results["pipeline"]["source"].values())
    assert results["memory"]["kohort os, --cache-offsets 1000"]["idle_mib"] > 0


def test_waking_is_told_with_and_without_snapshots(tmp_path: Path) -> None:
    shown, results = run(tmp_path, "wake")
    assert "Process start to the first OffsetFetch" in shown
    ours = [row for row in results["wake"] if row["offsets"] == 7_000]
    assert [(row["name"], row["records"]) for row in ours if row["name"].startswith("kohort")] == [
        ("kohort, without snapshot", 7_000),
        ("kohort, without snapshot", 70_000),
        ("kohort, with snapshot", 70_000),
    ]
    assert all(0 < row["first_s"] <= row["all_s"] for row in results["wake"])


def test_commits_are_loaded_with_and_without_a_compaction_under_way(tmp_path: Path) -> None:
    _, all_results = run(tmp_path, "compaction")
    results = all_results["compaction"]
    for found in results["serving"].values():
        assert found["without"]["compactions"] == 0
        assert found["with"]["compactions"] > 0
        assert found["with"]["on_disk_per_live"] < found["without"]["on_disk_per_live"]
    assert results["alone"]["written_per_appended"] > 0
