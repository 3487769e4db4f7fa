"""The demo's last word: what the pipeline, which reads the broker's own log with Spark, says of the
group that has just counted."""

import shutil
import subprocess
import sys
from pathlib import Path

from rich.console import Console

SECONDS_MAX = 180  # Spark starts in seven seconds on a quiet machine, and in sixty on a busy one
WITHOUT_JAVA = (
    "With Java 17 or newer (apt install default-jre-headless, brew install openjdk) Spark would "
    "now read the broker's log and say why the group was rebalanced."
)


def say_why(console: Console, folder: Path, group: str) -> bool:
    """Whether it could be asked, or there is no Java to ask it with."""
    if shutil.which("java") is None:
        console.print(WITHOUT_JAVA)
        return True
    lake = str(folder / "lake")
    console.print("Spark reads the broker's log now, and says what it makes of it ...")
    for words in (
        ["pipeline", "run", "--log", str(folder / "data"), "--lake", lake],
        ["why", group, "--lake", lake],
    ):
        command = [sys.executable, "-m", "kohort", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
        if done.returncode != 0:
            console.print(f"[red]NO [/]  kohort {' '.join(words)}:\n{done.stderr}")
            return False
    console.print(f"\n[bold]$ kohort why {group}[/]")
    console.print(done.stdout, markup=False, soft_wrap=True)
    return True
