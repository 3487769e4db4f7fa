"""`kohort check`: verdicts, exit codes, output, and brokers that it starts."""

import asyncio
import contextlib
import itertools
import json
import os
import random
import re
import shlex
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest
from kohort.check import producer, run, targets, workload
from kohort.check.cluster import Cluster
from kohort.check.history import Commit, Event, Send
from kohort.check.recorder import History
from kohort.check.report import Report
from kohort.check.targets import BrokerEnded, Process
from kohort.cli import check as command
from kohort.cli.main import main
from kohort.client_security import Security
from kohort.protocol.bootstrap import Address, addresses
from kohort.testing import Kafka

SVG = "{http://www.w3.org/2000/svg}"
SHORT = ("--seconds", "3", "--seed", "1", "--session-timeout", "1500")


def test_a_correct_broker_passes_with_exit_code_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    timeline = tmp_path / "run.svg"
    with Kafka() as kafka:
        flags = ["--bootstrap-server", kafka.bootstrap_servers, *SHORT]
        assert main(["check", *flags, "--timeline", str(timeline)]) == 0
        assert [each.name for each in kafka.topics if each.name.startswith("kohort-check")] == []
        assert kafka.groups == []
    printed = capsys.readouterr()
    assert printed.out.startswith("127.0.0.1:")
    assert "No anomalies: none of the 29 checks found anything." in printed.out
    assert re.search(r"\r\033\[K2 of 3 s, \d+ operations\r\033\[K", printed.err)
    assert printed.err.endswith(f"\r\033[KThe timeline is in {timeline}.\n")
    drawing = ElementTree.parse(timeline).getroot()
    texts = [each.text or "" for each in drawing.iter(f"{SVG}text")]
    assert {"producer-1", "reader-2", "classic-3", "consumer-3"} <= set(texts)
    assert {"send", "disturbance", "1 s", "2 s"} <= set(texts)


def test_an_anomaly_ends_with_exit_code_1_and_a_counter_example(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timeline = tmp_path / "run.svg"
    with Kafka() as kafka:
        kafka.faults.answer("Produce", error="NONE", times=5)
        flags = ["--bootstrap-server", kafka.bootstrap_servers, *SHORT]
        assert main(["check", *flags, "--format", "json", "--timeline", str(timeline)]) == 1
        assert len([each for each in kafka.topics if each.name.startswith("kohort-check")]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["verdict"], report["seed"]) == ("anomalies", 1)
    (lost,) = (each for each in report["findings"] if each["check"] == "lost-write")
    assert lost["count"] > 0
    sent, read = lost["counter_example"]["operations"]
    assert (sent["operation"], sent["outcome"], read["mode"]) == ("Send", "ok", "final")
    assert sent["values"][0] not in read["values"]
    assert f"sent {sent['values'][0]}" in sent["text"]
    texts = [each.text or "" for each in ElementTree.parse(timeline).getroot().iter(f"{SVG}text")]
    assert any(each.startswith("lost-write: ") for each in texts)


def test_a_broker_that_loses_its_topic_has_an_anomaly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "FINISH_SECONDS", 0.1)
    monkeypatch.setattr(producer, "RETRY_SECONDS", 1.0)
    monkeypatch.setattr(run, "FINAL_SECONDS", 1.0)
    monkeypatch.setattr(run, "STABLE_SECONDS", 0.1)
    with Kafka() as kafka:
        delete = threading.Thread(target=lambda: asyncio.run(_delete_topics(kafka)))
        _call_after_batches(monkeypatch, 20, delete.start)
        flags = ["--bootstrap-server", kafka.bootstrap_servers, *SHORT]
        assert main(["check", *flags, "--timeline", str(tmp_path / "run.svg")]) == 1
        delete.join()
    assert "ANOMALIES: lost-topic" in capsys.readouterr().out
    assert "lost-topic: topic kohort-check-" in (tmp_path / "run.svg").read_text()


def test_without_final_reads_there_are_counts_but_no_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "FINAL_SECONDS", 0)
    with Kafka() as kafka:
        assert main(["check", "--bootstrap-server", kafka.bootstrap_servers, *SHORT]) == 2
    printed = capsys.readouterr()
    assert "  batches: " in printed.out
    assert printed.out.endswith("\nNo verdict.\n")
    assert "failed for 0 s after the run" in printed.err


def test_a_broker_without_commits_cannot_be_judged(capsys: pytest.CaptureFixture[str]) -> None:
    with Kafka() as kafka:
        for api in ("OffsetCommit", "TxnOffsetCommit"):
            kafka.faults.answer(api, error="INVALID_COMMIT_OFFSET_SIZE", times=None)
        assert main(["check", "--bootstrap-server", kafka.bootstrap_servers, *SHORT]) == 2
    message = r"0 commits of offsets succeeded; \d+ failed with INVALID_COMMIT_OFFSET_SIZE\."
    assert re.search(message, capsys.readouterr().err)


