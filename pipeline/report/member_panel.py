"""A bar for each member over time, by what it owned. A member that came back is in its old row."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from ..answers.names import MemberNames
from ..answers.rows import Change
from ..answers.words import cause_text, clock, counted, span
from .markup import cut, h
from .scale import LEFT, WIDTH, Scale

__all__ = ["COLOURS", "MEMBERS_MAX", "ROW", "colour_of", "label", "member_panel", "places", "shown"]

ROW = 24
BAR = 16
COLOURS = 8
CHARACTER = 6.3  # a letter inside of a bar
LABEL_MAX = 26
MEMBERS_MAX = 40  # rows: two screens


def shown(scale: Scale, changes: Sequence[Change], names: MemberNames) -> list[str]:
    """Names of the members that are seen, in the order of their coming; the newest, if too many."""
    seen: dict[str, None] = {}
    for change, after in pairwise([*changes, None]):
        if change is not None and scale.shows(change.at, after.at if after else None):
            seen.update((names.of(member["member_id"]), None) for member in change.member_list)
    return list(seen)


def colour_of(name: str, rows: Sequence[str]) -> str:
    """The class of a member, the same wherever it is drawn."""
    return f"m{rows.index(name) % COLOURS}" if name in rows else "mx"


def member_panel(
    scale: Scale, changes: Sequence[Change], names: MemberNames, rows: Sequence[str], y: float
) -> str:
    """`rows`: those that are drawn."""
    tops = {name: y + number * ROW for number, name in enumerate(rows)}
    drawn = [label(name, top) for name, top in tops.items()]
    for change, after in pairwise([*changes, None]):
        assert change is not None
        until = after.at if after else None
        if scale.shows(change.at, until):
            drawn += _bars(scale, change, until, names, tops, rows)
        drawn += _ends(scale, change, names, tops)
    return "".join(drawn)


def _bars(
    scale: Scale,
    change: Change,
    until: datetime | None,
    names: MemberNames,
    tops: Mapping[str, float],
    rows: Sequence[str],
) -> Iterator[str]:
    x, end = scale.x(change.at), scale.x(until)
    width = max(end - x - 1, 1.2)  # the gap tells generations apart
    for member in change.member_list:
        name = names.of(member["member_id"])
        if name not in tops:
            continue
        owned = member["assigned"]
        has = places(owned or []) if owned else "no partition"
        has = "an assignment that cannot be read" if owned is None else has
        says = f"{name} in generation {change.generation}: {has}\n{clock(change.at)} to "
        says += clock(until) if until else "now"
        if member["member_id"] != name:
            says += f"\n{member['member_id']}"
        texts = [has, counted(len(owned), "partition")] if owned else []
        text = next((text for text in texts if len(text) * CHARACTER < width - 8), "")
        empty = "" if owned else " none"
        yield (
            f'<g><title>{h(says)}</title><rect class="bar {colour_of(name, rows)}{empty}" x="{x}" '
            f'y="{tops[name] + 4}" width="{width:.1f}" height="{BAR}" rx="3"/>'
            f'<text class=owned x="{x + 5}" y="{tops[name] + 16}">{h(text)}</text></g>'
        )


def _ends(
    scale: Scale, change: Change, names: MemberNames, tops: Mapping[str, float]
) -> Iterator[str]:
    """A cross where a member went."""
    for gone in change.exits:
        name = names.of(gone.member_id)
        if name not in tops or not scale.shows(change.at, change.at):
            continue
        x, middle = scale.x(change.at), tops[name] + 4 + BAR / 2
        says = f"{name} out at {clock(change.at)}: {cause_text(gone.cause)}"
        says += "" if gone.silence_ms is None else f", silent {span(gone.silence_ms)}"
        yield (
            f'<g><title>{h(says)}\n{h(gone.evidence)}</title><circle class=touch cx="{x}" '
            f'cy="{middle}" r="9"/><path class=exit d="M{x - 4} {middle - 4}l8 8m-8 0l8 -8"/></g>'
        )


def label(text: str, top: float) -> str:
    """The name of a row, and the line below it."""
    title = f"<title>{h(text)}</title>"
    return (
        f'<line class=rule x1="0" x2="{WIDTH}" y1="{top + ROW}" y2="{top + ROW}"/>'
        f'<text class=name x="{LEFT - 10}" y="{top + 16}" text-anchor=end>'
        f"{h(cut(text, LABEL_MAX))}{title}</text>"
    )


def places(owned: Sequence[Mapping[str, object]]) -> str:
    """`orders 0–2, 5; pages 1`."""
    topics: dict[str, list[int]] = {}
    for place in owned:
        topics.setdefault(str(place["topic"]), []).append(int(str(place["partition"])))
    return "; ".join(f"{topic} {numbers(some)}" for topic, some in sorted(topics.items()))


def numbers(some: Sequence[int]) -> str:
    """`0–2, 5`."""
    said: list[list[int]] = []
    for number in sorted(some):
        if said and number == said[-1][1] + 1:
            said[-1][1] = number
        else:
            said.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in said)
