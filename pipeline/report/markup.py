"""Text as HTML. Names of groups and clients are whatever somebody on the network says: nothing
comes into the page but through `h`.
"""

from collections.abc import Container, Iterable, Sequence
from html import escape

from ..answers.words import NOT_KNOWN, printable

__all__ = ["SEVERITIES", "Html", "cut", "h", "more", "name", "pill", "table"]

# Of a name in a table; what is more is in its title.
NAME_MAX = 48

SEVERITIES = {0: "well", 1: "notice", 2: "warning", 3: "error"}


class Html(str):
    """Is markup, and goes into the page as it is."""

    __slots__ = ()


def h(text: object) -> Html:
    """Fit for an element and for an attribute in quotes. Signs that nobody sees are written out: a
    name could turn the text around it."""
    if isinstance(text, Html):
        return text
    return Html(escape("\n".join(map(printable, str(text).split("\n"))), quote=True))


def cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: max(characters - 1, 0)]}…"


def name(text: str | None) -> Html:
    """Of a group or a client, however long it is."""
    if text is None:
        return h(NOT_KNOWN)
    short = cut(text, NAME_MAX)
    return h(text) if short == text else Html(f'<span title="{h(text)}">{h(short)}</span>')


def table(
    label: str,
    names: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numbers: Container[str] = (),
    wide: Container[str] = (),
) -> Html:
    """`label`: what it is, for who does not see it; `numbers`: columns that are set to the right;
    `wide`: those that hold sentences."""

    def marked(name: str) -> str:
        return " class=n" if name in numbers else " class=w" if name in wide else ""

    head = "".join(f"<th scope=col{marked(name)}>{h(name)}</th>" for name in names)
    body = "".join(
        "<tr>"
        + "".join(f"<td{marked(n)}>{h(cell)}</td>" for n, cell in zip(names, row, strict=True))
        + "</tr>\n"
        for row in rows
    )
    return Html(
        f'<div class=scroll tabindex=0 role=region aria-label="{h(label)}"><table>'
        f"<thead><tr>{head}</tr></thead>\n"
        f"<tbody>{body}</tbody></table></div>"
    )


def pill(severity: int) -> Html:
    """Its colour says again what its word says."""
    name = SEVERITIES.get(severity, "error")
    return Html(f'<span class="pill {name}">{name}</span>')


def more(count: int, what: str) -> Html:
    """What is left out; nothing, if nothing is."""
    return Html(f"<p class=more>{h(what.format(f'{count:,}'))}</p>" if count > 0 else "")
