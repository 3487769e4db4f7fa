"""Statistics about the code's structure: files, lines, imports, and the paths of requests.

    python tests/project/structure.py [ROOT]      # as a table; `make structure`

ROOT is a checkout of kohort, by default this one. Files and imports are read as text. The paths of
requests are recorded: a broker runs in this process, a client on a socket joins a group and
commits, and a profiler notes every function of kohort that is called meanwhile. The second request
of a kind is measured, so that imports and code that runs once do not count.
"""

import ast
import asyncio
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parents[2]
# The client that sends the requests, and is not on their path.
CLIENT: Final = "conformance/wire.py"
NOT_PRODUCT: Final = {"tests", "benchmarks", "demo", "docs", "examples", "build", "dist", ".typing"}
SHORT_LINES: Final = 60

# --- files


def product_files(root: Path) -> list[Path]:
    """The Python files of the package, `setup.py` not included."""
    found = (path.relative_to(root) for path in root.rglob("*.py"))
    return sorted(
        path
        for path in found
        if path.parts[0] not in NOT_PRODUCT
        and not any(part.startswith(".") for part in path.parts)
        and path.name != "setup.py"
    )


def line_count(path: Path) -> int:
    return path.read_text().count("\n")


# --- imports, including TYPE_CHECKING and lazy ones


def module_name(path: Path) -> str:
    parts = ("kohort", *path.with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph(root: Path) -> dict[str, set[str]]:
    """Module -> the modules of the package that it imports, by name only (no `import_module`)."""
    modules = {module_name(path): path for path in product_files(root)}
    return {
        name: {found for found in _imported(root / path, name, modules) if found != name}
        for name, path in modules.items()
    }


def _imported(path: Path, name: str, modules: Mapping[str, Path]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            source = ".".join(part for part in (base, node.module) if part)
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                if inner in modules:
                    yield inner
                elif source in modules:
                    yield source


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or not (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                found.append(sorted(group))

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return found


def longest_chain(graph: Mapping[str, set[str]], start: str) -> list[str]:
    """Return the longest chain of imports from `start`, counting one module of each cycle."""
    in_cycle = {name: tuple(group) for group in cycles(graph) for name in group}

    @cache
    def chain(name: str) -> tuple[str, ...]:
        members = in_cycle.get(name, (name,))
        targets = sorted({t for m in members for t in graph[m]} - set(members))
        tails = [chain(target) for target in targets]
        return (name, *max(tails, key=len, default=()))

    return list(chain(start))


# --- the path of a request


class PathRecorder:
    """Records the files of the package whose functions are called, in this and in new threads."""

    def __init__(self, root: Path) -> None:
        self._prefix = f"{root}/"
        skipped = (".", CLIENT, *(f"{name}/" for name in NOT_PRODUCT))
        self._skipped = tuple(f"{root}/{name}" for name in skipped)
        self.files: list[str] = []

    def __call__(self, frame: FrameType, event: str, _arg: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(self._prefix) and not name.startswith(self._skipped):
            self.files.append(name.removeprefix(self._prefix))

    def __enter__(self) -> "PathRecorder":
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    @property
    def switches(self) -> int:
        return sum(a != b for a, b in zip(self.files, self.files[1:], strict=False))


GROUP = {"session_timeout": 10_000, "rebalance_timeout": 10_000, "protocol_type": "consumer"}


def commit_of(group_id: str, generation: int, member_id: str, offset: int) -> dict[str, Any]:
    """The values of an OffsetCommit v2."""
    topic = {"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": offset}]}
    identity = {"generation_id_or_member_epoch": generation, "member_id": member_id}
    return {"group_id": group_id, **identity, "topics": [topic]}


async def _record_paths(package: ModuleType, root: Path, folder: Path) -> dict[str, PathRecorder]:
    from importlib import import_module

    broker_module = import_module(f"{package.__name__}.broker.broker")
    wire = import_module(f"{package.__name__}.conformance.wire")
    broker = broker_module.Broker(broker_module.BrokerConfig(), data_dir=folder, durability="fsync")
    await broker.start("127.0.0.1", 0)
    found: dict[str, PathRecorder] = {}
    try:
        client = await wire.AsyncClient.connect(broker.port)

        async def join(member_id: str) -> dict[str, Any]:
            protocols = [{"name": "range", "metadata": b""}]
            values = {"group_id": "billing", "member_id": member_id, "protocols": protocols}
            response = await client.call("JoinGroup", 2, **values, **GROUP)
            assert response["error_code"] == "none", response
            identity = {key: response[key] for key in ("generation_id", "member_id")}
            return {"group_id": "billing", **identity}

        async def sync(member: dict[str, Any]) -> None:
            assignments = [{"member_id": member["member_id"], "assignment": b"x"}]
            await client.call("SyncGroup", 2, **member, assignments=assignments)

        # creates the topic of the commit
        await client.call("Metadata", 1, topics=[{"name": "orders"}])
        member = await join("")
        await sync(member)
        with PathRecorder(root) as found["JoinGroup"]:
            member = await join(member["member_id"])
        await sync(member)
        for offset in range(2):  # the first request imports and compiles
            await client.call("OffsetCommit", 2, **commit_of("other", -1, "", offset))
        identity = member["generation_id"], member["member_id"]
        for offset, name in enumerate(("OffsetCommit, decoded", "OffsetCommit, cached")):
            with PathRecorder(root) as found[name]:
                await client.call("OffsetCommit", 2, **commit_of("billing", *identity, offset))
        client.close()
    finally:
        await broker.stop()
    return found


def request_paths(root: Path) -> dict[str, PathRecorder]:
    """Return the files of `root` on the path of each request, in the order of the calls."""
    package = _imported_from(root)
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_record_paths(package, root, Path(folder) / "data"))


def _imported_from(root: Path) -> ModuleType:
    import importlib.util

    spec = importlib.util.spec_from_file_location(
        "kohort", root / "__init__.py", submodule_search_locations=[str(root)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = sys.modules["kohort"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return package


# --- the table


def figures(root: Path) -> dict[str, int]:
    files = product_files(root)
    lines = {path: line_count(root / path) for path in files}
    found = {"product files": len(files), "product lines": sum(lines.values())}
    by_folder = Counter(path.parts[0] for path in files if len(path.parts) > 1)
    for folder, count in sorted(by_folder.items()):
        found[f"files in {folder}/"] = count
    old = [path for path in files if path.parts[:2] == ("broker", "groups")]
    if old:
        found["files in coordinator/"] = len(old)
    found[f"files under {SHORT_LINES} lines"] = sum(n < SHORT_LINES for n in lines.values())
    graph = import_graph(root)
    found["import cycles"] = len(cycles(graph))
    handler = "kohort.broker.handlers.k08_offset_commit"
    found["longest import chain of k08_offset_commit"] = len(longest_chain(graph, handler))
    tests = [path for path in sorted((root / "tests").rglob("*.py")) if "vectors" not in path.parts]
    helpers = [path for path in tests if not path.name.startswith("test_")]
    found["test files"] = len(tests)
    found["test lines"] = sum(map(line_count, tests))
    found["test helper files"] = len(helpers)
    found["test helper lines"] = sum(map(line_count, helpers))
    for name, path in request_paths(root).items():
        found[f"files on the path of {name}"] = len(set(path.files))
        found[f"file switches on the path of {name}"] = path.switches
    return found


def main() -> None:
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE
    for name, figure in figures(root).items():
        print(f"{figure:8,}  {name}")
    for group in cycles(import_graph(root)):
        print(f"cycle: {', '.join(group)}")


if __name__ == "__main__":
    main()
