"""`kohort serve --control-port` as a process, as tests in other languages start it."""

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
from support.running_broker import kohort, start_broker

ARGS = ("--port", "0", "--control-port", "0", "-o", "kohort.nodes=2")


def get(url: str) -> dict[str, object]:
    with urllib.request.urlopen(url, timeout=30) as response:
        return dict(json.load(response))


def test_it_prints_both_addresses_and_stops_during_a_wait(tmp_path: Path) -> None:
    with start_broker(tmp_path, *ARGS, "-o", "num.partitions=7") as served:
        url = served.control_url()
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


def test_it_logs_the_certificate_that_clients_must_trust(tmp_path: Path) -> None:
    with start_broker(tmp_path, *ARGS, "--security", "SSL") as served:
        match = served.logged(r"Clients must trust (.*) \(")
        assert match
        assert "BEGIN CERTIFICATE" in Path(match[1]).read_text()


def test_the_token_is_taken_from_a_flag_or_the_environment(tmp_path: Path) -> None:
    with start_broker(tmp_path, *ARGS, "--control-token", "secret") as served:
        url = served.control_url()
        refused = kohort("ctl", "topics", env={"KOHORT_CONTROL": url})
        assert refused.returncode == 2
        assert "the token is missing: send the header Authorization" in refused.stderr
        allowed = kohort("ctl", "--control", url, "--control-token", "secret", "topics")
        assert json.loads(allowed.stdout) == {"topics": []}, allowed.stderr
        env = {"KOHORT_CONTROL": url, "KOHORT_CONTROL_TOKEN": "secret"}
        assert kohort("ctl", "topics", env=env).returncode == 0


@pytest.mark.parametrize(("preset", "delay_ms"), [("kafka", 3000), ("instant", 0)])
def test_explicit_settings_override_the_preset(preset: Preset, delay_ms: int) -> None:
    settings = with_preset(control.in_memory(BrokerConfig()), preset)
    assert settings.int("group.initial.rebalance.delay.ms") == delay_ms
    assert settings.str("kohort.events") == "all"
    given = BrokerConfig({"group.initial.rebalance.delay.ms": "7"})
    assert with_preset(given, preset).int("group.initial.rebalance.delay.ms") == 7


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--data-dir", "data"], "with --control-port all data is in memory: remove --data-dir."),
        (["--control-port", "many"], "invalid --control-port 'many': expected 0 to 65535."),
        (["--control-port", "65536"], "invalid --control-port '65536': expected 0 to 65535."),
        (["--control-host", "nowhere.invalid"], "the control API cannot listen on nowhere.invalid"),
        (["--control-host", "0.0.0.0"], "the control API on 0.0.0.0 needs a token, because others"),
        (["--control-token", ""], "invalid token: expected visible ASCII characters"),
    ],
)
def test_invalid_flags_are_rejected(
    capsys: pytest.CaptureFixture[str], args: list[str], message: str
) -> None:
    assert main(["serve", *ARGS, *args]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"kohort serve: {message}")


def test_a_control_port_in_use_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", *ARGS, "--control-port", str(port)]) == 2
    error = capsys.readouterr().err
    assert f"the control API cannot listen on 127.0.0.1:{port} (Address already in use" in error


def test_control_flags_need_the_control_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "0", "--control-preset", "instant"]) == 2
    assert "need --control-port." in capsys.readouterr().err


def test_a_missing_extra_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "find_spec", lambda name: None if name == "uvicorn" else name)
    assert main(["serve", *ARGS]) == 2
    error = capsys.readouterr().err
    assert "--control-port needs uvicorn: run pip install './kohort[control]' in" in error
