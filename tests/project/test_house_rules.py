"""House rules that can be checked: sizes, folders, imports between packages, fast starts."""

import ast
import re
import re._constants
import re._parser
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kohort.protocol.apis import APIS

from .structure import cycles, import_graph

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PROJECT["tool"]["setuptools"]["packages"]
NOT_SHIPPED = {"tests", "benchmarks", "demo", "docs", "examples", "build", "dist"}

API_NAMES = {api.name for api in APIS}

FUNCTION_LINES_MAX = 50  # one screen

# Packages that serve requests, and their modules whose patterns match only trusted text: the
# operator's configuration, file names in the data folder, the broker's own lines, the project's
# paths.
SEE_CLIENT_DATA = ("broker", "control_api", "coordinator", "log", "offsets", "protocol", "topics")
SEE_OTHER_TEXT = {
    "broker/config/listeners.py",
    "broker/config/sources.py",
    "broker/event_log.py",
    "control_api/endpoint.py",
    "log/write_ahead.py",
    "topics/kafka_import.py",
    "topics/kafka_metadata.py",
}


def sources() -> list[Path]:
    return sorted(
        path
        for path in ROOT.rglob("*.py")
        if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
        and path.relative_to(ROOT).parts[0] not in ("build", "dist")
    )


def shipped() -> Iterator[Path]:
    return (path for path in sources() if path.relative_to(ROOT).parts[0] not in NOT_SHIPPED)


def test_no_function_is_longer_than_50_lines() -> None:
    long = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name} ({lines})")
    assert long == []


def backtracks(pattern: Any) -> bool:
    """Whether a parsed pattern has an unbounded repetition that is not possessive."""
    if isinstance(pattern, tuple) and pattern[:1] in (
        (re._constants.MAX_REPEAT,),
        (re._constants.MIN_REPEAT,),
    ):
        _, highest, repeated = pattern[1]
        return highest == re._constants.MAXREPEAT or backtracks(repeated)
    parts = pattern if isinstance(pattern, list | tuple | re._parser.SubPattern) else ()
    return any(map(backtracks, parts))


def used_patterns(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each literal pattern with the function that it is passed to, or the method called on
    it."""
    named = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), value=value):
                match value:
                    case ast.Call(ast.Attribute(ast.Name("re")), [ast.Constant(text), *_]):
                        named[name] = text
            case ast.Call(ast.Attribute(ast.Name("re"), function), [ast.Constant(text), *_]):
                yield function, text
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Attribute(ast.Name(name), method)) if name in named:
                yield method, named[name]


def test_patterns_that_see_client_data_match_in_linear_time() -> None:
    """Unbounded repetitions are possessive, and match from the start of the text: a search starts
    again at each character."""
    slow = []
    for path in shipped():
        name = path.relative_to(ROOT).as_posix()
        if name.split("/")[0] not in SEE_CLIENT_DATA or name in SEE_OTHER_TEXT:
            continue
        for function, pattern in used_patterns(ast.parse(path.read_text())):
            searches = function not in ("compile", "match", "fullmatch")
            unbounded = re._parser.parse(pattern).getwidth()[1] >= re._constants.MAXREPEAT
            if backtracks(re._parser.parse(pattern)) or (searches and unbounded):
                slow.append(f"{name}: {function}({pattern!r})")
    assert slow == []


@pytest.mark.parametrize(
    ("code", "slow"),
    [
        ("re.compile('[0-9]+x')", True),
        ("re.compile('(a|(?:b*?c))')", True),
        ("re.compile('(?>a+)b')", True),
        ("re.compile('[0-9]++(x{0,9})?')", False),
    ],
)
def test_repetitions_that_backtrack_are_found(code: str, *, slow: bool) -> None:
    ((_, pattern),) = used_patterns(ast.parse(code))
    assert backtracks(re._parser.parse(pattern)) == slow


def test_every_module_has_a_docstring() -> None:
    silent = [str(path) for path in shipped() if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_the_docstring_of_a_package_names_its_modules() -> None:
    """broker/handlers is an exception: it has one file per API key, and shared modules."""
    unnamed = []
    for folder in {path.parent for path in shipped()} - {ROOT, ROOT / "broker" / "handlers"}:
        says = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
        there = {path.stem for path in folder.glob("*.py") if path.stem != "__init__"}
        there |= {path.parent.name for path in folder.glob("*/__init__.py")}
        unnamed += [
            f"{folder.name}/{name}" for name in there if not re.search(rf"\b{name}\b", says)
        ]
    assert unnamed == [], "describe the module in the docstring of its package"


def test_pyproject_lists_all_packages() -> None:
    folders = {
        ".".join(("kohort", *path.relative_to(ROOT).parent.parts))
        for path in shipped()
        if path.name == "__init__.py"
    }
    modules = {".".join(("kohort", *path.relative_to(ROOT).parent.parts)) for path in shipped()}
    assert modules == folders, "a folder with modules lacks its __init__.py"
    assert set(PACKAGES) == folders, "correct `packages` in pyproject.toml"


def test_no_modules_import_each_other() -> None:
    """Imports for type checkers and in functions count."""
    assert cycles(import_graph(ROOT)) == []


@pytest.mark.parametrize("module", ["kohort", "kohort.cli.main", "kohort.protocol.apis"])
def test_modules_imported_everywhere_import_no_library(module: str) -> None:
    heavy = "'kio', 'kafka', 'rich', 'asyncio', 'uvloop', 'pyspark', 'pytest'"
    probe = f"import sys, {module}; print({{{heavy}}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")


@pytest.mark.parametrize("before", ["", "hypothesis.strategies, "])
def test_the_harness_imports_no_hypothesis_and_leaves_it_usable(before: str) -> None:
    """kio would import it, which takes as long as importing all of kohort."""
    pytest.importorskip("hypothesis")
    probe = f"""
        import sys, {before}kohort.testing.kafka
        print("hypothesis" in sys.modules)
        import hypothesis.strategies
        hypothesis.strategies.integers()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(probe)], capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == (f"{bool(before)}\n", "")


def test_the_makefile_runs_the_tests_that_use_spark() -> None:
    """The tests that use Spark are in the folders of the Makefile's variable SPARK."""
    (variable,) = re.findall(r"^SPARK = .*", (ROOT / "Makefile").read_text(), re.MULTILINE)
    folders = [ROOT / name for name in variable.split() if name.startswith("tests/")]
    using = [
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"pytest\.mark\.spark\b", path.read_text())
    ]
    assert using
    assert [path for path in using if not set(folders) & set(path.parents)] == []


def test_apis_that_requests_are_compared_with_exist() -> None:
    """A misspelt name would never be equal to the name of a request's API."""
    unknown = []
    for path in shipped():
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Compare(ast.Attribute(attr="api") | ast.Name("api")):
                    pass
                case ast.Assign([ast.Name(name)]) if name.endswith("_APIS"):
                    pass
                case _:
                    continue
            texts = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
            names = {each for each in texts if isinstance(each, str)}
            unknown += [f"{path.relative_to(ROOT)}: {each}" for each in names - API_NAMES]
    assert unknown == []
