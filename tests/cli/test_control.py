"""`kohort serve --control-port`: a process that a test in any language starts."""

import json
import signal
import socket
import threading
import urllib.request
from pathlib import Path

import pytest
from kohort.broker.config.broker_config import BrokerConfig
from kohort.cli import control
from kohort.cli.main import main
from kohort.testing.presets import Preset, with_preset
from support.broker_process import Served, kohort, serving

ARGS = ("--port", "0", "--control-port", "0", "-o", "kohort.nodes=2")


def second_line(served: Served) -> str:
    """The address of the controls."""
    assert served.process.stdout is not None
    said, url = served.process.stdout.readline().split()
    assert said == "control"
    return url


def get(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return dict(json.load(answer))


def test_it_says_where_both_are_and_ends_well_though_somebody_waits(tmp_path: Path) -> None:
    with serving(tmp_path, *ARGS, "-o", "num.partitions=7") as served:
        url = second_line(served)
        assert url.startswith("http://127.0.0.1:")
        assert served.first_line.endswith("(data in memory, durability none)\n")
        cluster = get(f"{url}/cluster")
        assert str(cluster["bootstrap_servers"]).split(",")[-1] == served.bootstrap.split(",")[-1]
        done = kohort("ctl", "topic", "orders", env={"KOHORT_CONTROL": url})
        assert len(json.loads(done.stdout)["partitions"]) == 7, done.stderr

        def wait() -> None:
            body = b'{"until": "stable", "timeout": 60}'
            with pytest.raises(OSError):
                urllib.request.urlopen(f"{url}/groups/billing/wait", body, 60)

        waiting = threading.Thread(target=wait)
        waiting.start()
        assert served.stop(signal.SIGTERM) == 0
        waiting.join()
        assert "Traceback" not in served.errors.read_text()


@pytest.mark.parametrize(("preset", "delay_ms"), [("kafka", 3000), ("instant", 0)])
def test_a_preset_gives_way_to_what_was_said(preset: Preset, delay_ms: int) -> None:
    settings = with_preset(control.in_memory(BrokerConfig()), preset)
    assert settings.int("group.initial.rebalance.delay.ms") == delay_ms
    assert settings.str("kohort.events") == "all"
    given = BrokerConfig({"group.initial.rebalance.delay.ms": "7"})
    assert with_preset(given, preset).int("group.initial.rebalance.delay.ms") == 7


def in_use() -> tuple[socket.socket, int]:
    taken = socket.create_server(("127.0.0.1", 0))
    return taken, taken.getsockname()[1]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--data-dir", "data"], "a broker with controls keeps everything in memory: leave --data"),
        (["--control-port", "many"], "--control-port many is no port: give one from 0 to 65535."),
        (["--control-port", "65536"], "--control-port 65536 is no port: give one from 0 to 65535"),
        (["--control-host", "nowhere.invalid"], "the controls cannot listen on nowhere.invalid:0"),
    ],
)
def test_what_does_not_go_together_is_told(
    capsys: pytest.CaptureFixture[str], args: list[str], sentence: str
) -> None:
    assert main(["serve", *ARGS, *args]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"kohort serve: {sentence}")


def test_a_port_that_is_taken_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    taken, port = in_use()
    with taken:
        assert main(["serve", *ARGS, "--control-port", str(port)]) == 2
    assert f"the controls cannot listen on 127.0.0.1:{port} (Address al" in capsys.readouterr().err


def test_flags_of_the_controls_need_the_controls(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "0", "--control-preset", "instant"]) == 2
    assert "need --control-port." in capsys.readouterr().err


def test_without_the_extra_it_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "find_spec", lambda name: None if name == "uvicorn" else name)
    assert main(["serve", *ARGS]) == 2
    said = capsys.readouterr().err
    assert "--control-port needs uvicorn: pip install './kohort[control]', in the folder" in said
