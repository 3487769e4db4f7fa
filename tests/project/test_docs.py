"""The examples in the docs run, and their lists match the code."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import kio.schema
import kohort.testing
import pytest
from kohort.broker.config.keys import BROKER_KEYS
from kohort.cli.main import parser
from kohort.protocol.apis import APIS
from kohort.testing import history
from kohort.topics.configs.effective import ConsumerGroupConfig, TopicSettings
from kohort.topics.configs.group_configs import GROUP_BOUNDS
from kohort.topics.configs.topic_keys import BROKER_SYNONYMS
from support.running_broker import CLEAN_ENVIRONMENT, start_broker

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
LANDING = (ROOT / "docs" / "index.md").read_text()
MISSING = (ROOT / "docs" / "not-implemented.md").read_text()
# Packages whose names differ from their modules'.
IMPORTS = {"kafka-python": "kafka"}
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def blocks(language: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


@pytest.mark.clients
@pytest.mark.parametrize("block", blocks("python") + blocks("python", LANDING))
def test_the_programs_of_the_readme_and_the_landing_page_run(block: str, tmp_path: Path) -> None:
    (tmp_path / "test_readme.py").write_text(block)
    done = pytest_alone(tmp_path, "-W", "error", "-p", "no:asyncio")
    assert done.returncode == 0, done.stdout


def pytest_alone(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [Path(sys.executable).with_name("pytest"), "-q", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env={**CLEAN_ENVIRONMENT, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )


@pytest.mark.clients
def test_the_examples_run_outside_the_repository(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("billing", "howto")]
    for folder in folders:
        source = ROOT / "examples" / folder.name
        shutil.copytree(source, folder, ignore=lambda *_: ["__pycache__"])
    some = ("-k", "test_every_order_is_charged or test_resume_after_crash")
    for folder in (*folders, tmp_path):  # pytest runs in these folders or above them
        done = pytest_alone(folder, *some)
        assert done.returncode == 0, done.stdout
        assert "passed" in done.stdout


# The folders with examples in Python, and the page that says how to install what they need.
@pytest.mark.parametrize(
    ("folders", "page"),
    [(("billing", "howto"), "docs/howto.md"), (("billing", "howto"), "examples/README.md")],
)
def test_examples_import_only_what_their_page_installs(folders: Sequence[str], page: str) -> None:
    sources = [each for folder in folders for each in (ROOT / "examples" / folder).glob("*.py")]
    found = [
        re.findall(r"^(?:from|import) (\w+)", each.read_text(), re.MULTILINE) for each in sources
    ]
    imported = set().union(*found) - sys.stdlib_module_names - {"kohort", *folders}
    command = r"pip install (?:\./kohort )?([\w -]+)"
    installed = " ".join(re.findall(command, (ROOT / page).read_text())).split()
    assert imported <= {IMPORTS.get(each, each.replace("-", "_")) for each in installed}


def test_the_commands_of_the_readme_exist() -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    lines = [line for block in blocks("console") for line in block.splitlines()]
    commands = [line[2:] for line in lines if line.startswith("$ ")]
    for program, *arguments in map(shlex.split, commands):
        if program == "kohort":
            parser().parse_args(arguments)
        elif program == "make":
            assert set(arguments) <= set(targets)


def test_the_readme_shows_the_line_that_kohort_prints(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^kohort \S+ listening .*$", README, re.MULTILINE)
    with start_broker(tmp_path, "--port", "0") as served:
        assert served.first_line.strip().replace(f":{served.port} ", ":9092 ") == shown


def test_the_tables_of_the_docs_are_generated() -> None:
    tables = (sys.executable, ROOT / "docs" / "tables.py", "--check")
    done = subprocess.run(tables, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_reference_documents_the_whole_test_api() -> None:
    """The members of these classes are documented automatically; tables.py rejects undocumented
    ones."""
    page = (ROOT / "docs" / "testing-reference.md").read_text()
    headings = set(re.findall(r"^### (?:with )?`(?:kafka\.)?(\w+)", page, re.MULTILINE))
    kept = {name for name in vars(history) if isinstance(getattr(history, name), type)}
    kept = {name for name in kept if getattr(history, name).__module__ == history.__name__}
    assert {*kohort.testing.__all__, *kept} <= headings


def test_the_readme_lists_the_folders_of_the_project() -> None:
    table = README.split("<!-- folders -->")[1].split("<!-- /folders -->")[0]
    listed = set(re.findall(r"\[`(\w+)/`\]", table))
    hidden = {"build", "dist", "kohort-data"}  # created by a build and by a broker started here
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name[0] not in "._"}
    assert listed == {name for name in folders - hidden if not name.endswith(".egg-info")}


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, formed as on GitHub."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.replace(" ", "-") for heading in plain}


def test_links_between_pages_are_valid() -> None:
    broken = [
        f"{page.name}: {target}"
        for page in PAGES
        for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text())
        if not (linked := page.parent / target if target else page).exists()
        or (anchor and linked.suffix == ".md" and anchor not in anchors(linked))
    ]
    assert broken == []


def test_every_test_named_in_the_docs_exists() -> None:
    named = {
        (page.parent / path, name)
        for page in PAGES
        for name, path in re.findall(r"\[(test_\w+)\]\(([^)]+\.py)\)", page.read_text())
    }
    assert named
    missing = [name for path, name in named if f"def {name}(" not in path.read_text()]
    assert missing == []


# Requests between brokers and controllers, which no client sends.
INTERNAL = re.compile(
    "AllocateProducerIds|AlterPartition|AssignReplicasToDirs|BeginQuorumEpoch|BrokerHeartbeat|"
    "BrokerRegistration|ControllerRegistration|EndQuorumEpoch|Envelope|FetchSnapshot|"
    "UpdateRaftVoter|Vote"
)


def test_every_api_of_kafka_is_implemented_or_listed_as_missing() -> None:
    table = MISSING.split("## APIs\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| ([A-Z][\w, ]+) \|", table.partition("|---|")[2], re.MULTILINE)
    apis = {
        "".join(word.capitalize() for word in request.parts[-3].split("_"))
        for request in Path(kio.schema.__path__[0]).glob("*/v*/request.py")
    }
    missing = {api for api in apis if not INTERNAL.fullmatch(api)} - {api.name for api in APIS}
    assert set(", ".join(cells).split(", ")) == missing, "correct the first table of the page"


def test_keys_without_effect_are_those_that_no_code_reads() -> None:
    """A key counts as read if its name, or the name of the topic key whose default it sets, is
    quoted outside of the declarations, is a field of TopicSettings or ConsumerGroupConfig, or
    bounds such a field."""
    declared = {
        ROOT / "broker" / "config" / "keys.py",
        ROOT / "topics" / "configs" / "topic_keys.py",
    }
    code = "\n".join(
        path.read_text()
        for part in ("broker", "cli", "coordinator", "log", "offsets", "topics")
        for path in (ROOT / part).rglob("*.py")
        if path not in declared
    )
    read = set(re.findall(r'"([a-z_.]+)"', code))
    read |= {field.replace("_", ".") for field in TopicSettings._fields}
    read |= {f"group.consumer.{f.replace('_', '.')}" for f in ConsumerGroupConfig._fields}
    read |= {key for bound in GROUP_BOUNDS for key in (bound.low_key, bound.high_key)}
    names_of = {key: {key, key.replace(".", "_")} for key in BROKER_KEYS}
    for topic_key, synonyms in BROKER_SYNONYMS.items():
        for broker_key, _ in synonyms:
            names_of.get(broker_key, set()).add(topic_key)
    # Keys that are only described, stored or validated.
    described = {
        "compression.type": "a configuration of the offsets topic",
    }
    unread = {key for key in BROKER_KEYS if key in described or not names_of[key] & read}
    assert unread == {key.name for key in BROKER_KEYS.values() if key.no_effect}


def test_every_function_of_the_reading_guide_exists() -> None:
    page = (ROOT / "docs" / "reading-guide.md").read_text()
    linked = set(re.findall(r"\]\(\.\./([^)]+\.py)\)", page))
    defined = {
        name
        for path in linked
        for name in re.findall(
            r"^(?:\s*(?:async )?(?:def|class) )?(\w+)(?=[(:])", (ROOT / path).read_text(), re.M
        )
    }
    steps = "\n".join(re.findall(r"^(?:\d\.|   |\|) .*", page, re.M))
    named = re.findall(r"`(?:\w+\.)?(\w+)`", steps)
    assert len(named) >= 40
    assert [name for name in named if name not in defined] == []
