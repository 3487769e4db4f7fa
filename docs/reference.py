"""Generates docs/testing-reference.md from the signatures and docstrings of the harness.

It parses the source, because the source has the names that users know (`FakeMember`,
`TopicPartition`) and attributes can have docstrings. Names with an underscore and the parts of a
class below a line `# --- on the broker's loop` are omitted.
"""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final, NamedTuple

from kohort.testing.client_checks import KINDS

# A comment that begins a part of a class.
_PART: Final = re.compile(r"\s+# --- (.*)")
# The names of parts that are not for tests contain this.
_INTERNAL: Final = re.compile(r"loop")


class Part(NamedTuple):
    """A class or a function of a module."""

    module: str
    name: str
    at: str = ""
    """The expression by which a test obtains one."""
    is_constructed: bool = False
    """Whether tests construct it. If so, its arguments are shown."""


# In the order in which a user encounters them: heading -> introduction, parts.
SECTIONS: Final[dict[str, tuple[str, tuple[Part, ...]]]] = {
    "Brokers": (
        (
            "Sections below describe `kafka.clock`, `faults`, `disk`, `history`, `security`, "
            "`client_checks`."
        ),
        (
            Part("kafka", "Kafka", "kafka", is_constructed=True),
            Part("lifecycle", "NodeInfo", "kafka.nodes"),
            Part("lifecycle", "Snapshot", "kafka.snapshot()"),
            Part("aio", "AsyncKafka", "async_kafka"),
            Part("aio", "AsyncGroup", "async_kafka.group(group_id)"),
            Part("aio", "AsyncHold", "async_kafka.group(group_id).hold_joins()"),
            Part("aio", "AsyncTransactions", "async_kafka.transactions"),
            Part("aio", "AsyncMarkerHold", "async_kafka.transactions.hold_markers()"),
            Part("aio", "AsyncFakeMember", "await async_kafka.fake_member(group)"),
            Part("aio", "AsyncFault", "async_kafka.faults.drop(api)"),
            Part("aio", "AsyncDiskFault", "async_kafka.disk.fail(operation)"),
            Part("aio", "AsyncClock", "async_kafka.clock"),
            Part("container", "KafkaContainer", is_constructed=True),
            Part("backend", "kafka_for_test"),
            Part("loop_thread", "BarrierTimeout"),
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
            Part("group_view", "Member", "group.members"),
            Part("generations", "Generation", "group.generations"),
            Part("generations", "MemberAssignment", "group.assignments"),
            Part("history", "Commit", "group.commits"),
            Part("history", "Exit", "group.exits"),
            Part("group_control", "Hold", "group.hold_joins()"),
            Part("group_control", "AssignmentHold", "group.hold_assignment()"),
            Part("group_control", "Loading", "group.loading()"),
        ),
    ),
    "Transactions": (
        "",
        (
            Part("transactions", "Transactions", "kafka.transactions"),
            Part("transaction_view", "Transaction", "kafka.transactions.all"),
            Part("transactions", "MarkerHold", "kafka.transactions.hold_markers()"),
            Part("history", "TransactionChange", "kafka.history.transaction_changes()"),
        ),
    ),
    "The clock": ("", (Part("clock", "ClockControl", "kafka.clock"),)),
    "Faults": (
        "",
        (
            Part("faults.faults", "Faults", "kafka.faults"),
            Part("faults.faults", "Fault", "kafka.faults.drop(api)"),
            Part("faults.faults", "RequestFilter", "fault.where"),
            Part("faults.faults", "UnusedFault"),
            Part("aio", "NotAwaited"),
        ),
    ),
    "The disk": (
        "",
        (
            Part("faults.disk", "Disk", "kafka.disk"),
            Part("faults.disk", "DiskFault", "kafka.disk.fail(operation)"),
        ),
    ),
    "Fake members": (
        "",
        (
            Part("fake_members.fake_member", "FakeMember", "kafka.fake_member(group)"),
            Part("fake_members.fake_member", "FakeMemberRejected"),
            Part("fake_members.client", "RequestError", "fake_member.errors"),
        ),
    ),
    "History": (
        "`at_ms`: the broker's clock, in milliseconds since 1970; `wall_s`: wall-clock seconds.",
        (
            Part("history", "History", "kafka.history"),
            Part("recorded_request", "RecordedRequest", "kafka.history.requests"),
            Part("history", "RejectedCommit", "kafka.history.rejected_commits()"),
            Part("generations", "RecordedEvent", "kafka.history.events"),
            Part("history", "StateChange", "kafka.history.state_changes()"),
            Part("history", "FailedConnection", "kafka.history.failed_connections"),
            Part("history", "ClockChange", "kafka.history.clock_changes"),
            Part("history", "LifecycleEvent", "kafka.history.lifecycle_events"),
            Part("timeline.timeline", "timeline"),
        ),
    ),
    "Security": (
        "",
        (Part("security", "Security", "kafka.security"),),
    ),
    "Client checks": (
        "",
        (
            Part("client_checks", "ClientChecks", "kafka.client_checks"),
            Part("client_checks", "Finding", "kafka.client_checks.findings"),
            Part("plugin", "ClientCheckWarning"),
            Part("client_checks", "ClientCheckError"),
        ),
    ),
}


class MissingDocstring(Exception):
    pass


def reference() -> str:
    """Return the part of the page that follows its introduction."""
    lines = ["", "## Fixtures, the marker, options", "", *_plugin()]
    for heading, (introduction, parts) in SECTIONS.items():
        lines += ["", f"## {heading}", *(["", introduction] if introduction else [])]
        for part in parts:
            lines += ["", *_part(part)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join([*lines, ""]))


