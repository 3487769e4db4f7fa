"""Text as HTML.

Clients choose the names of groups and clients, so all text from the lake passes through `h`.
"""

from collections.abc import Callable, Container, Iterable, Mapping
from html import escape
from typing import Final, TypeVar

from ...printable import printable
from ..formatting import SEVERITIES, UNKNOWN

Row = TypeVar("Row")

# Maximum number of characters of a name in a table; its title contains the whole name.
NAME_MAX: Final = 48
# Columns with sentences.
WIDE: Final = ("evidence", "reason")


class Html(str):
    """Markup that is not escaped again."""

    __slots__ = ()


def h(text: object) -> Html:
    """Escape for element content and quoted attributes. Invisible characters are escaped too,
    because a name could reverse the direction of the text around it."""
    if isinstance(text, Html):
        return text
    return Html(escape("\n".join(map(printable, str(text).split("\n"))), quote=True))


def cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: max(characters - 1, 0)]}…"


def name(text: str | None) -> Html:
    """Format a name of any length."""
    if text is None:
        return h(UNKNOWN)
    short = cut(text, NAME_MAX)
    return h(text) if short == text else Html(f'<span title="{h(text)}">{h(short)}</span>')


def table(
    label: str,
    columns: Mapping[str, Callable[[Row], object]],
    rows: Iterable[Row],
    *,
    numbers: Container[str] = (),
) -> Html:
    """Return a table. `label`: text for screen readers; `columns`: cells by heading; `numbers`:
    headings of right-aligned columns."""

    def css_class(heading: str) -> str:
        return " class=n" if heading in numbers else " class=w" if heading in WIDE else ""

    head = "".join(f"<th scope=col{css_class(text)}>{h(text)}</th>" for text in columns)
    lines = (
        "".join(f"<td{css_class(text)}>{h(cell(row))}</td>" for text, cell in columns.items())
        for row in rows
    )
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    return Html(
        f'<div class=scroll tabindex=0 role=region aria-label="{h(label)}"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def pill(severity: int) -> Html:
    name = SEVERITIES.get(severity, "error")
    return Html(f'<span class="pill {name}">{name}</span>')


def more(count: int, text: str) -> Html:
    """Return a note about omitted items; empty if `count` is not positive."""
    return Html(f"<p class=more>{h(text.format(f'{count:,}'))}</p>" if count > 0 else "")


def details(title: str, content: str, *, is_open: bool = False) -> Html:
    """Return a collapsible section."""
    return Html(
        f"<details{' open' * is_open}><summary><h3>{h(title)}</h3></summary>{content}</details>"
    )