def test_it_authenticates(tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    with Kafka(security="SASL_SSL", users={"alice": "alice-secret"}) as kafka:
        config = kafka.security.client_config("alice", library="java", mechanism="SCRAM-SHA-512")
        properties.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        # Each of the clients authenticates on its own.
        flags = ["--bootstrap-server", kafka.bootstrap_servers, *SHORT, "--seconds", "6"]
        assert main(["check", *flags, "--command-config", str(properties)]) == 0
        wrong = properties.read_text().replace("alice-secret", "wrong")
        properties.write_text(wrong)
        assert main(["check", *flags, "--command-config", str(properties)]) == 2


AT_9 = ["--bootstrap-server", "127.0.0.1:9"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--timeline", "x.png"], "invalid --timeline x.png: expected a name ending in .svg."),
        (["--session-timeout", "0"], "invalid --session-timeout 0: expected 1 to 2147483647 ms."),
        ([*AT_9, "--command", "x 'y"], "invalid --command x 'y: No closing quotation."),
        ([*AT_9, "--command", " "], "--command is empty: expected the command that starts"),
        (["--bootstrap-server", "x:y"], "invalid address 'x:y': expected HOST:PORT."),
        ([*AT_9, "--nemesis", "kill"], "--nemesis kill needs --command, which starts the broker."),
        (["--nemesis", "kil"], "unknown --nemesis kil: did you mean kill?"),
        (["--nemesis", "pause"], "--nemesis pause needs --command, which starts the broker."),
        ([*AT_9, "--nemesis", "x"], "unknown --nemesis x: this broker has none without --command."),
        (
            [*AT_9, "--command", "/nothing", "--nemesis", "x"],
            "unknown --nemesis x: this broker has kill, pause.",
        ),
        (["--command", "x"], "--command needs --bootstrap-server, the address of the broker"),
        ([*AT_9, "--command", "/nothing"], "cannot run '/nothing': No such file or directory."),
        (
            [*AT_9, "--command", "false"],
            "no verdict on 127.0.0.1:9: false has ended with exit code 1.",
        ),
        (
            ["--session-timeout", "99999999999"],
            "invalid --session-timeout 99999999999: expected 1 to 2147483647 ms.",
        ),
        (["--timeline", "/nothing/x.svg"], "cannot write /nothing/x.svg: No such file"),
        (["--command-config", "/nothing"], "--command-config needs --bootstrap-server"),
        (
            [*AT_9, "--command-config", "/nothing"],
            "cannot read /nothing: No such file or directory.",
        ),
        (AT_9, "cannot connect to 127.0.0.1:9: connection ref"),
    ],
)
def test_mistakes_end_with_exit_code_2(
    flags: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "START_SECONDS", 0.1)
    assert main(["check", *flags]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--seconds", "0"], "invalid '0': expected a number of seconds, e.g. 15"),
        (["--seconds", "15s"], "invalid '15s': expected a number of seconds, e.g. 15"),
        (["--seconds", "inf"], "invalid 'inf': expected a number of seconds, e.g. 15"),
        (["--seed", "abc"], "invalid 'abc': expected a number, e.g. 15"),
    ],
)
def test_values_that_are_no_numbers_are_rejected(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["check", *flags])
    assert message in capsys.readouterr().err


def test_what_a_command_printed_is_kept_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    flags = ["--bootstrap-server", "127.0.0.1:9", "--command"]
    assert main(["check", *flags, "true"]) == 2
    assert list(tmp_path.iterdir()) == []
    capsys.readouterr()
    assert main(["check", *flags, "sh -c 'echo on; echo disk full >&2; exit 3'"]) == 2
    (file,) = tmp_path.iterdir()
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.endswith(
        f"has ended with exit code 3. Its output is in {file}; the last line is: disk full\n"
    )
    assert file.read_text() == "on\ndisk full\n"


def test_a_command_that_listens_elsewhere_is_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(targets, "START_SECONDS", 0.2)
    flags = ["--bootstrap-server", "127.0.0.1:9", "--command", "sh -c 'echo on port 8; sleep 60'"]
    assert main(["check", *flags]) == 2
    printed = capsys.readouterr().err
    assert "\r\033[Kwaiting for the command to listen at 127.0.0.1:9, 0 s" in printed
    assert "nothing listens at 127.0.0.1:9 after 0.2 s. Its output is in" in printed
    assert printed.endswith("the last line is: on port 8\n")


def _call_after_batches(
    monkeypatch: pytest.MonkeyPatch, count: int, action: Callable[[], None]
) -> None:
    """Call `action` when the workload produces its batch number `count`."""
    new_values, batches = workload.Workload.new_values, itertools.count(1)

    def new_values_and_action(self: workload.Workload, chance: random.Random) -> list[str]:
        if next(batches) == count:
            action()
        return new_values(self, chance)

    monkeypatch.setattr(workload.Workload, "new_values", new_values_and_action)