def _part(part: Part) -> Iterator[str]:
    source = Source(importlib.import_module(f"kohort.testing.{part.module}"))
    node = source.named(part.name)
    if isinstance(node, ast.FunctionDef):
        yield f"### `{source.signature(node)}`"
        yield from ("", *_paragraphs(_docstring(node, part.name)))
    else:
        yield f"### `{part.name}`" + (f" – `{part.at}`" if part.at else "")
        yield from source.of_class(node, is_constructed=part.is_constructed)
        if part.name == "Finding":
            yield from ("", "The kinds:", "")
            yield from (f"- `{kind}`: {meaning}" for kind, meaning in KINDS.items())


class Source:
    """The source of a module."""

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

    def of_class(self, node: ast.ClassDef, *, is_constructed: bool) -> Iterator[str]:
        for each in node.body:
            if is_constructed and isinstance(each, ast.FunctionDef) and each.name == "__init__":
                arguments = (f"    {argument}," for argument in self.arguments(each))
                yield from ("", "```python", f"{node.name}(", *arguments, ")", "```")
        yield from ("", *_paragraphs(_docstring(node, node.name)))
        bare: list[str] = []
        for signature, text in [("", ""), *self._entries(node), ("", "")]:
            if signature and not text:  # consecutive entries without docstrings share one line
                bare.append(f"`{signature}`")
                continue
            if bare:
                yield f"- {', '.join(bare)}"
                bare = []
            yield _entry(signature, text) if signature else ""

    def _entries(self, node: ast.ClassDef) -> Iterator[tuple[str, str]]:
        is_data = bool(node.decorator_list) or "NamedTuple" in map(ast.unparse, node.bases)
        is_internal, line = False, node.lineno
        awaited = []
        for each, after in zip(node.body, [*node.body[1:], None], strict=True):
            for text in self._lines[line - 1 : each.lineno]:
                if heading := _PART.match(text):
                    is_internal = bool(_INTERNAL.search(heading[1]))
            line = each.end_lineno or each.lineno
            if is_internal:
                continue
            if isinstance(each, ast.FunctionDef):
                yield from self._of_function(each, node.name)
            elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                text = _string(after)
                if each.target.id[0] != "_" and (is_data or text):
                    yield f"{each.target.id}: {_kind(each.annotation)}", text
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
            text = _docstring(node, f"{owner}.{node.name}")
            if decorators & {"property", "cached_property"}:
                yield f"{node.name}: {_kind(node.returns)}", text
            else:
                yield self.signature(node), text

    def signature(self, node: ast.FunctionDef) -> str:
        returns = _kind(node.returns)
        is_context = returns.startswith("AbstractContextManager")
        returns = "" if is_context else returns
        shown = f" -> {returns}" if returns not in ("", "None") else ""
        with_ = "with " if is_context else ""
        return f"{with_}{node.name}({', '.join(self.arguments(node))}){shown}"

    def arguments(self, node: ast.FunctionDef) -> list[str]:
        """Return all arguments except `self`, as in the source."""
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
        if isinstance(default, ast.Name):  # a constant: show its value
            shown = repr(getattr(self._module, default.id))
        return f"{arg.arg}{kind} = {shown}"


def _kind(annotation: ast.expr | None) -> str:
    """Return a type without quotes."""
    return "" if annotation is None else re.sub(r"'([A-Z]\w+)'", r"\1", ast.unparse(annotation))


def _attributes(init: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Yield the attributes that `__init__` sets and that have a docstring."""
    for each, after in zip(init.body, [*init.body[1:], None], strict=True):
        target = each.targets[0] if isinstance(each, ast.Assign) else getattr(each, "target", None)
        text = _string(after)
        if isinstance(target, ast.Attribute) and text and not target.attr.startswith("_"):
            kind = _kind(getattr(each, "annotation", None))
            yield f"{target.attr}{f': {kind}' if kind else ''}", text


def _is_awaited(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func) == "awaited"


def _string(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return inspect.cleandoc(str(node.value.value))
    return ""


def _docstring(node: ast.ClassDef | ast.FunctionDef, name: str) -> str:
    text = ast.get_docstring(node)
    if not text:
        raise MissingDocstring(f"{name} needs a docstring for docs/testing-reference.md")
    return text


def _entry(signature: str, text: str) -> str:
    return f"- `{signature}`  \n  {' '.join(text.split())}"


def _paragraphs(text: str) -> Iterator[str]:
    """Format as Markdown: indented paragraphs are code."""
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("    "):
            yield from ("```python", textwrap.dedent(paragraph), "```", "")
        else:
            yield from (" ".join(paragraph.split()), "")


class _OptionParser:
    """Collects the plugin's options in place of pytest."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []

    def getgroup(self, *_: str) -> "_OptionParser":
        return self

    def addoption(self, name: str, *, help: str, **how: Any) -> None:  # noqa: A002
        value = how.get("metavar") or "|".join(how.get("choices", ())) or "NAME"
        self.rows.append((f"{name}={value}", help))

    def addini(self, *_: str, **__: Any) -> None:
        """Ignore options of the ini file."""


def _plugin() -> Iterator[str]:
    from kohort.testing import plugin

    for node in ast.parse(inspect.getsource(plugin)).body:
        if isinstance(node, ast.FunctionDef) and any(
            ast.unparse(each) == "pytest.fixture" for each in node.decorator_list
        ):
            yield _entry(node.name, _docstring(node, node.name))
    signature, _, text = plugin.MARKER.partition(": ")
    yield _entry(f"@pytest.mark.{signature}", f"{text}; takes the arguments of `Kafka`.")
    options: Any = _OptionParser()
    plugin.pytest_addoption(options)
    for name, help_text in options.rows:
        yield _entry(name, f"{help_text[0].upper()}{help_text[1:]}.")
