"""docs/testing-reference.md from the harness: its signatures and docstrings.

Read from the source and not from the objects: a signature there has the names that a user knows
(`Puppet`, `TopicPartition`), and an attribute may be told of by the string below it. What stands in
a class behind a line `# --- on the broker's loop` is no user's, nor is a name with an underscore.
"""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final, NamedTuple

from kohort.testing.findings import KINDS

# A line of comment that begins a part of a class, and parts that are not for tests.
_PART: Final = re.compile(r"\s+# --- (.*)")
_INNER: Final = re.compile(r"loop|for the parts of the harness|for who steers")


class Part(NamedTuple):
    """A class or a function of a module, and how a test comes by it."""

    module: str
    name: str
    """Or `Class.method`, which is shown alone, under the name of `at`."""
    at: str = ""
    """What a test writes to have one."""
    is_made: bool = False
    """Tests make one themselves: its arguments are shown."""
    more: str = ""
    """What else of another class stands here: its heading."""


# In the order in which a user meets them: the heading of each, a sentence or two, its parts.
SECTIONS: Final[dict[str, tuple[str, tuple[Part, ...]]]] = {
    "Brokers": (
        "`clock`, `faults`, `disk`, `history` and `doctor` of a broker are further down.",
        (
            Part("kafka", "Kafka", "kafka", is_made=True),
            Part("life", "Life", more="`Kafka`: nodes, crashes, snapshots"),
            Part("life", "NodeInfo", "kafka.nodes"),
            Part("aio", "AsyncKafka", "async_kafka"),
            Part("aio", "AsyncGroup", "async_kafka.group(group_id)"),
            Part("aio", "AsyncHold", "async_kafka.group(group_id).hold_joins()"),
            Part("aio", "AsyncPuppet", "await async_kafka.puppet(group)"),
            Part("aio", "AsyncFault", "async_kafka.faults.drop(api)"),
            Part("aio", "AsyncClock", "async_kafka.clock"),
            Part("container", "KafkaContainer", is_made=True),
            Part("where", "kafka_for_test"),
        ),
    ),
    "Topics": (
        "",
        (
            Part("topic", "Topic", "kafka.topic(name)"),
            Part("topic", "StoredRecord", "topic.records()"),
        ),
    ),
    "Groups": (
        "",
        (
            Part("group", "Group", "kafka.group(group_id)"),
            Part("progress", "Progress", more="`Group`: what it has committed, and its lag"),
            Part("members", "Member", "group.members"),
            Part("happened", "Generation", "group.generations"),
            Part("happened", "Commit", "group.commits"),
            Part("happened", "Exit", "group.exits"),
            Part("choreography", "Hold", "group.hold_joins()"),
            Part("choreography", "Loading", "group.loading()"),
        ),
    ),
    "The clock": ("", (Part("clock", "ClockControl", "kafka.clock"),)),
    "Faults": (
        "",
        (
            Part("faults", "Faults", "kafka.faults"),
            Part("faults", "Fault", "kafka.faults.drop(api)"),
            Part("filters", "Where"),
            Part("faults", "UnusedFault"),
        ),
    ),
    "The disk": (
        "",
        (
            Part("disk", "Disk", "kafka.disk"),
            Part("disk", "DiskFault", "kafka.disk.fail(operation)"),
        ),
    ),
    "Puppets": (
        "",
        (
            Part("fake_members.puppeteer", "Puppeteer.puppet", "puppet"),
            Part("fake_members.arriving", "PuppetRefused"),
            Part("fake_members.puppet", "Puppet", "kafka.puppet(group)"),
            Part("fake_members.asking", "Refusal", "puppet.errors"),
        ),
    ),
    "What happened": (
        "`at_ms`: the broker's clock, milliseconds since 1970; `wall_s`: a stopwatch, seconds.",
        (
            Part("history", "History", "kafka.history"),
            Part("asked", "Asked", "kafka.history.requests"),
            Part("happened", "RefusedCommit", "kafka.history.refused_commits()"),
            Part("happened", "Heard", "kafka.history.events"),
            Part("happened", "StateChange", "kafka.history.state_changes()"),
            Part("happened", "ClockMove", "kafka.history.clock_moves"),
            Part("happened", "Mark", "kafka.history.marks"),
        ),
    ),
    "What it comes to: story, timeline, doctor": (
        "A failed test's report has the first two and what the doctor says by itself.",
        (
            Part("waiting", "BarrierTimeout"),
            Part("report", "report"),
            Part("report", "timeline"),
            Part("doctor", "Doctor", "kafka.doctor"),
            Part("findings", "Finding", "kafka.doctor.findings"),
            Part("findings", "DoctorWarning"),
            Part("findings", "Unhealthy"),
        ),
    ),
}