@pytest.mark.skipif(sys.platform == "win32", reason="asyncio has no signal handlers there")
def test_an_interrupt_ends_the_work_and_gives_a_verdict(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _call_after_batches(monkeypatch, 20, lambda: os.kill(os.getpid(), signal.SIGINT))
    with Kafka() as kafka:
        flags = ["--bootstrap-server", kafka.bootstrap_servers, *SHORT, "--seconds", "300"]
        assert main(["check", *flags]) == 0
    printed = capsys.readouterr().out
    assert "No anomalies" in printed
    assert re.search(r"^  interrupted after \d+ of 300 s$", printed, re.MULTILINE)


@pytest.mark.skipif(sys.platform == "win32", reason="asyncio has no signal handlers there")
def test_a_second_interrupt_ends_the_program_and_names_what_is_kept(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = workload.Workload.stop

    def stop_and_interrupt(self: workload.Workload) -> None:
        stop(self)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(workload.Workload, "stop", stop_and_interrupt)
    _call_after_batches(monkeypatch, 1, lambda: os.kill(os.getpid(), signal.SIGINT))
    with Kafka() as kafka:
        assert main(["check", "--bootstrap-server", kafka.bootstrap_servers, *SHORT]) == 130
        (topic,) = (each.name for each in kafka.topics if each.name.startswith("kohort-check"))
    assert capsys.readouterr().err == (
        f"The topic {topic} and the groups {topic}-classic and {topic}-consumer are kept.\n"
    )


def test_a_broker_that_it_did_not_start_is_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert main(["check", "--bootstrap-server", address, "--command", "sleep 60"]) == 2
    assert f"something already listens at {address}" in capsys.readouterr().err


def test_a_broker_that_has_ended_is_not_disturbed(tmp_path: Path) -> None:
    port = _free_port()
    listen = (
        f"import socket; s = socket.create_server(('127.0.0.1', {port})); s.accept(); s.accept()"
    )
    address = Address("127.0.0.1", port)
    command_line = shlex.join([sys.executable, "-c", listen])
    with Process(command_line, address, tmp_path / "output") as ended:
        assert ended._process is not None
        socket.create_connection(address).close()
        ended._process.wait(10)
        for disturb in ended.nemeses.values():
            with pytest.raises(BrokerEnded, match="has ended with exit code 0"):
                disturb(random.Random(1))


def test_an_output_file_that_is_removed_during_the_run_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def removes(*_: object) -> None:
        next(tmp_path.glob("kohort-check-*")).unlink()

    monkeypatch.setattr(command, "run_clients", removes)
    port = _free_port()
    serve = f"{sys.executable} -m kohort serve --port {port} --data-dir {tmp_path}/data"
    flags = ("--bootstrap-server", f"127.0.0.1:{port}", "--command", serve, "--nemesis", "none")
    assert main(["check", *flags, *SHORT]) == 2
    assert "no verdict on" in capsys.readouterr().err  # without operations


@contextlib.asynccontextmanager
async def _killed_once(
    nemeses: Mapping[str, targets.Disturb], _seed: int, _seconds: float, history: History
) -> AsyncIterator[None]:
    """Kill the broker after the first commit, and end the run as soon as there is a verdict, which
    takes longer on a busy machine."""

    async def disturb() -> None:
        while not any(isinstance(each, Commit) and each.is_ok for each in history):
            await asyncio.sleep(0.05)
        event = history.begin(Event(client="nemesis", what="kill", nemesis="kill"))
        event.what = await asyncio.to_thread(nemeses["kill"], random.Random(1))
        history.end(event, "ok")
        while Report("", 1, 1, history, ()).problem or not any(
            isinstance(each, Send) and each.is_ok and each.began > event.began for each in history
        ):
            await asyncio.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    task = asyncio.create_task(disturb())
    yield
    await task


@pytest.mark.crash
@pytest.mark.skipif(sys.platform == "win32", reason="asyncio has no signal handlers there")
def test_a_broker_that_it_starts_is_killed_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(run, "disturbed", _killed_once)
    port = _free_port()
    log = tmp_path / "log"
    serve = f"{sys.executable} -m kohort serve --port {port} --data-dir {tmp_path}/data"
    serve += " -o group.initial.rebalance.delay.ms=0 -o group.min.session.timeout.ms=1000"
    serve = f"sh -c 'echo serve; exec {serve} >>{log} 2>&1'"
    flags = ("--bootstrap-server", f"127.0.0.1:{port}", "--command", serve, "--format", "json")
    assert main(["check", *flags, *SHORT, "--seconds", "3600"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    report = json.loads(printed.out)
    killed = "killed the process (SIGKILL) and started it again"
    assert report["statistics"]["nemesis"] == [killed]
    assert log.read_text().count(f" listening on 127.0.0.1:{port} ") == 2
    assert report["output"] is None
    assert list(tmp_path.glob("kohort-check-*")) == []  # not needed after a good verdict


async def _delete_topics(kafka: Kafka) -> None:
    cluster = Cluster(addresses(kafka.bootstrap_servers), Security(), "")
    names = tuple(each.name for each in kafka.topics if each.name.startswith("kohort-check"))
    timeout = timedelta(seconds=10)
    connection = await cluster.any_node()
    await connection.request("DeleteTopics", topic_names=names, timeout=timeout)
    cluster.disconnect()


def _free_port() -> int:
    """Below the ephemeral ports: clients that try to connect while the broker is down could get it
    as their own."""
    while True:
        port = random.randint(20_000, 32_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
