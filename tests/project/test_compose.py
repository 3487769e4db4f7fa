"""docker-compose.yml without a container engine: schema, names, and its commands as processes.

The images are not built; only the names in the Dockerfile are checked.
"""

import contextlib
import json
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
import yaml
from kohort.broker.config.broker_config import BrokerConfig
from kohort.cli.main import parser
from support.running_broker import CLEAN_ENVIRONMENT, FIRST_LINE, TIMEOUT_SECONDS

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
BROKER = SERVICES["broker"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
LINES = (ROOT / "demo" / "text.txt").read_text().splitlines()


def test_the_file_follows_the_compose_specification() -> None:
    check = Path(sys.executable).with_name("check-jsonschema")
    schema = ("--builtin-schema", "vendor.compose-spec")
    done = subprocess.run([check, *schema, FILE], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_referenced_services_and_volumes_exist() -> None:
    volumes = set(COMPOSE["volumes"])
    for service in SERVICES.values():
        assert set(service.get("depends_on", {})) <= set(SERVICES)
        assert {volume.split(":")[0] for volume in service.get("volumes", [])} <= volumes
        mode = service.get("network_mode", "service:broker")
        assert mode == "none" or mode.removeprefix("service:") in SERVICES


def test_images_have_a_tag_and_targets_exist() -> None:
    targets = set(re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE))
    for service in SERVICES.values():
        assert service["build"]["target"] in targets
        assert re.fullmatch(r"[\w-]+:[\w.]+", service["image"])
    for base in re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE):
        assert re.fullmatch(r"[\w/-]+:[\w.-]+", base), f"{base} has no tag"


def test_files_that_the_dockerfile_copies_exist_and_are_not_ignored() -> None:
    included = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    assert all([*ROOT.glob(name)] for name in included)
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"build"}
    assert {*packages, "*.py"} <= included
    copied = re.findall(r"^COPY (?!--from)(\S+)", DOCKERFILE, re.MULTILINE)
    assert all(name == "." or name in included for name in copied)


def test_settings_are_known_keys_and_commands_are_valid() -> None:
    image = dict(re.findall(r"(KAFKA_\w+)=(\S+)", DOCKERFILE))
    for environment in (image, BROKER["environment"]):
        config = BrokerConfig.load(env=environment)
        assert list(config.warnings()) == []
    for command in (BROKER["command"], SERVICES["pipeline"]["command"]):
        parser().parse_args(command)
    kind, program, *arguments = BROKER["healthcheck"]["test"]
    assert (kind, program) == ("CMD", "kohort")
    parser().parse_args(arguments)
    for name in ("producer", "consumer"):
        program, script, *_ = SERVICES[name]["command"]
        assert program == "python"
        assert (ROOT / "demo" / script).exists()


def test_the_images_have_the_extras_that_their_commands_need() -> None:
    targets = re.split(r"^FROM \S+ AS ", DOCKERFILE, flags=re.MULTILINE)[1:]
    extras = {
        target.split()[0]: set(found[1].split(","))
        for target in targets
        if (found := re.search(r"\.whl\)\[([\w,]+)\]", target))
    }
    # --control-port is for tests in other languages, which use the image.
    assert extras == {
        "broker": {"cli", "control", "speed"},
        "demo": {"cli"},
        "pipeline": {"pipeline"},
    }


def test_the_published_port_is_the_advertised_one() -> None:
    (published,) = BROKER["ports"]
    address, outside, inside = published.split(":")
    config = BrokerConfig.load(env=BROKER["environment"])
    assert address == "127.0.0.1", "a broker without authentication is for this machine only"
    assert [each.port for each in config.listeners] == [int(inside)]
    assert [each[1:3] for each in config.advertised_listeners] == [("localhost", int(outside))]
    assert outside == inside, "clients in the broker's network use the same address"


@contextlib.contextmanager
def started(command: list[str], folder: Path, env: dict[str, str]) -> Iterator[Any]:
    """Run the command of a service with this Python."""
    program, *arguments = command
    module = ["-m", "kohort"] if program == "kohort" else []
    with (folder / "stderr").open("a") as errors:
        process = subprocess.Popen(
            [sys.executable, *module, *arguments],
            cwd=ROOT / "demo",
            env={**CLEAN_ENVIRONMENT, **env},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def localized(text: str, folder: Path, port: int) -> str:
    """A value of the file with the folder, address and port of this test."""
    text = re.sub(r"^/data$", str(folder / "data"), text)
    return text.replace("0.0.0.0", "127.0.0.1").replace(":9092", f":{port}")


@pytest.mark.clients
def test_the_services_work_together_as_processes(tmp_path: Path) -> None:
    """All lines are counted by the services' commands and environment, with a free port and a
    temporary folder instead of the published port and the volume."""
    environment = {key: localized(text, tmp_path, 0) for key, text in BROKER["environment"].items()}
    with contextlib.ExitStack() as running:
        command = ["kohort", *BROKER["command"]]
        broker = running.enter_context(started(command, tmp_path, environment))
        first_line = FIRST_LINE.fullmatch(broker.stdout.readline())
        assert first_line, (tmp_path / "stderr").read_text()
        port = int(first_line[3])

        def start(command: list[str], *more: str) -> Any:
            words = [localized(word, tmp_path, port) for word in command]
            return running.enter_context(started([*words, *more], tmp_path, {}))

        health = start(BROKER["healthcheck"]["test"][1:])
        assert health.wait(TIMEOUT_SECONDS) == 0
        replicas = SERVICES["consumer"]["deploy"]["replicas"]
        consumers = [start(SERVICES["consumer"]["command"]) for _ in range(replicas)]
        producer = start(SERVICES["producer"]["command"], "--lines-per-second", "5000")
        out, _ = producer.communicate(timeout=TIMEOUT_SECONDS)
        assert json.loads(out)["acknowledged"] == len(LINES)
        assert counted_lines(consumers, len(LINES)) == set(range(len(LINES)))


def counted_lines(consumers: list[Any], enough: int) -> set[int]:
    """The numbers of counted lines, from all consumers, which are ended after `enough`."""
    printed: queue.Queue[str] = queue.Queue()

    def read(output: IO[str]) -> None:
        for line in output:
            printed.put(line)

    readers = [threading.Thread(target=read, args=(each.stdout,)) for each in consumers]
    for reader in readers:
        reader.start()
    lines: set[int] = set()
    try:
        while len(lines) < enough:
            event = json.loads(printed.get(timeout=TIMEOUT_SECONDS))
            if event["event"] == "counted":
                lines.add(event["line"])
    finally:  # before the pipes are closed, which fails a thread that reads
        for consumer, reader in zip(consumers, readers, strict=True):
            consumer.kill()
            reader.join()
    return lines