class Untold(Exception):
    """Something that a user can reach has no docstring."""


def reference() -> str:
    """The page's text below its introduction."""
    lines = ["", "## Fixtures, the marker, options", "", *_plugin()]
    for heading, (words, parts) in SECTIONS.items():
        lines += ["", f"## {heading}", *(["", words] if words else [])]
        for part in parts:
            lines += ["", *_part(part)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join([*lines, ""]))


def _part(part: Part) -> Iterator[str]:
    name = part.module if part.module.startswith("kohort.") else f"kohort.testing.{part.module}"
    source = Source(importlib.import_module(name))
    owner, _, method = part.name.partition(".")
    node = source.named(owner)
    if isinstance(node, ast.FunctionDef):
        yield f"### `{source.signature(node)}`"
        yield from ("", *_paragraphs(_told(node, part.name)))
    elif method:
        (found,) = (e for e in node.body if isinstance(e, ast.FunctionDef) and e.name == method)
        yield f"### `kafka.{part.at}({', '.join(source.arguments(found))})`"
        yield from ("", *_paragraphs(_told(found, part.name)))
    else:
        yield f"### {part.more or f'`{owner}`'}" + (f" – `{part.at}`" if part.at else "")
        yield from source.of_class(node, is_made=part.is_made, is_told=not part.more)
        if part.name == "Finding":
            yield from ("", "The kinds:", "")
            yield from (f"- `{kind}`: {says}" for kind, says in KINDS.items())


class Source:
    """A module of the harness, as its text has it."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        text = inspect.getsource(module)
        self._lines = text.splitlines()
        self._tree = ast.parse(text)

    def named(self, name: str) -> ast.ClassDef | ast.FunctionDef:
        for node in self._tree.body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
                return node
        raise LookupError(f"{self._module.__name__} has no {name}")

    def of_class(self, node: ast.ClassDef, *, is_made: bool, is_told: bool) -> Iterator[str]:
        for each in node.body:
            if is_made and isinstance(each, ast.FunctionDef) and each.name == "__init__":
                arguments = (f"    {argument}," for argument in self.arguments(each))
                yield from ("", "```python", f"{node.name}(", *arguments, ")", "```")
        yield from ("", *_paragraphs(_told(node, node.name))) if is_told else ()
        bare: list[str] = []
        for signature, said in [("", ""), *self._entries(node), ("", "")]:
            if signature and not said:  # of which its name says all: several are one line
                bare.append(f"`{signature}`")
                continue
            if bare:
                yield f"- {', '.join(bare)}"
                bare = []
            yield _entry(signature, said) if signature else ""

    def _entries(self, node: ast.ClassDef) -> Iterator[tuple[str, str]]:
        is_data = bool(node.decorator_list) or "NamedTuple" in map(ast.unparse, node.bases)
        is_inner, line = False, node.lineno
        awaited = []
        for each, after in zip(node.body, [*node.body[1:], None], strict=True):
            for text in self._lines[line - 1 : each.lineno]:
                if said := _PART.match(text):
                    is_inner = bool(_INNER.search(said[1]))
            line = each.end_lineno or each.lineno
            if is_inner:
                continue
            if isinstance(each, ast.FunctionDef):
                yield from self._of_function(each, node.name)
            elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                told = _string(after)
                if each.target.id[0] != "_" and (is_data or told):
                    yield f"{each.target.id}: {_kind(each.annotation)}", told
            elif isinstance(each, ast.Assign) and _is_awaited(each.value):
                awaited.append(ast.unparse(each.targets[0]))
        if awaited:
            yield ", ".join(f"await {name}(…)" for name in awaited), ""

    def _of_function(self, node: ast.FunctionDef, owner: str) -> Iterator[tuple[str, str]]:
        if node.name == "__init__":
            yield from _attributes(node)
        elif not node.name.startswith("_"):
            decorators = {ast.unparse(each) for each in node.decorator_list}
            if any(each.endswith(".setter") for each in decorators):
                return
            told = _told(node, f"{owner}.{node.name}")
            if decorators & {"property", "cached_property"}:
                yield f"{node.name}: {_kind(node.returns)}", told
            else:
                yield self.signature(node, is_context="contextmanager" in decorators), told

    def signature(self, node: ast.FunctionDef, *, is_context: bool = False) -> str:
        returns = "" if is_context else _kind(node.returns)
        shown = f" -> {returns}" if returns not in ("", "None") else ""
        with_ = "with " if is_context else ""
        return f"{with_}{node.name}({', '.join(self.arguments(node))}){shown}"

    def arguments(self, node: ast.FunctionDef) -> list[str]:
        """Each as it is written, but for `self`."""
        args = node.args
        given = [*args.posonlyargs, *args.args]
        defaults = [None] * (len(given) - len(args.defaults)) + args.defaults
        listed = [self._argument(*each) for each in zip(given, defaults, strict=True)]
        listed = listed[1:] if listed[:1] == ["self"] else listed
        if args.kwonlyargs or args.vararg:
            listed.append(f"*{args.vararg.arg if args.vararg else ''}")
        named = zip(args.kwonlyargs, args.kw_defaults, strict=True)
        listed += [self._argument(*each) for each in named]
        return [*listed, *([f"**{args.kwarg.arg}"] if args.kwarg else [])]

    def _argument(self, arg: ast.arg, default: ast.expr | None) -> str:
        kind = f": {_kind(arg.annotation)}" if arg.annotation else ""
        if default is None:
            return f"{arg.arg}{kind}"
        shown = ast.unparse(default)
        if isinstance(default, ast.Name):  # a constant, which a reader could not look up
            shown = repr(getattr(self._module, default.id))
        return f"{arg.arg}{kind} = {shown}"


def _kind(annotation: ast.expr | None) -> str:
    """A type; what is only imported for mypy stands in quotes."""
    return "" if annotation is None else re.sub(r"'([A-Z]\w+)'", r"\1", ast.unparse(annotation))


def _attributes(init: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Those that it sets and that the string below tells of."""
    for each, after in zip(init.body, [*init.body[1:], None], strict=True):
        target = each.targets[0] if isinstance(each, ast.Assign) else getattr(each, "target", None)
        told = _string(after)
        if isinstance(target, ast.Attribute) and told and not target.attr.startswith("_"):
            kind = _kind(getattr(each, "annotation", None))
            yield f"{target.attr}{f': {kind}' if kind else ''}", told


