"""Names that somebody on the network chose to do harm, and some that are only unusual."""

from pathlib import Path

from .world import Rows, Step, Story, log_ends, write

HOSTILE = "</script><script>window.harmed = 1</script>"
QUOTES = "\"><img src=x onerror='window.harmed = 1'>"
TURNED = "evil\u202egnillib"  # the rest is shown from right to left
EMOJI = "🦊 füchse & co"
LONG = "x" * 240


def lake(path: Path) -> Path:
    rows: Rows = {}
    for number, name in enumerate((HOSTILE, QUOTES, TURNED, EMOJI, LONG)):
        story = Story(rows, name, f"topic-{name}", 1)
        story.generations([Step("09:00:05", "MEMBER_JOINED", {name: [0]}, name, f"{name} came.")])
        story.commits(lambda partition, minute: 100 * minute)
        story.status("OK", "Stable", 1, 0.0)
        story.says(number % 4, "HEALTHY", f"Nothing is wrong with {name}.", [name], [name])
    rows["bronze_log_end"] = list(log_ends({f"topic-{HOSTILE}": 1}))
    return write(path, rows)
