"""The measured servers, each a separate process on a free port of 127.0.0.1."""

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
STOP_SECONDS_MAX = 10
# With a hundred thousand groups, Kafka takes a long time to stop.
STOP_KAFKA_SECONDS_MAX = 60
ADDRESS = re.compile(r"(?:listening on|ready) (\S+:\d+)")
# A command that starts Kafka on {port} and {port}+1 with its data in {folder}, prints
# `ready HOST:PORT`, and stops it on SIGTERM. Settings may be appended as arguments KEY=VALUE.
KAFKA_START = "KOHORT_BENCH_KAFKA_START"

# As in Kafka's images for tests: rebalances of a new group start without a delay.
KOHORT_OPTIONS = ("group.initial.rebalance.delay.ms=0",)

# kohort uses uvloop if it is installed. This program hides uvloop, to measure plain asyncio.
WITHOUT_UVLOOP = (
    "import sys; sys.modules['uvloop'] = None; "
    "from kohort.cli.main import main; sys.exit(main(sys.argv[1:]))"
)


@dataclass(frozen=True)
class Server:
    name: str
    address: str
    pid: int
    startup_s: float
    """The seconds from the start of the process to the line with its address."""
    echoes: bool = False
    load_options: tuple[str, ...] = ()
    """Options with which the load client connects to the server."""


@contextlib.contextmanager
def running(
    name: str,
    command: list[str],
    *,
    echoes: bool = False,
    stop_seconds_max: float = STOP_SECONDS_MAX,
    stderr: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Run a server until the block ends. The server prints `… listening on HOST:PORT`, or `ready`
    instead of `listening on`.

    stderr: a file for its standard error; env: added to the environment."""
    with tempfile.TemporaryFile() if stderr is None else stderr.open("wb+") as errors:
        started = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
            env={**os.environ, **(env or {})},
        )
        assert process.stdout is not None
        try:
            output = ""
            # Kafka prints other lines first.
            while (found := ADDRESS.search(output)) is None:
                line = process.stdout.readline()
                output += line
                if not line:
                    errors.seek(0)
                    raise SystemExit(f"{name} did not start:\n{output}{errors.read().decode()}")
            yield Server(name, found[1], process.pid, time.perf_counter() - started, echoes)
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(stop_seconds_max)
            # Kill its children as well, because a script may leave a JVM running.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdout.close()


def kohort_command(
    durability: str,
    data_dir: Path,
    *,
    program: Sequence[str] = ("-m", "kohort"),
    options: Sequence[str] = (),
) -> list[str]:
    """Return the command of a broker. options: settings, each key=value."""
    command = [sys.executable, *program, "serve", "--port", "0", "--host", "127.0.0.1"]
    # Otherwise a benchmark with 100,000 groups would measure their log lines.
    command += ["--durability", durability, "--data-dir", str(data_dir), "--log-level", "warning"]
    for option in (*KOHORT_OPTIONS, *options):
        command += ["-o", option]
    return command


@contextlib.contextmanager
def kohort(
    durability: str,
    folder: Path,
    *,
    uvloop: bool = True,
    name: str = "",
    options: Sequence[str] = (),
) -> Iterator[Server]:
    name = name or f"kohort {durability}" + ("" if uvloop or not has_uvloop() else ", asyncio")
    program = ("-m", "kohort") if uvloop else ("-c", WITHOUT_UVLOOP)
    with data_dir(folder) as data:
        command = kohort_command(durability, data, program=program, options=options)
        with running(name, command) as server:
            yield server


@contextlib.contextmanager
def echo(loop: str) -> Iterator[Server]:
    command = [sys.executable, str(HERE / "echo.py"), loop]
    with running(f"{loop} echo", command, echoes=True) as server:
        yield server


@contextlib.contextmanager
def kfake(
    program: Path, folder: Path, *, disk: bool = False, sync: bool = False
) -> Iterator[Server]:
    """franz-go's fake cluster: in memory, with files, or with fsync."""
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
    """Return the running cluster at KOHORT_BENCH_KAFKA=HOST:PORT."""
    address = os.environ.get("KOHORT_BENCH_KAFKA")
    return None if address is None else Server("Kafka", address, pid=0, startup_s=0)


def can_start_kafka() -> bool:
    return bool(os.environ.get(KAFKA_START))


@contextlib.contextmanager
def kafka(folder: Path, options: Sequence[str] = ()) -> Iterator[Server]:
    """Start Kafka with its data in `folder`, which may contain data of an earlier run. options:
    settings, each key=value, in which {port} and {controller_port} are its ports."""
    command = [*shlex.split(os.environ[KAFKA_START]), *options]
    port = free_port()
    values = {"port": port, "controller_port": port + 1, "folder": folder}
    command = [argument.format(**values) for argument in command]
    with running("Kafka", command, stop_seconds_max=STOP_KAFKA_SECONDS_MAX) as server:
        yield server


@contextlib.contextmanager
def new_kafka(folder: Path) -> Iterator[Server]:
    with data_dir(folder) as data, kafka(data) as server:
        yield server


def free_port() -> int:
    """Return a port such that it and the next port are free.

    It is below the ephemeral ports, which a client could take before the server listens."""
    for port in range(20_000, 30_000, 2):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            socket.create_server(("127.0.0.1", port + 1)).close()
            return port
    raise SystemExit("no free port between 20000 and 30000")


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
    """Return KOHORT_BENCH_KFAKE, or kfake built from benchmarks/kfake if Go is installed."""
    program = os.environ.get("KOHORT_BENCH_KFAKE")
    if program:
        return Path(program)
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
        print(f"{module.name} is skipped, because its build failed:\n{built.stderr.strip()}")
        return None
    return program


def resident_mib(server: Server) -> float | None:
    """Return the resident memory of the process and its children, or None without /proc."""
    if not Path(f"/proc/{server.pid}/status").exists():
        return None
    return sum(map(memory_kib, with_children(server.pid))) / 1024


def with_children(pid: int) -> Iterator[int]:
    yield pid
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            for child in file.read_text().split():
                yield from with_children(int(child))


def memory_kib(pid: int, figure: str = "VmRSS") -> int:
    """Return a figure of /proc/PID/status; 0 if the process has ended."""
    with contextlib.suppress(OSError):
        found = re.search(rf"{figure}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) if found else 0
    return 0
