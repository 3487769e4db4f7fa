"""The wheel installs nothing outside of `kohort`, and projects with equally named folders still
work."""

import os
import site
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from importlib.metadata import Distribution, distribution
from pathlib import Path

import kohort
import pytest
from packaging.requirements import Requirement
from support.builds import ROOT, built_sdist, built_wheel, run

PARTS = (
    "assignors",
    "broker",
    "check",
    "cli",
    "conformance",
    "control_api",
    "coordinator",
    "log",
    "offsets",
    "pipeline",
    "protocol",
    "testing",
    "topics",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.mark.slow
def test_the_wheel_contains_one_package_and_its_metadata(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"kohort"}
    folders = {name.split("/")[1] for name in names if name.count("/") > 1}
    assert {folder for folder in folders if folder != "licenses"} == set(PARTS)
    assert {name for name in names if name.count("/") == 1 and name.startswith("kohort/")} == {
        "kohort/__init__.py",
        "kohort/__main__.py",
        "kohort/client_properties.py",
        "kohort/client_security.py",
        "kohort/java_properties.py",
        "kohort/printable.py",
        "kohort/py.typed",
        "kohort/suggestions.py",
    }
    assert not any(name.endswith(".so") for name in names)
    assert "kohort/testing/kafka_python/ConsumerGroupDescribeResponse.json" in names
    assert "kohort/conformance/transcripts/heartbeats.json" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.slow
def test_the_source_distribution_contains_the_sources_of_the_wheel(tmp_path: Path) -> None:
    with tarfile.open(built_sdist(tmp_path)) as archive:
        files = [Path(member.name) for member in archive if member.isfile()]
    folders = {path.parts[1] for path in files if len(path.parts) > 2}
    assert folders == {*PARTS, "kohort.egg-info"}
    assert "setup.py" in {path.parts[1] for path in files}


@pytest.mark.slow
def test_projects_with_their_own_protocol_and_broker_packages_can_use_kohort(
    wheel: Path, tmp_path: Path
) -> None:
    for part in PARTS:
        (tmp_path / part).mkdir()
        (tmp_path / part / "__init__.py").write_text(f"WHOSE = 'mine: {part}'\n")
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps")
    run(*pip, wheel, cwd=tmp_path)
    # Dependencies come from this environment; its editable kohort does not, because Python reads
    # no .pth files in a folder of PYTHONPATH.
    libraries = os.pathsep.join([str(tmp_path), *site.getsitepackages()])
    probe = f"""
import importlib
for part in {PARTS}:
    mine, theirs = importlib.import_module(part), importlib.import_module("kohort." + part)
    assert mine.WHOSE == "mine: " + part
    assert "site-packages" in theirs.__file__, theirs.__file__
import kohort.broker.broker
print("both")
"""
    assert run(python, "-c", probe, cwd=tmp_path, PYTHONPATH=libraries) == "both\n"
    kohort = tmp_path / "env" / "bin" / "kohort"
    assert run(kohort, "--version", cwd=tmp_path, PYTHONPATH=libraries).startswith("kohort ")
    settings = run(kohort, "serve", "--print-config", cwd=tmp_path, PYTHONPATH=libraries)
    assert "num.partitions=1  (default)" in settings


@pytest.mark.slow
def test_a_clone_beside_the_tests_is_not_collected_and_does_not_hide_the_package_unnoticed(
    wheel: Path, tmp_path: Path
) -> None:
    (tmp_path / "test_mine.py").write_text("def test_mine(kafka): assert kafka.bootstrap_servers")
    (tmp_path / "kohort").symlink_to(ROOT)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    packages = {"PYTHONPATH": str(tmp_path / "installed")}
    options = ("-p", "no:cacheprovider", "--collect-only")
    collected = run(Path(sys.executable).with_name("pytest"), *options, cwd=tmp_path, **packages)
    assert "1 test collected" in collected
    assert "imported from the clone" not in collected
    hidden = run(sys.executable, "-m", "pytest", *options, cwd=tmp_path, **packages)
    assert "1 test collected" in hidden
    assert f"imported from the clone {tmp_path / 'kohort'}, which hides" in hidden


@pytest.mark.slow
def test_pytest_does_not_rewrite_the_assertions_of_kohort(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "import sys\n"
        "def test_mine(kafka):\n"
        "    loader = sys.modules['kohort.testing.kafka'].__loader__\n"
        "    assert 'rewrite' not in type(loader).__module__\n"
    )
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    pytest_command = (Path(sys.executable).with_name("pytest"), "-p", "no:cacheprovider")
    tested = run(*pytest_command, cwd=tmp_path, PYTHONPATH=str(tmp_path / "installed"))
    assert "1 passed" in tested


def closure(requirements: list[str]) -> Iterator[Distribution]:
    """Yield the installed distributions that the requirements need on this machine."""
    seen: set[str] = set()
    while requirements:
        wanted = Requirement(requirements.pop())
        if wanted.name not in seen and (wanted.marker is None or wanted.marker.evaluate()):
            seen.add(wanted.name)
            yield (found := distribution(wanted.name))
            requirements += found.requires or []


def repacked(installed: Distribution, folder: Path) -> None:
    """Make a wheel of an installed distribution, so that no network is needed."""
    tag = (installed.read_text("WHEEL") or "").split("Tag: ")[1].split()[0]
    name = f"{installed.name.replace('-', '_')}-{installed.version}-{tag}.whl"
    with zipfile.ZipFile(folder / name, "w") as archive:
        for file in installed.files or ():
            if file.suffix != ".pyc" and ".." not in file.parts:  # commands are installed again
                archive.write(str(file.locate()), str(file))


@pytest.mark.slow
def test_wheel_and_sdist_install_offline_with_the_core_dependencies_only(
    wheel: Path, tmp_path: Path
) -> None:
    house = tmp_path / "wheelhouse"
    house.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        headers = message_from_bytes(archive.read(metadata))
    needs = [each for each in headers.get_all("Requires-Dist", []) if "extra ==" not in each]
    for each in closure([*needs, "pytest", "setuptools"]):
        repacked(each, house)
    offline = ("install", "--quiet", "--no-index", "--no-compile", "--find-links", house)
    for built in (wheel, built_sdist(tmp_path)):
        venv.create(tmp_path / built.suffix, with_pip=False)
        python = tmp_path / built.suffix / "bin" / "python"
        run(
            sys.executable, "-m", "pip", "--python", python, *offline, built, "pytest", cwd=tmp_path
        )
        (tmp_path / "test_mine.py").write_text(
            "def test_mine(kafka):\n"
            "    kafka.topic('orders')\n"
            "    kafka.fake_member('billing', topics=['orders'])\n"
            "    kafka.group('billing').wait_stable(members=1)\n"
        )
        assert "1 passed" in run(python, "-m", "pytest", "-W", "error", cwd=tmp_path)
        assert run(python.with_name("kohort"), "--version", cwd=tmp_path).startswith("kohort ")


@pytest.mark.slow
def test_the_version_has_one_place(wheel: Path) -> None:
    assert wheel.name.startswith(f"kohort-{kohort.__version__}-")


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("github-workflows", ".github/workflows/*.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/[bf]*.yml"),
        ("github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
    ],
)
def test_the_files_for_github_are_valid(schema: str, pattern: str) -> None:
    files = sorted(ROOT.glob(pattern))
    assert files
    check = Path(sys.executable).with_name("check-jsonschema")
    run(check, "--builtin-schema", f"vendor.{schema}", *files, cwd=ROOT)


def test_an_editable_install_is_not_compiled() -> None:
    """Only `make compiled` builds a compiled kohort."""
    build = (sys.executable, "setup.py", "editable_wheel")
    environment = {**os.environ, "KOHORT_COMPILE": "1"}
    done = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.startswith("KOHORT_COMPILE=1 does not work with an editable installation")
