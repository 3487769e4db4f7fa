"""`kohort serve` as a process: its first line, its end, and one sentence for every mistake."""

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from kohort import __version__
from kohort.log.builder import BatchBuilder
from processes import PATIENCE_SECONDS, QUIET, kohort, serving


def test_the_first_line_says_where_it_listens_when_clients_can_connect(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0", "--data-dir", "data") as served:
        assert served.first_line == (
            f"kohort {__version__} listening on 127.0.0.1:{served.port} "
            "(data data, durability fsync)\n"
        )
        assert kohort("health", "--bootstrap-server", served.bootstrap).returncode == 0
        assert (tmp_path / "data").is_dir()


def test_without_a_folder_named_it_keeps_its_data_beside_the_caller(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0", "--durability", "os") as served:
        assert served.first_line.endswith("(data kohort-data, durability os)\n")
        assert (tmp_path / "kohort-data").is_dir()


def test_in_memory_it_touches_no_folder(tmp_path: Path) -> None:
    args = ("--durability", "none", "--data-dir", "d", "--events", "all", "--cache-offsets", "9")
    with serving(tmp_path, "--port", "0", *args) as served:
        assert served.first_line.endswith("(data in memory, durability none)\n")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["stderr"]
        errors = served.errors.read_text()
        assert "log.dirs=d (from --data-dir) is not used" in errors
        assert "kohort.events=all (from --events) is not used" in errors
        assert "kohort.cache.offsets=9 (from --cache-offsets) is not used" in errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_with_clients_connected(tmp_path: Path, number: int) -> None:
    with serving(tmp_path, "--port", "0", "--data-dir", "data") as served:
        with socket.create_connection((served.host, served.port)) as client:
            assert served.stop(number) == 0
            assert client.recv(1) == b""
        assert "Traceback" not in served.errors.read_text()


def test_a_folder_is_free_again_after_a_kill(tmp_path: Path) -> None:
    for _ in range(2):
        with serving(tmp_path, "--port", "0", "--data-dir", "data") as served:
            assert served.stop(signal.SIGKILL) == -signal.SIGKILL


def test_log_lines_have_kafkas_shape(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0", "-o", "num.partition=6") as served:
        assert served.stop() == 0
        line = served.errors.read_text().splitlines()[0]
    stamp, _, rest = line.partition("] ")
    assert len(stamp) == len("[2026-01-01 00:00:00,000")
    assert rest == (
        "WARN num.partition (from -o) is no key that kohort or Kafka's brokers know: "
        "did you mean num.partitions? (kohort.serve)"
    )


def test_levels_are_taken_as_the_log_writes_them(tmp_path: Path) -> None:
    with serving(
        tmp_path, "--port", "0", "--log-level", "ERROR", "-o", "num.partition=6"
    ) as served:
        assert served.stop() == 0
        assert served.errors.read_text() == ""


def test_a_reader_that_has_read_enough_hears_no_complaint() -> None:
    """As with `kohort … | head`."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "kohort", "serve", "--print-config"]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_several_nodes_listen_on_a_port_each(tmp_path: Path) -> None:
    args = ("--port", "0", "--nodes", "3", "--durability", "none")
    with serving(tmp_path, *args) as served:
        addresses = served.first_line.split(" listening on ")[1].split(" (data")[0].split(",")
        assert len(set(addresses)) == 3
        for address in addresses:
            assert kohort("health", "--bootstrap-server", address).returncode == 0
        assert served.stop() == 0


def test_log_lines_can_be_json(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0", "-o", "a=b", "--log-format", "json") as served:
        assert served.stop() == 0
        lines = [json.loads(line) for line in served.errors.read_text().splitlines()]
    assert (lines[0]["level"], lines[0]["logger"]) == ("WARN", "kohort.serve")


def test_print_config_tells_every_value_and_who_gave_it(tmp_path: Path) -> None:
    (tmp_path / "f.properties").write_text("group.max.size=9\nnum.partitions=9\n")
    done = kohort(
        *("serve", "--print-config", "--config", "f.properties", "-o", "num.partitions=6"),
        *("--port", "0", "--durability", "os", "--profile", "kafka-2.8"),
        *("-o", "log.retentoin.ms=4"),
        cwd=tmp_path,
        env={"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0"},
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert done.stderr == (
        "kohort serve: log.retentoin.ms (from -o) is no key that kohort or Kafka's brokers know: "
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


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (
            [],
            (
                "kohort: give a command: serve (run a broker), health (ask a broker whether it is "
                "well), groups (list, describe, reset, delete), assign (say who gets which "
                "partition), log (look into its files), pipeline (read its log into a lake), why, "
                "timeline, lag, storms, report (ask what happened) or test (steer a broker that a "
                "test has started); see `kohort --help`."
            ),
        ),
        (
            ["serve", "--port", "65534", "--nodes", "3"],
            (
                "kohort serve: the last of 3 nodes would listen on port 65536: "
                "choose a lower first port, or 0 for any free ones."
            ),
        ),
        (["--prot"], "kohort: unrecognized arguments: --prot; see `kohort --help`."),
        (
            ["serve", "--prot", "1"],
            "kohort serve: unrecognized arguments: --prot 1; see `kohort serve --help`.",
        ),
        (
            ["serve", "bogus"],
            "kohort serve: unrecognized arguments: bogus; see `kohort serve --help`.",
        ),
        (
            ["serve", "--durability", "disk"],
            (
                "kohort serve: Invalid value disk for configuration kohort.durability: "
                "String must be one of: fsync, os, none (from --durability)."
            ),
        ),
        (
            ["serve", "--port", "70000"],
            "kohort serve: --port 70000 is no port: give one from 0 to 65535 (0: any free one).",
        ),
        (
            ["serve", "-o", "num.partitions=0"],
            (
                "kohort serve: Invalid value 0 for configuration num.partitions: "
                "Value must be at least 1 (from -o)."
            ),
        ),
        (
            ["serve", "--port", "0", "--data-dir", "/dev/null/data"],
            (
                "kohort serve: /dev/null/data cannot be written (Not a directory): "
                "choose a folder of yours with --data-dir, or --durability none."
            ),
        ),
        (
            ["serve", "--data-dir", ""],
            "kohort serve: --data-dir names no folder: name one, or leave the flag out.",
        ),
        (
            ["serve", "--host", "192.0.2.1", "--durability", "none"],
            "kohort serve: 192.0.2.1 is no address of this machine: choose another --host.",
        ),
        (
            ["serve", "--config", "none.properties"],
            (
                "kohort serve: none.properties cannot be read (No such file or directory): "
                "give --config a readable properties file."
            ),
        ),
    ],
)
def test_a_mistake_gets_one_sentence_and_exit_code_2(
    tmp_path: Path, args: list[str], sentence: str
) -> None:
    done = kohort(*args, cwd=tmp_path)
    assert (done.stdout, done.stderr, done.returncode) == ("", sentence + "\n", 2)


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = kohort("serve", "--port", str(port), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        (
            f"kohort serve: port {port} on 127.0.0.1 is in use: stop what listens there, "
            "or choose another --port (0: any free one).\n"
        ),
    )
    assert list(tmp_path.iterdir()) == [], "it has made no data folder"


def test_a_second_broker_on_a_folder_is_told_who_holds_it(tmp_path: Path) -> None:
    with serving(tmp_path, "--port", "0", "--data-dir", "data") as served:
        done = kohort("serve", "--port", "0", "--data-dir", "data", cwd=tmp_path)
        assert done.returncode == 2
        assert done.stderr.startswith("kohort serve: data is in use by ")
        assert str(served.process.pid) in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("what", ["removed", "moved", "made anew"])
def test_a_folder_that_is_gone_ends_the_broker_with_a_sentence(tmp_path: Path, what: str) -> None:
    with serving(tmp_path, "--port", "0", "--data-dir", "data") as served:
        if what == "removed":
            shutil.rmtree(tmp_path / "data")
        else:
            (tmp_path / "data").rename(tmp_path / "elsewhere")
        if what == "made anew":
            (tmp_path / "data").mkdir()
            (tmp_path / "data" / ".lock").touch()
        assert served.process.wait(PATIENCE_SECONDS) == 2
        last_line = served.errors.read_text().splitlines()[-1]
        assert last_line.startswith("kohort serve: data was removed or moved while it was in use: ")
        assert "The data folder data was removed or moved" in served.errors.read_text()
        left = [path.name for path in tmp_path.glob("data/*")]
        assert left == ([".lock"] if what == "made anew" else []), "it is somebody else's now"


@pytest.mark.skipif(os.geteuid() == 0, reason="to root every folder is writable")
def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o500)
    done = kohort("serve", "--port", "0", "--data-dir", "data", cwd=tmp_path)
    assert done.returncode == 2
    assert "data cannot be written (Permission denied)" in done.stderr


@pytest.mark.parametrize("garbage", [b"", b"\xff\xfe\x00garbage", b"cluster.id=\n", b"version=1\n"])
def test_a_folder_that_does_not_say_whose_it_is_is_left_alone(
    tmp_path: Path, garbage: bytes
) -> None:
    meta = tmp_path / "data" / "meta.properties"
    meta.parent.mkdir()
    meta.write_bytes(garbage)
    done = kohort("serve", "--port", "0", "--data-dir", "data", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        (
            "kohort serve: the data in data cannot be read (meta.properties names no cluster.id): "
            "choose another --data-dir, or move that out of the way.\n"
        ),
    )
    assert meta.read_bytes() == garbage


def test_a_damaged_registry_is_left_alone_with_all_that_lies_beside_it(tmp_path: Path) -> None:
    """Method: one byte of the first of two topics is another."""
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
        "kohort serve: the data in data cannot be read (the registry of topics is damaged, and the "
        f"topics behind that would be forgotten: __kohort_topics-0/{log.name}: checksum "
    )
    assert "`kohort log repair data` keeps what is sound" in done.stderr
    assert done.stderr.count("\n") == 1
    assert log.read_bytes() == damaged
    assert {path.name for path in data.iterdir()} == {
        ".lock",
        "__kohort_topics-0",
        "orders-0",
        "__consumer_offsets-7",
        f"old-0.{0:032x}-delete",
    }


def test_debug_tells_of_every_request_and_its_answer(tmp_path: Path) -> None:
    """Method: a Heartbeat v4 of a group that is not there."""
    body = b"\x02g\0\0\0\x01\x02m\0\0"  # group g, generation 1, member m, no instance, no tags
    request = struct.pack(">hhih2sb", 12, 4, 17, 2, b"me", 0) + body
    with serving(tmp_path, "--port", "0", "--log-level", "debug") as served:
        with socket.create_connection((served.host, served.port)) as client:
            client.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
            assert len(client.recv(size, socket.MSG_WAITALL)) == size
        assert served.stop() == 0
        told = [
            line for line in served.errors.read_text().splitlines() if "kohort.requests" in line
        ]
    asked, answered = (line.partition(" DEBUG ")[2] for line in told)
    assert asked == "< k12 Heartbeat v4 #17 g/m (me at /127.0.0.1) (kohort.requests)"
    assert answered.startswith("> k12 Heartbeat #17 unknown_member_id, 16 bytes, ")


def test_data_that_cannot_be_read_are_left_alone_and_named(tmp_path: Path) -> None:
    """Method: a record in the registry of topics as a later version of kohort might write it."""
    log = tmp_path / "data" / "__kohort_topics-0" / f"{0:020}.log"
    log.parent.mkdir(parents=True)
    (batch := BatchBuilder()).add(b'{"kind": "moon"}', b"{}", 0)
    log.write_bytes(stored := batch.finish(0))
    done = kohort("serve", "--port", "0", "--data-dir", "data", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("kohort serve: the data in data cannot be read (the registry's ")
    assert done.stderr.count("\n") == 1
    assert log.read_bytes() == stored


def test_an_address_of_another_machine_is_named_on_the_loop_of_asyncio_too(tmp_path: Path) -> None:
    plain = (
        "import sys; sys.modules['uvloop'] = None; "  # as without the extra `speed`
        "from kohort.cli.main import main; "
        "sys.exit(main(['serve', '--host', '192.0.2.1', '--durability', 'none']))"
    )
    command = (sys.executable, "-c", plain)
    done = subprocess.run(command, cwd=tmp_path, env=QUIET, capture_output=True, text=True)
    sentence = "kohort serve: 192.0.2.1 is no address of this machine: choose another --host.\n"
    assert (done.stdout, done.stderr, done.returncode) == ("", sentence, 2)
