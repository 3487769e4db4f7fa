"""The servers that are measured: each a process of its own on a free port of 127.0.0.1."""

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 10
ADDRESS = re.compile(r"listening on (\S+:\d+)")

# Kafka's images set this for tests too: a group of a benchmark need not wait for latecomers.
KOHORT_OPTIONS = ("group.initial.rebalance.delay.ms=0",)

# kohort takes uvloop where it is installed; this hides it, to see what asyncio alone gives.
WITHOUT_UVLOOP = (
    "import sys; sys.modules['uvloop'] = None; "
    "from kohort.cli.main import main; sys.exit(main(sys.argv[1:]))"
)


@dataclass(frozen=True)
class Server:
    name: str
    address: str
    pid: int
    started_after: float
    """Seconds from the start of the process to the line that says it listens."""
    echoes: bool = False


@contextlib.contextmanager
def running(name: str, command: list[str], *, echoes: bool = False) -> Iterator[Server]:
    """The server that prints `… listening on HOST:PORT`, until the block ends."""
    with tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        try:
            found = ADDRESS.search(process.stdout.readline())
            if found is None:
                process.kill()
                errors.seek(0)
                raise SystemExit(f"{name} did not start:\n{errors.read().decode()}")
            yield Server(name, found[1], process.pid, time.perf_counter() - began, echoes)
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS_MAX)
            process.kill()
            process.wait()
            process.stdout.close()


def kohort_command(durability: str, data_dir: Path, *, uvloop: bool = True) -> list[str]:
    program = ["-m", "kohort"] if uvloop else ["-c", WITHOUT_UVLOOP]
    command = [sys.executable, *program, "serve", "--port", "0", "--host", "127.0.0.1"]
    # A benchmark of 100,000 groups shall not measure their log lines.
    command += ["--durability", durability, "--data-dir", str(data_dir), "--log-level", "warning"]
    for option in KOHORT_OPTIONS:
        command += ["-o", option]
    return command


@contextlib.contextmanager
def kohort(durability: str, folder: Path, *, uvloop: bool = True) -> Iterator[Server]:
    name = f"kohort {durability}" + ("" if uvloop or not has_uvloop() else ", asyncio")
    with (
        data_dir(folder) as data,
        running(name, kohort_command(durability, data, uvloop=uvloop)) as s,
    ):
        yield s


@contextlib.contextmanager
def echo(loop: str) -> Iterator[Server]:
    command = [sys.executable, str(HERE / "echo.py"), loop]
    with running(f"{loop} echo", command, echoes=True) as server:
        yield server


@contextlib.contextmanager
def kfake(
    program: Path, folder: Path, *, disk: bool = False, sync: bool = False
) -> Iterator[Server]:
    """franz-go's fake cluster: in memory, with files, or with files that it syncs."""
    name = "kfake fsync" if sync else "kfake os" if disk else "kfake"
    with data_dir(folder) as data:
        command = [str(program)]
        if disk:
            command.append(str(data))
        if sync:
            command.append("sync")
        with running(name, command) as server:
            yield server


def real_kafka() -> Server | None:
    """A cluster that runs already: KOHORT_BENCH_KAFKA=HOST:PORT."""
    address = os.environ.get("KOHORT_BENCH_KAFKA")
    return None if address is None else Server("Kafka", address, pid=0, started_after=0)


@contextlib.contextmanager
def data_dir(folder: Path) -> Iterator[Path]:
    data = Path(tempfile.mkdtemp(dir=folder))
    try:
        yield data
    finally:
        shutil.rmtree(data)


def has_uvloop() -> bool:
    return importlib.util.find_spec("uvloop") is not None


def build_kfake(folder: Path) -> Path | None:
    """The program: KOHORT_BENCH_KFAKE, or built from benchmarks/kfake where Go is installed."""
    given = os.environ.get("KOHORT_BENCH_KFAKE")
    if given:
        return Path(given)
    return go_build(HERE / "kfake", folder / "kfake")


def go_build(module: Path, program: Path) -> Path | None:
    go = shutil.which("go")
    if go is None:
        return None
    built = subprocess.run(
        [go, "build", "-buildvcs=false", "-o", str(program), "."],
        cwd=module,
        capture_output=True,
        text=True,
    )
    if built.returncode:
        print(f"Go could not build {module.name}, which is left out:\n{built.stderr.strip()}")
        return None
    return program


def resident_mib(server: Server) -> float | None:
    """Resident memory now; None where the system has no /proc."""
    status = Path(f"/proc/{server.pid}/status")
    if not status.exists():
        return None
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text())
    assert found is not None
    return int(found[1]) / 1024
