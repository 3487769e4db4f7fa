"""How evidence is put into words: spans of time, members, lists."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from .story import Member, TopicPartition

__all__ = ["clock", "listed", "partitions", "share", "span", "times", "who", "without_uuids"]


def span(ms: float) -> str:
    """850 ms, 12.3 s, 5 min 12 s, 2 h 5 min, 7 d 3 h."""
    if abs(ms) < 1000:
        return f"{ms:.0f} ms"
    if abs(ms) < 60_000:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    for unit, size, below, smaller in (
        ("d", 86_400, "h", 3600),
        ("h", 3600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if seconds >= size:
            rest = seconds % size // smaller
            return f"{seconds // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{seconds} s"


def clock(ms: int) -> str:
    """A time as people read it, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def who(member: Member) -> str:
    """billing-2 on 10.0.0.5; a static member by its instance id too."""
    host = member.client_host.removeprefix("/")
    static = f" (instance {member.instance_id})" if member.instance_id is not None else ""
    return f"{member.client_id}{static} on {host}"


_UUID = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


def without_uuids(text: str) -> str:
    """Member ids are a client's id and a UUID, which tells people nothing."""
    return _UUID.sub("", text)


def listed(texts: Iterable[str], most: int = 4) -> str:
    """a, b and c; of many only the first ones."""
    all_ = list(texts)
    if len(all_) > most:
        return f"{', '.join(all_[:most])} and {len(all_) - most} more"
    return " and ".join(filter(None, [", ".join(all_[:-1]), *all_[-1:]]))


def partitions(those: Iterable[TopicPartition]) -> str:
    return listed(f"{topic}-{partition}" for topic, partition in sorted(those))


def times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def share(part: float) -> str:
    return f"{100 * part:.0f} %"
