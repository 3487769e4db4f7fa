"""The clients: library, version, and how their drivers are built and started.

Builds are kept in the cache of support.builds until sources or pinned versions change.
"""

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from support.builds import cached, run, shared_folder
from support.java import FLAGS, fetched_jars

DRIVERS = Path(__file__).parent / "drivers"


class Missing(Exception):
    """A tool that the build needs is not on this machine."""


class Difference(NamedTuple):
    """`what`: how the client's behavior differs, on Kafka too. The story must fail, and `failure`
    must be in its error or traceback."""

    what: str
    failure: str


@dataclass(frozen=True)
class Client:
    """`command()` builds the driver if necessary and returns how to start it; it raises Missing."""

    language: str
    library: str
    version: str
    command: Callable[[], list[str]]
    differs: Mapping[str, Difference] = field(default_factory=dict)
    """By story."""

    @property
    def name(self) -> str:
        return f"{self.library} {self.version}"


def needs(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        raise Missing(f"not on the PATH: {', '.join(missing)}")


def contents(folder: Path, *patterns: str) -> list[bytes]:
    """The key of a build: the names and contents of its sources."""
    files = sorted({file for pattern in patterns for file in folder.glob(pattern)})
    return [part for file in files for part in (str(file.name).encode(), file.read_bytes())]


# --- Python: a virtual environment per version, because versions of a library exclude each other


def python(library: str, version: str, module: str, *others: str, **differs: Difference) -> Client:
    requirements = [f"{library}=={version}", *others]

    def build(folder: Path) -> None:
        run(sys.executable, "-m", "venv", folder, cwd=DRIVERS)
        pip = (folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps")
        run(*pip, "--disable-pip-version-check", *requirements, cwd=DRIVERS)

    def command() -> list[str]:
        key = [sys.version, *requirements]
        folder = cached(f"languages-{library}-{version}", key, build)
        return [str(folder / "bin" / "python"), str(DRIVERS / "python" / f"{module}.py")]

    return Client("Python", library, version, command, differs)


AIOKAFKA = ("async-timeout==5.0.1", "packaging==25.0", "typing-extensions==4.15.0")


# --- Go: one module, one program per library


def go(library: str, module: str, program: str, **differs: Difference) -> Client:
    folder = DRIVERS / "go"

    def build(out: Path) -> None:
        out.mkdir()
        run("go", "build", "-o", out / program, f"./{program}", cwd=folder)

    def command() -> list[str]:
        needs("go")
        key = contents(folder, "go.*", "protocol/*.go", f"{program}/*.go")
        return [str(cached(f"languages-{program}", key, build) / program)]

    lines = (folder / "go.mod").read_text().splitlines()
    _, version, *_ = next(line.split() for line in lines if f"\t{module} " in line)
    return Client("Go", library, version.removeprefix("v"), command, differs)


# --- Node: one package, one program per library


def node(library: str, program: str, **differs: Difference) -> Client:
    folder = DRIVERS / "node"

    def build(out: Path) -> None:
        out.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(folder / name, out)
        run("npm", "ci", "--no-audit", "--no-fund", "--prefer-offline", "--silent", cwd=out)

    def command() -> list[str]:
        needs("node", "npm")
        modules = cached("languages-node", contents(folder, "package*.json"), build)
        return ["node", str(folder / program), str(modules / "node_modules")]

    pinned = json.loads((folder / "package.json").read_text())["dependencies"]
    return Client("Node", library, pinned[library], command, differs)


# --- Java: one program, the same for all versions


def java(version: str) -> Client:
    folder = DRIVERS / "java"

    def command() -> list[str]:
        needs("java", "javac", "mvn")
        properties = {"kafka.version": version}
        jars = fetched_jars(folder / "pom.xml", f"languages-java-{version}", **properties)

        def build(out: Path) -> None:
            run("javac", "-nowarn", "-cp", f"{jars}/*", "-d", out, "Driver.java", cwd=folder)

        key = [version, *contents(folder, "*")]
        classes = cached(f"languages-java-{version}-classes", key, build)
        return ["java", *FLAGS, "-Xmx256m", "-cp", f"{classes}:{jars}/*", "Driver"]

    return Client("Java", "kafka-clients", version, command)


# --- Rust: one package per library


def rust(library: str) -> Client:
    folder = DRIVERS / "rust"
    program = f"driver-{library}"

    def build(out: Path) -> None:
        out.mkdir()
        target = shared_folder("languages-rust-target")  # a changed driver builds only itself
        cargo = ("cargo", "build", "--quiet", "--release", "--target-dir", target)
        run(*cargo, "--package", program, cwd=folder)
        shutil.copy(target / "release" / program, out)

    def command() -> list[str]:
        needs("cargo", "cc", "make")
        if installed("openssl") is None:
            raise Missing("not installed: libssl-dev")
        key = contents(folder, "Cargo.toml", "protocol/**/*.*", f"{library}/**/*.*")
        return [str(cached(f"languages-rust-{library}", key, build) / program)]

    required = tomllib.loads((folder / library / "Cargo.toml").read_text())["dependencies"][library]
    version: str = required if isinstance(required, str) else required["version"]
    return Client("Rust", library, version.removeprefix("="), command)


# --- C: with the machine's librdkafka


OLD_SCRAM = Difference("its SCRAM-SHA-512 exchange is rejected", "SASL authentication error")


def c() -> Client:
    folder = DRIVERS / "c"

    def build(out: Path) -> None:
        out.mkdir()
        flags = ("-O1", "-Wall", "-Wextra", "-Werror", "-o", out / "driver")
        run("cc", *flags, "driver.c", "-lrdkafka", "-ljansson", "-lpthread", cwd=folder)

    def command() -> list[str]:
        needs("cc")
        version = installed("rdkafka")
        if version is None or installed("jansson") is None:
            raise Missing("not installed: librdkafka-dev, libjansson-dev")
        key = [version, *contents(folder, "*")]
        return [str(cached("languages-c", key, build) / "driver")]

    version = installed("rdkafka") or "2.0.2"  # that of Debian 12
    return Client(
        "C", "librdkafka", version, command, {"scram": OLD_SCRAM} if version < "2.1" else {}
    )


def installed(library: str) -> str | None:
    """Return the version of a library that is installed with its headers, or None."""
    if shutil.which("pkg-config") is None:
        return None
    command = ["pkg-config", "--modversion", library]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


LEAVES = Difference(
    "leaves its group when it is closed", "assert stage.cluster.member_count(stage.group) == 2"
)
JOINS_AGAIN = Difference("joins again and repeats the commit", "it was not refused")
CLIENTS: Sequence[Client] = (
    java("3.9.1"),
    java("4.3.0"),
    go(
        *("franz-go", "github.com/twmb/franz-go", "franz-go"),
        kip848_static=Difference(
            "leaves without its instance id, which is rejected", "UNRELEASED_INSTANCE_ID"
        ),
    ),
    go(
        *("kafka-go", "github.com/segmentio/kafka-go", "kafka-go"),
        acl=Difference(
            "reports a missing ACL as a topic that does not exist",
            "[3] Unknown Topic Or Partition",
        ),
    ),
    go("sarama", "github.com/IBM/sarama", "sarama"),
    go("confluent-kafka-go", "github.com/confluentinc/confluent-kafka-go/v2", "confluent"),
    node(
        *("kafkajs", "kafkajs.js"),
        regex=Difference("matches the pattern once, when it subscribes", "the new topic"),
    ),
    node(
        *("@platformatic/kafka", "platformatic.js"),
        static=LEAVES,
        kip848_static=LEAVES,
        removed=JOINS_AGAIN,
        fenced=JOINS_AGAIN,
        producer_fencing=Difference(
            "sends producer id 0, which belongs to another producer, instead of -1",
            "executing API InitProducerId",
        ),
    ),
    rust("rdkafka"),
    rust("krafka"),
    c(),
    python("confluent-kafka", "2.0.2", "confluent", scram=OLD_SCRAM),
    python("confluent-kafka", "2.16.1", "confluent", "typing-extensions==4.15.0"),
    python(
        *("kafka-python", "2.0.2", "kafka_python"),
        acl=Difference("reports a missing ACL as a timeout", "Failed to update metadata"),
    ),
    python("kafka-python", "3.0.12", "kafka_python"),
    python("aiokafka", "0.8.1", "aio", *AIOKAFKA, "kafka-python==2.0.2"),
    python("aiokafka", "0.14.0", "aio", *AIOKAFKA),
)
