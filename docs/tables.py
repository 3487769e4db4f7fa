"""Updates the parts of docs/ that are generated from code, tables and examples: `make docs`.

With --check, nothing is written, and the exit code is 1 if a table does not match the code.
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from compatibility import compatibility
from kohort.broker.config.keys import BROKER_KEYS
from kohort.check.analysis import CHECKS
from kohort.control_api.endpoints import SECTIONS
from kohort.control_api.parameters import BY_PATH, PARAMETERS
from kohort.pipeline.diagnosis.rows import (
    Diagnosis,
    PartitionStatus,
    Storm,
    TimelineEntry,
    fields,
)
from kohort.pipeline.tables import TABLES
from kohort.protocol.apis import APIS
from kohort.topics.configs.config_def import ConfigDef, ConfigKey, format_value
from kohort.topics.configs.group_configs import GROUP_KEYS
from kohort.topics.configs.topic_keys import BROKER_SYNONYMS
from reference import reference

ROOT = Path(__file__).parents[1]
# For each command, the type of its rows, and the fields that it adds.
ANSWERS: dict[str, tuple[Any, ...]] = {
    "why": (Diagnosis, "rebalances"),
    "timeline": (TimelineEntry,),
    "lag": (PartitionStatus,),
    "storms": (Storm,),
}


def api_table() -> str:
    rows = ["| key | API | versions |", "|---:|---|---|"]
    rows += [f"| {api.key} | {api.name} | {api.min_version}–{api.max_version} |" for api in APIS]
    return "\n".join(rows)


def key_table(keys: ConfigDef) -> str:
    rows = ["| key | type | default | description |", "|---|---|---|---|"]
    rows += [key_row(key) for key in keys.values()]
    return "\n".join(rows)


def key_row(key: ConfigKey) -> str:
    default = format_value(key.default)
    shown = f"`{default}`" if default else "none"
    marks = ("; read-only" if key.is_fixed else "") + ("; no effect" if key.no_effect else "")
    return f"| `{key.name}` | {key.type.name.lower()}{marks} | {shown} | {key.doc} |"


def idle_table() -> str:
    """Return the keys without effect; those with the same reason share a row."""
    topic_key = {name: key for key, names in BROKER_SYNONYMS.items() for name, _ in names}
    reasons: dict[str, list[str]] = {}
    for key in BROKER_KEYS.values():
        if key.no_effect:
            reasons.setdefault(key.no_effect, []).append(key.name)
    rows = ["| key | topic key | why |", "|---|---|---|"]
    for reason, names in reasons.items():
        of_topic = dict.fromkeys(topic_key[name] for name in names if name in topic_key)
        rows.append(f"| {quoted(names)} | {quoted(of_topic)} | {reason} |")
    return "\n".join(rows)


def control_table() -> str:
    rows = ["| endpoint | parameters | description |", "|---|---|---|"]
    for section, endpoints in SECTIONS.items():
        rows.append(f"| **{section}** | | |")
        rows += [
            f"| `{each.method} {each.path}` | {quoted(each.other_names)} "
            f"| {' '.join((each.summary, each.description)).strip()} |"
            for each in endpoints
        ]
    return "\n".join(rows)


def parameter_table() -> str:
    rows = ["| parameter | meaning |", "|---|---|"]
    for path, texts in {"": PARAMETERS, **BY_PATH}.items():
        where = f" of `{path}`" if path else ""
        rows += [f"| `{name}`{where} | {text} |" for name, text in texts.items()]
    return "\n".join(rows)


def answer_table() -> str:
    """Document the JSON output of the commands that query a lake."""
    rows = ["| command | a row is | fields |", "|---|---|---|"]
    for command, (row, *more) in ANSWERS.items():
        names = quoted((*fields(row), *more))
        rows.append(f"| `{command}` | {(row.__doc__ or '').rstrip('.')} | {names} |")
    return "\n".join(rows)


def lake_table() -> str:
    rows = ["| table | a row is | it grows | columns |", "|---|---|---|---|"]
    rows += [
        f"| `{name}` | {table.grain} | {table.growth} | {quoted(table.schema.names)} |"
        for name, table in TABLES.items()
    ]
    return "\n".join(rows)


def check_table() -> str:
    rows = ["| anomaly | definition |", "|---|---|"]
    rows += [f"| `{each.name}` | {each.definition} |" for each in CHECKS]
    return "\n".join(rows)


def quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def howtos() -> str:
    """Return the files of examples/howto: their shared parts, and the question and answer of
    each."""
    pages = [f"```python\n{code_in(ROOT / 'examples' / 'howto' / 'conftest.py')}\n```\n"]
    for file in sorted((ROOT / "examples" / "howto").glob("test_*.py")):
        _, words, _ = file.read_text(encoding="utf-8").split('"""', 2)
        question, _, more = words.partition("\n")
        where = f"[{file.name}](../examples/howto/{file.name})"
        text = [f"## {question}", *([more.strip()] if more.strip() else []), where]
        pages.append("\n\n".join(text) + f"\n\n```python\n{code_in(file)}\n```\n")
    return "\n" + "\n".join(pages)


def code_in(file: Path) -> str:
    """Return the code without the module docstring."""
    return file.read_text(encoding="utf-8").split('"""', 2)[2].strip()


def with_table(page: str, name: str, table: str) -> str:
    """Return the page with the text between <!-- name --> and <!-- /name --> replaced."""
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    assert len(marked.findall(page)) == 1, f"expected one section <!-- {name} -->"
    return marked.sub(lambda match: f"{match[1]}{table}\n{match[2]}", page)


def main() -> int:
    stale = []
    for file, name, table in (
        ("docs/compatibility.md", "apis", api_table()),
        ("docs/compatibility.md", "compatibility", compatibility()),
        ("docs/configuration.md", "keys", key_table(BROKER_KEYS)),
        ("docs/configuration.md", "group keys", key_table(GROUP_KEYS)),
        ("docs/configuration.md", "idle", idle_table()),
        ("docs/howto.md", "howtos", howtos()),
        ("docs/control.md", "endpoints", control_table()),
        ("docs/control.md", "parameters", parameter_table()),
        ("docs/check.md", "anomalies", check_table()),
        ("docs/testing-reference.md", "reference", reference()),
        ("docs/pipeline.md", "fields", answer_table()),
        ("docs/pipeline.md", "lake", lake_table()),
    ):
        page = (ROOT / file).read_text(encoding="utf-8")
        if (fresh := with_table(page, name, table)) != page:
            stale.append(file)
            if "--check" not in sys.argv:
                (ROOT / file).write_text(fresh, encoding="utf-8")
    for file in stale:
        print(f"{file} {'is out of date: run make docs' if '--check' in sys.argv else 'written'}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
