"""`python -m benchmarks` in small: each part runs to its end, prints a table, leaves nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("disk", "starts", "loads", "transfers", "memory", "wake", "compaction")
# Everything is a hundred times smaller, but for what only shows at some size: a snapshot is for a
# partition of ten thousand records.
SCALES = {"wake": 0.07, "compaction": 0.05}
PARTS_SECONDS_MAX = 300

pytestmark = pytest.mark.slow


def run(part: str, folder: Path) -> tuple[str, Any]:
    """What is printed, and the part's results."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KOHORT_BENCH_")}
    scratch, results = folder / "scratch", folder / "results.json"
    scratch.mkdir()
    flags = ("--rounds", "1", "--seconds", "0.2", "--scale", str(SCALES.get(part, 0.01)))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", part, *flags, "--json", str(results)],
        cwd=ROOT,
        env={**environment, "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        timeout=PARTS_SECONDS_MAX,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # The compilers have folders of their own there.
    assert list(scratch.glob("kohort-bench-*")) == []
    return done.stdout, json.loads(results.read_text())[part]


def test_all_parts_are_listed_here() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"], cwd=ROOT, capture_output=True, text=True
    )
    assert ", ".join(PARTS) in " ".join(done.stdout.split())
    told = (ROOT / "benchmarks" / "README.md").read_text()
    assert [part for part in PARTS if f"| `{part}` |" not in told] == []


@pytest.mark.parametrize("part", ["disk", "starts", "loads", "transfers"])
def test_a_part_tells_its_figures_and_ends(part: str, tmp_path: Path) -> None:
    _, results = run(part, tmp_path)
    # Without Go there is nobody to transfer records.
    assert results or part == "transfers"


def test_memory_is_told_for_a_bounded_cache_too(tmp_path: Path) -> None:
    shown, results = run("memory", tmp_path)
    assert "kohort os, --cache-offsets 1000" in shown
    assert results["kohort os, --cache-offsets 1000"]["idle_mib"] > 0


def test_waking_is_told_with_and_without_snapshots(tmp_path: Path) -> None:
    shown, results = run("wake", tmp_path)
    assert "Process start to the first OffsetFetch" in shown
    ours = [row for row in results if row["offsets"] == 70_000]
    assert [(row["name"], row["records"]) for row in ours if row["name"].startswith("kohort")] == [
        ("kohort, without snapshot", 70_000),
        ("kohort, without snapshot", 700_000),
        ("kohort, with snapshot", 700_000),
    ]
    assert all(0 < row["first_s"] <= row["all_s"] for row in results)


def test_commits_are_loaded_with_and_without_a_compaction_under_way(tmp_path: Path) -> None:
    _, results = run("compaction", tmp_path)
    for found in results["serving"].values():
        assert found["without"]["compactions"] == 0
        assert found["with"]["compactions"] > 0
        assert found["with"]["on_disk_per_live"] < found["without"]["on_disk_per_live"]
    assert results["alone"]["written_per_appended"] > 0
