"""A lake with names that clients could choose to attack a page, and unusual ones."""

from pathlib import Path

from .group_rows import GroupRows, Record, Rows, log_ends, write_lake

SCRIPT = "</script><script>window.attacked = 1</script>"
QUOTES = "\"><img src=x onerror='window.attacked = 1'>"
RIGHT_TO_LEFT = "evil\u202egnillib"  # U+202E reverses the text after it
EMOJI = "🦊 füchse & co"
LONG = "x" * 240


def write(path: Path) -> Path:
    rows: Rows = {}
    for number, name in enumerate((SCRIPT, QUOTES, RIGHT_TO_LEFT, EMOJI, LONG)):
        group = GroupRows(rows, name, f"topic-{name}", 1)
        record = Record("09:00:05", "MEMBER_JOINED", {name: [0]}, name, f"{name} joined.")
        group.generations([record])
        group.commits(lambda partition, minute: 100 * minute)
        group.status("OK", "Stable", 1, 0.0)
        group.diagnosis(number % 4, "HEALTHY", f"{name} is healthy.", [name], [name])
    rows["bronze_log_end"] = list(log_ends({f"topic-{SCRIPT}": 1}))
    return write_lake(path, rows)
