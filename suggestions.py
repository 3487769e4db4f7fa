"""Suggests existing names for an unknown one, such as OffsetCommit for CommitOffset.

Any layer may import this module; it imports none.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

# difflib's ratio: 1 for equal names, 0 for names without a common letter. With a lower cutoff, long
# names with a common prefix would count as similar (log.retention.ms, log.segment.ms).
SIMILARITY_MIN: Final = 0.75
# Kafka abbreviates this word in some names, such as EndTxn, and not in others.
_ABBREVIATIONS: Final = {"transaction": "txn"}
# Shorter parts occur in too many names.
PART_LENGTH_MIN: Final = 2

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def similar_names(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three similar names, the most similar first, then those that contain `name`."""
    names = list(known)
    is_part = len(name) >= PART_LENGTH_MIN
    containing = (each for each in names if is_part and name.lower() in each.lower())
    return list(dict.fromkeys([*_near(name, names), *containing]))[:3]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `: did you mean OffsetCommit?`; empty if nothing is similar."""
    near = _near(name, known)
    return f": did you mean {near[0]}?" if near else ""


def _near(name: str, known: Iterable[str]) -> list[str]:
    """Return names that are equal except for case, abbreviations or the order of words, then names
    that begin with `name`, then names that are a small edit away."""
    by_lower = {each.lower(): each for each in known}
    lower, words = name.lower(), _words(name)
    similar = [lower] if lower in by_lower else []
    similar += [each for each in by_lower if words and _words(by_lower[each]) == words]
    is_part = len(lower) >= PART_LENGTH_MIN
    similar += [each for each in by_lower if is_part and each.startswith(lower)]
    by_short = {_abbreviated(each): each for each in by_lower}
    near = get_close_matches(_abbreviated(lower), by_short, cutoff=SIMILARITY_MIN)
    return [by_lower[each] for each in (*similar, *(by_short[each] for each in near))]


def _abbreviated(lower: str) -> str:
    """Abbreviate words. Otherwise CommitTransaction would be similar to ListTransactions."""
    for word, abbreviation in _ABBREVIATIONS.items():
        lower = lower.replace(word, abbreviation)
    return lower


def _words(name: str) -> list[str]:
    words = (word.lower().removesuffix("s") for word in _WORD.findall(name))
    return sorted(_ABBREVIATIONS.get(word, word) for word in words)


def _attribute_like(name: str, known: list[str]) -> str:
    """Like did_you_mean, but also suggests `committed` for `committed_offset`."""
    contained = [each for each in known if len(each) > PART_LENGTH_MIN and each in name]
    return did_you_mean(name, known) or did_you_mean(max(contained, key=len, default=""), known)


class SuggestsAttributes:
    """A base class that adds a suggestion to the message of AttributeError. (Python itself suggests
    names only when it prints a traceback.)"""

    __slots__ = ()

    if not TYPE_CHECKING:  # for type checkers, unknown attributes remain errors

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property that raised an AttributeError
                return object.__getattribute__(self, name)
            public = (each for each in dir(self) if not each.startswith("_"))
            hint = "" if name.startswith("_") else _attribute_like(name, list(public))
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}")
