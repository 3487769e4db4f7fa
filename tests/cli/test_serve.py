"""`kohort serve` as a process: first line, shutdown, log lines, errors, memory."""

import json
import logging
import os
import platform
import shutil
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from kohort import __version__
from kohort.cli.logs import PENDING_BYTES_MAX, TextFormatter, ThreadedHandler
from kohort.cli.serve import GLIBC_VARIABLES
from kohort.log.batch import BatchBuilder
from support.running_broker import CLEAN_ENVIRONMENT, TIMEOUT_SECONDS, kohort, start_broker


def test_the_first_line_has_the_address_and_clients_can_connect(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--port", "0", "--data-dir", "data") as served:
        assert served.first_line == (
            f"kohort {__version__} listening on 127.0.0.1:{served.port} "
            "(data data, durability fsync)\n"
        )
        assert kohort("health", "--bootstrap-server", served.bootstrap).returncode == 0
        assert (tmp_path / "data").is_dir()


def test_the_default_data_folder_is_in_the_working_directory(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--port", "0", "--durability", "os") as served:
        assert served.first_line.endswith("(data kohort-data, durability os)\n")
        assert (tmp_path / "kohort-data").is_dir()


def test_with_durability_none_no_folder_is_created(tmp_path: Path) -> None:
    args = ("--durability", "none", "--data-dir", "d", "--events", "all", "--cache-offsets", "9")
    with start_broker(tmp_path, "--port", "0", *args) as served:
        assert served.first_line.endswith("(data in memory, durability none)\n")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["stderr"]
        errors = served.errors.read_text()
        assert "log.dirs=d (from --data-dir) has no effect" in errors
        assert "kohort.events=all (from --events) has no effect" in errors
        assert "kohort.cache.offsets=9 (from --cache-offsets) has no effect" in errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_it_cleanly_with_clients_connected(
    tmp_path: Path, request: pytest.FixtureRequest, number: int
) -> None:
    # `nohup` ignores SIGHUP for all its descendants.
    previous = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    request.addfinalizer(lambda: signal.signal(signal.SIGHUP, previous))
    with start_broker(tmp_path, "--port", "0", "--data-dir", "data") as served:
        with socket.create_connection((served.host, served.port)) as client:
            assert served.stop(number) == 0
            assert client.recv(1) == b""
        assert "Traceback" not in served.errors.read_text()


def test_log_lines_have_kafkas_format(tmp_path: Path) -> None:
    unknown = ("-o", "num.partition=6", "--allow-unknown-config")
    with start_broker(tmp_path, "--port", "0", *unknown) as served:
        assert served.stop() == 0
        line = served.errors.read_text().splitlines()[0]
    stamp, _, rest = line.partition("] ")
    assert len(stamp) == len("[2026-01-01 00:00:00,000")
    assert rest == (
        "WARN unknown configuration key 'num.partition' (from -o): "
        "did you mean num.partitions? (kohort.serve)"
    )


def test_lines_of_a_traceback_are_escaped_and_indented() -> None:
    formatter = TextFormatter()
    try:
        raise ValueError("name\n[2026-01-01 00:00:00,000] INFO forged\r\x1b[2J")
    except ValueError:
        record = logging.LogRecord("k", logging.ERROR, "", 0, "failed\n%s", ("a",), sys.exc_info())
    first, *lines = formatter.format(record).split("\n")
    assert first.endswith(r" ERROR failed\na (k)")
    assert lines[0] == "    Traceback (most recent call last):"
    assert lines[-1] == r"    [2026-01-01 00:00:00,000] INFO forged\r\x1b[2J"


def test_log_lines_beyond_a_full_pipe_are_dropped_and_counted() -> None:
    reading, writing = os.pipe()
    handler = ThreadedHandler(writing)
    handler.setFormatter(TextFormatter())
    logger = logging.Logger("flood")
    logger.addHandler(handler)
    logging.getLogger("kohort.serve").addHandler(handler)
    count = 3 * PENDING_BYTES_MAX // 1000
    for _ in range(count):
        logger.warning("%s", "x" * 1000)
    lines = list[str]()
    with os.fdopen(reading) as stream:
        while "dropped" not in (line := stream.readline()):
            lines.append(line)
        handler.close()
    os.close(writing)
    logging.getLogger("kohort.serve").removeHandler(handler)
    assert f" {count - len(lines)} log lines were dropped: standard error was not read" in line


def test_log_levels_may_be_in_upper_case(tmp_path: Path) -> None:
    warned = ("-o", "num.io.threads=6")  # a key without effect
    with start_broker(tmp_path, "--port", "0", "--log-level", "ERROR", *warned) as served:
        assert served.stop() == 0
        assert served.errors.read_text() == ""


def test_a_closed_standard_output_is_not_reported_as_an_error() -> None:
    """`head` closes the pipe in `kohort … | head`."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "kohort", "serve", "--print-config"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "command",
    ["serve --port 0 --control-port 0", "serve --print-config", "assign --assignor range"],
)
def test_a_full_device_as_standard_output_is_reported_in_a_sentence(command: str) -> None:
    arguments = [sys.executable, "-m", "kohort", *command.split()]
    if command.startswith("assign"):
        arguments += ["--topic", "t=1", "--member", "a=t"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, text=True)
    lines = [line for line in done.stderr.splitlines() if " INFO " not in line]
    problem = "no space left for standard output or data: free some space."
    assert (done.returncode, lines) == (2, [f"kohort {command.split()[0]}: {problem}"])


@pytest.mark.parametrize("closed", ["<&-", "2>&-", "<&- 2>&-"])
def test_it_stops_cleanly_if_a_standard_stream_was_closed_at_the_start(
    tmp_path: Path, closed: str
) -> None:
    """This covers the control port. tests/hostile/test_restarts.py covers a broker without it."""
    serve = [sys.executable, "-m", "kohort", "serve", "--port", "0", "--control-port", "0"]
    process = subprocess.Popen(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *serve],
        cwd=tmp_path,
        env=CLEAN_ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert "listening" in process.stdout.readline()
        process.terminate()
        _, err = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, err


def test_output_to_a_closed_standard_stream_is_discarded() -> None:
    command = [sys.executable, "-m", "kohort", "serve", "--print-config"]
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    done = subprocess.run(shell, stderr=subprocess.PIPE, env=CLEAN_ENVIRONMENT, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_broker_under_nohup_ignores_sighup(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with start_broker(tmp_path, "--port", "0", "--durability", "none") as served:
            served.process.send_signal(signal.SIGHUP)
            assert kohort("health", "--bootstrap-server", served.bootstrap).returncode == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_each_node_listens_on_a_port_of_its_own(tmp_path: Path) -> None:
    args = ("--port", "0", "--nodes", "3", "--durability", "none")
    with start_broker(tmp_path, *args) as served:
        addresses = served.first_line.split(" listening on ")[1].split(" (data")[0].split(",")
        assert len(set(addresses)) == 3
        for address in addresses:
            assert kohort("health", "--bootstrap-server", address).returncode == 0
        assert served.stop() == 0


def test_log_lines_can_be_json(tmp_path: Path) -> None:
    with start_broker(
        tmp_path, "--port", "0", "-o", "num.io.threads=6", "--log-format", "json"
    ) as served:
        assert served.stop() == 0
        lines = [json.loads(line) for line in served.errors.read_text().splitlines()]
    assert (lines[0]["level"], lines[0]["logger"]) == ("WARN", "kohort.serve")


def test_print_config_prints_every_value_and_its_origin(tmp_path: Path) -> None:
    (tmp_path / "f.properties").write_text("group.max.size=9\nnum.partitions=9\n")
    done = kohort(
        *("serve", "--print-config", "--config", "f.properties", "-o", "num.partitions=6"),
        *("--port", "0", "--durability", "os", "--profile", "kafka-2.8"),
        *("-o", "log.retentoin.ms=4", "--allow-unknown-config"),
        cwd=tmp_path,
        env={
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_BOOTSTRAP_SERVERS": "localhost:9092",
        },
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert done.stderr == (
        "kohort serve: unknown configuration key 'bootstrap.servers' "
        "(from KAFKA_BOOTSTRAP_SERVERS); it is ignored.\n"
        "kohort serve: unknown configuration key 'log.retentoin.ms' (from -o): "
        "did you mean log.retention.ms?\n"
    )
    assert "num.partitions=6  (-o)" in lines
    assert "group.max.size=9  (f.properties)" in lines
    assert "kohort.durability=os  (--durability)" in lines
    assert "kohort.profile=kafka-2.8  (--profile)" in lines
    assert "listeners=PLAINTEXT://127.0.0.1:0  (--port)" in lines
    assert "group.initial.rebalance.delay.ms=0  (KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS)" in lines
    assert "message.max.bytes=1048588  (default)" in lines
    assert not (tmp_path / "kohort-data").exists()


MISSING = (
    "missing command: one of serve, health, conformance, check, groups, acls, transactions, "
    "assign, log, pipeline, why, timeline, lag, storms, report, ctl; see `kohort --help`."
)
UNKNOWN = "unrecognized arguments: --prot; see `kohort --help`."


@pytest.mark.parametrize(("args", "message"), [("", MISSING), ("--prot", UNKNOWN)])
def test_a_missing_command_is_one_line_and_exit_code_2(args: str, message: str) -> None:
    done = kohort(*args.split())
    assert (done.stdout, done.stderr, done.returncode) == ("", f"kohort: {message}\n", 2)


USER_ERRORS = {
    "--port 65534 --nodes 3": "the last of 3 nodes would listen on port 65536: "
    "choose a lower first port, or 0 for any free ports.",
    "--prot 1": "unrecognized arguments: --prot 1: did you mean --port? See `kohort serve --help`.",
    "bogus": "unrecognized arguments: bogus; see `kohort serve --help`.",
    "--durability disk": "Invalid value disk for configuration kohort.durability: "
    "String must be one of: fsync, os, none (from --durability).",
    "--port 70000": "invalid --port 70000: expected 0 to 65535 (0: any free port).",
    f"--port {'1' * 5000}": f"invalid --port {'1' * 5000}: expected 0 to 65535 (0: any free port).",
    "-o num.partitions=0": "Invalid value 0 for configuration num.partitions: "
    "Value must be at least 1 (from -o).",
    "-o num.partition=3": "unknown configuration key 'num.partition' (from -o): "
    "did you mean num.partitions? --allow-unknown-config ignores unknown keys.",
    "--print-config -o my.plugin=3": "unknown configuration key 'my.plugin' (from -o). "
    "--allow-unknown-config ignores unknown keys.",
    "--port 0 --data-dir /dev/null/data": "/dev/null/data is not writable (Not a directory): "
    "choose another --data-dir, or --durability none.",
    "--data-dir=": "--data-dir is empty: name a folder, or omit the flag.",
    "--host 192.0.2.1 --durability none": "192.0.2.1 is not an address of this machine: "
    "choose another --host.",
    "--host a..b --durability none": "a..b is not a valid address: choose another --host.",
    "--config none.properties": "cannot read the properties file none.properties: "
    "No such file or directory.",
}


@pytest.mark.parametrize(("flags", "message"), USER_ERRORS.items(), ids=lambda each: each[:35])
def test_a_user_error_is_one_line_and_exit_code_2(tmp_path: Path, flags: str, message: str) -> None:
    done = kohort("serve", *flags.split(), cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("", f"kohort serve: {message}\n", 2)


def test_variables_and_keys_of_other_parts_of_kafka_are_no_errors(tmp_path: Path) -> None:
    (tmp_path / "f.properties").write_text("process.roles=broker\nserver.max.startup.time.ms=9\n")
    arguments = ("serve", "--print-config", "--config", "f.properties")
    done = kohort(*arguments, cwd=tmp_path, env={"KAFKA_BROKER_URL": "localhost:9092"})
    assert (done.returncode, done.stderr.count("\n")) == (0, 2)
    assert "unknown configuration key 'broker.url' (from KAFKA_BROKER_URL)" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_data_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    done = kohort("serve", "--port", "0", "--data-dir", "/proc/x", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("kohort serve: /proc/x is not writable (")
    assert done.stderr.endswith("): choose another --data-dir, or --durability none.\n")


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = kohort("serve", "--port", str(port), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        (
            f"kohort serve: port {port} on 127.0.0.1 is already in use: stop the process that "
            "listens there, or choose another --port (0: any free port).\n"
        ),
    )
    assert list(tmp_path.iterdir()) == [], "no data folder is created"


def test_a_second_broker_on_a_data_folder_reports_the_process_that_uses_it(tmp_path: Path) -> None:
    with start_broker(tmp_path, "--port", "0", "--data-dir", "data") as served:
        done = kohort("serve", "--port", "0", "--data-dir", "data", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith("kohort serve: data is in use by ")
        assert str(served.process.pid) in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("what", ["removed", "moved", "recreated"])
def test_the_broker_stops_when_its_data_folder_is_removed_or_moved(
    tmp_path: Path, what: str
) -> None:
    with start_broker(tmp_path, "--port", "0", "--data-dir", "data") as served:
        if what == "removed":
            shutil.rmtree(tmp_path / "data")
        else:
            (tmp_path / "data").rename(tmp_path / "elsewhere")
        if what == "recreated":
            (tmp_path / "data").mkdir()
            (tmp_path / "data" / ".lock").touch()
        assert served.process.wait(TIMEOUT_SECONDS) == 2
        last_line = served.errors.read_text().splitlines()[-1]
        assert last_line.startswith(
            "kohort serve: data was removed or moved while the broker was using it: "
        )
        assert "The data folder data was removed or moved" in served.errors.read_text()
        left = [path.name for path in tmp_path.glob("data/*")]
        assert left == ([".lock"] if what == "recreated" else []), "the new folder is left alone"


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write to every folder")
def test_a_data_folder_without_write_permission_is_reported(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    done = kohort("serve", "--port", "0", "--data-dir", "data", cwd=tmp_path)
    assert done.returncode == 2
    assert "data is not writable (Permission denied)" in done.stderr


@pytest.mark.parametrize("garbage", [b"", b"\xff\xfe\x00garbage", b"cluster.id=\n", b"version=1\n"])
def test_a_data_folder_without_a_cluster_id_is_left_alone(tmp_path: Path, garbage: bytes) -> None:
    meta = tmp_path / "data" / "meta.properties"
    meta.parent.mkdir()
    meta.write_bytes(garbage)
    done = kohort("serve", "--port", "0", "--data-dir", "data", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        (
            "kohort serve: the data in data cannot be read "
            "(meta.properties has no valid cluster.id): "
            "choose another --data-dir, or move that folder away.\n"
        ),
    )
    assert meta.read_bytes() == garbage


def test_a_damaged_registry_and_its_topics_are_left_alone(tmp_path: Path) -> None:
    """One byte of the record of the first of two topics is changed."""
    data = tmp_path / "data"
    (registry := data / "__kohort_topics-0").mkdir(parents=True)
    stored = b""
    for number, topic in enumerate((b"orders", b"bills")):
        batch = BatchBuilder()
        batch.add(b'{"topic":"%b"}' % topic, b'{"configs":{},"id":"%032x","partitions":1}' % 7, 0)
        stored += batch.finish(number)
    (log := registry / f"{0:020}.log").write_bytes(
        damaged := stored[:30] + bytes([stored[30] ^ 1]) + stored[31:]
    )
    for folder in ("orders-0", "__consumer_offsets-7", f"old-0.{0:032x}-delete"):
        (data / folder).mkdir()
    done = kohort("serve", "--port", "0", "--data-dir", "data", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "kohort serve: the data in data cannot be read (the topic registry is corrupt, and the "
        f"topics after the corruption would be lost: __kohort_topics-0/{log.name}: checksum "
    )
    assert "`kohort log repair data`, which keeps the valid part" in done.stderr
    assert done.stderr.count("\n") == 1
    assert log.read_bytes() == damaged
    assert {path.name for path in data.iterdir()} == {
        ".lock",
        "__kohort_topics-0",
        "orders-0",
        "__consumer_offsets-7",
        f"old-0.{0:032x}-delete",
    }


def test_debug_logs_every_request_and_response(tmp_path: Path) -> None:
    body = b"\x02g\0\0\0\x01\x02m\0\0"  # group g, generation 1, member m, no instance, no tags
    request = struct.pack(">hhih2sb", 12, 4, 17, 2, b"me", 0) + body
    with start_broker(tmp_path, "--port", "0", "--log-level", "debug") as served:
        with socket.create_connection((served.host, served.port)) as client:
            client.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
            assert len(client.recv(size, socket.MSG_WAITALL)) == size
        assert served.stop() == 0
        lines = [
            line for line in served.errors.read_text().splitlines() if "kohort.requests" in line
        ]
    request_line, response_line = (line.partition(" DEBUG ")[2] for line in lines)
    assert request_line == "< k12 Heartbeat v4 #17 g/m (me at /127.0.0.1) (kohort.requests)"
    assert response_line.startswith("> k12 Heartbeat #17 unknown_member_id, 16 bytes, ")


def test_a_registry_of_a_later_version_is_reported_and_left_alone(tmp_path: Path) -> None:
    """The topic registry contains a record of an unknown kind."""
    log = tmp_path / "data" / "__kohort_topics-0" / f"{0:020}.log"
    log.parent.mkdir(parents=True)
    (batch := BatchBuilder()).add(b'{"kind": "moon"}', b"{}", 0)
    log.write_bytes(stored := batch.finish(0))
    done = kohort("serve", "--port", "0", "--data-dir", "data", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("kohort serve: the data in data cannot be read (registry record ")
    assert done.stderr.count("\n") == 1
    assert log.read_bytes() == stored


def test_a_non_local_address_is_reported_on_asyncios_loop_as_well(tmp_path: Path) -> None:
    plain = (
        "import sys; sys.modules['uvloop'] = None; "  # as without the extra `speed`
        "from kohort.cli.main import main; "
        "sys.exit(main(['serve', '--host', '192.0.2.1', '--durability', 'none']))"
    )
    command = (sys.executable, "-c", plain)
    done = subprocess.run(
        command, cwd=tmp_path, env=CLEAN_ENVIRONMENT, capture_output=True, text=True
    )
    message = "kohort serve: 192.0.2.1 is not an address of this machine: choose another --host.\n"
    assert (done.stdout, done.stderr, done.returncode) == ("", message, 2)


# Allocates a million objects; prints the oldest generation that was collected meanwhile.
SURVIVORS = """
import asyncio, gc
from kohort.cli import serve
{setup}
generations = set()
gc.callbacks.append(lambda _phase, info: generations.add(info["generation"]))
kept = [[number] for number in range(1_000_000)]
print(max(generations))
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="collections are incremental there")
def test_requests_cause_no_garbage_collection_of_all_objects() -> None:
    def oldest_generation(setup: str) -> int:
        command = [sys.executable, "-c", SURVIVORS.format(setup=setup)]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert oldest_generation("") == 2
    assert oldest_generation("serve.collect_garbage_rarely(asyncio.new_event_loop())") == 1


# Allocates 4 MiB, joined from parts, a hundred times; prints the page faults that this caused.
ALLOCATIONS = """
import resource
from kohort.cli import serve
{setup}
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for warm_up in range(5):
    b"".join([bytes(2**20) for _ in range(4)])
before = faults()
for response in range(100):
    b"".join([bytes(2**20) for _ in range(4)])
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")
def test_freed_memory_is_reused_for_the_next_large_response() -> None:
    assert page_faults("serve.keep_freed_memory()") < 100 < page_faults("")


def page_faults(setup: str) -> int:
    command = [sys.executable, "-c", ALLOCATIONS.format(setup=setup)]
    environ = {
        key: value for key, value in os.environ.items() if not key.startswith(GLIBC_VARIABLES)
    }
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    return int(done.stdout)


def test_on_windows_the_error_names_a_remedy() -> None:
    code = (
        "import asyncio, sys; from kohort.cli.serve import serve; "
        "sys.platform = 'win32'; asyncio.run(serve(None))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "the broker needs Linux or macOS: run it in WSL" in done.stderr
