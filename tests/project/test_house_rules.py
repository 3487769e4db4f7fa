"""House rules that can be checked: sizes, folders, imports between packages, fast starts."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PROJECT["tool"]["setuptools"]["packages"]
NOT_SHIPPED = {"tests", "benchmarks", "demo", "docs", "examples", "build", "dist"}

FUNCTION_LINES_MAX = 50  # one screen


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


def test_every_module_has_a_docstring() -> None:
    silent = [str(path) for path in shipped() if not ast.get_docstring(ast.parse(path.read_text()))]
    assert silent == []


def test_the_docstring_of_a_package_names_its_modules() -> None:
    """Except broker/handlers, which has one file per API key and their shared modules."""
    unnamed = []
    for folder in {path.parent for path in shipped()} - {ROOT, ROOT / "broker" / "handlers"}:
        says = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
        there = {path.stem for path in folder.glob("*.py") if path.stem != "__init__"}
        there |= {path.parent.name for path in folder.glob("*/__init__.py")}
        unnamed += [
            f"{folder.name}/{name}" for name in there if not re.search(rf"\b{name}\b", says)
        ]
    assert unnamed == []


def test_pyproject_lists_all_packages() -> None:
    folders = {
        ".".join(("kohort", *path.relative_to(ROOT).parent.parts))
        for path in shipped()
        if path.name == "__init__.py"
    }
    modules = {".".join(("kohort", *path.relative_to(ROOT).parent.parts)) for path in shipped()}
    assert modules == folders, "a folder with modules lacks its __init__.py"
    assert set(PACKAGES) == folders


def test_the_import_contracts_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("arguments", [["check"], ["format", "--check"]], ids=["lint", "format"])
def test_ruff_reports_nothing(arguments: list[str]) -> None:
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not installed beside this Python: pip install -e '.[dev]'")
    done = subprocess.run(
        [ruff, *arguments, "--quiet", "--no-cache", "."], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{done.stdout}\nmake format mends most of it"


@pytest.mark.parametrize("module", ["kohort", "kohort.cli.main", "kohort.protocol.apis"])
def test_modules_imported_everywhere_import_no_library(module: str) -> None:
    heavy = "'kio', 'kafka', 'rich', 'asyncio', 'uvloop', 'pyspark', 'pytest'"
    probe = f"import sys, {module}; print({{{heavy}}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")
