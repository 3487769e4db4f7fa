"""Assignors by name, each looked for once: a million cases ask for the same few, and to look for
one reads what is installed.
"""

from typing import Final

from ...assignors.finding import AssignorNameTaken, AssignorNotFound, NotAnAssignor, find
from ...assignors.model import Assignor

__all__ = ["UnknownAssignor", "assignor_named"]

# Those that are kept in mind, with what was wrong about the names of others: more than anybody has.
NAMES_MAX: Final = 1_000


class UnknownAssignor(Exception):
    """The message is one sentence that says what there is."""


_FOUND: Final[dict[str, Assignor | str]] = {}


def assignor_named(name: str) -> Assignor:
    """Raises UnknownAssignor."""
    found = _FOUND.get(name)
    if found is None:
        if len(_FOUND) >= NAMES_MAX:
            _FOUND.clear()
        found = _FOUND[name] = _looked_for(name)
    if isinstance(found, str):
        raise UnknownAssignor(found)
    return found


def _looked_for(name: str) -> Assignor | str:
    """The sentence where there is none."""
    try:
        return find(name)
    except (AssignorNotFound, AssignorNameTaken, NotAnAssignor) as error:
        return str(error)
    except (Exception, SystemExit) as error:  # whatever a module does that a name leads to
        return f"{name} cannot be imported: {type(error).__name__}: {error}"
