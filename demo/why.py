"""The last step of the demo: the pipeline reads the broker's log with Spark and explains the
rebalances of the group."""

import shutil
import subprocess
import sys
from pathlib import Path

from rich.console import Console

SECONDS_MAX = 180  # Spark starts in seven seconds on an idle machine, and in sixty on a busy one
WITHOUT_JAVA = (
    "With Java 17 or newer (apt install default-jre-headless, brew install openjdk), Spark would "
    "now read the broker's log and explain the group's rebalances."
)


def explain_rebalances(console: Console, folder: Path, group: str) -> bool:
    """Run `kohort why`. Return False if it fails. Without Java, only print a hint."""
    if shutil.which("java") is None:
        console.print(WITHOUT_JAVA)
        return True
    lake = str(folder / "lake")
    console.print("Spark reads the broker's log ...")
    for arguments in (
        ["pipeline", "run", "--log", str(folder / "data"), "--lake", lake],
        ["why", group, "--lake", lake],
    ):
        command = [sys.executable, "-m", "kohort", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
        if done.returncode != 0:
            console.print(f"[red]NO [/]  kohort {' '.join(arguments)}:")
            console.print(done.stderr, markup=False, soft_wrap=True)
            return False
    console.print(f"\n[bold]$ kohort why {group}[/]")
    console.print(done.stdout, markup=False, soft_wrap=True)
    return True