def _is_awaited(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) == "awaited"


def _string(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return inspect.cleandoc(str(node.value.value))
    return ""


def _told(node: ast.ClassDef | ast.FunctionDef, name: str) -> str:
    said = ast.get_docstring(node)
    if not said:
        raise Untold(f"{name} has no docstring, and docs/testing-reference.md nothing to say of it")
    return said


def _entry(signature: str, said: str) -> str:
    return f"- `{signature}`  \n  {' '.join(said.split())}"


def _paragraphs(said: str) -> Iterator[str]:
    """As Markdown: what is indented is code, all else flows."""
    for paragraph in said.split("\n\n"):
        if paragraph.startswith("    "):
            yield from ("```python", textwrap.dedent(paragraph), "```", "")
        else:
            yield from (" ".join(paragraph.split()), "")


class _Listed:
    """What settings.py tells pytest, in place of pytest."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []

    def getgroup(self, *_: str) -> "_Listed":
        return self

    def addoption(self, name: str, *, help: str, **how: Any) -> None:  # noqa: A002
        value = how.get("metavar") or "|".join(how.get("choices", ())) or "NAME"
        self.rows.append((f"{name}={value}", help))

    def addini(self, *_: str, **__: Any) -> None:
        """Each is an option as well."""

    def addinivalue_line(self, _: str, line: str) -> None:
        signature, _, says = line.partition("): ")
        self.rows.append((f"@pytest.mark.{signature})", f"{says}; takes what `Kafka` takes"))


def _plugin() -> Iterator[str]:
    from kohort.testing import plugin, settings

    for node in ast.parse(inspect.getsource(plugin)).body:
        if isinstance(node, ast.FunctionDef) and any(
            ast.unparse(each) == "pytest.fixture" for each in node.decorator_list
        ):
            yield _entry(node.name, _told(node, node.name))
    listed: Any = _Listed()
    settings.add_marker(listed)
    settings.add_options(listed)
    for name, says in listed.rows:
        yield _entry(name, f"{says[0].upper()}{says[1:]}.")
