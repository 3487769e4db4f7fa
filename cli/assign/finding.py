"""Assignors by name, each looked for once: a million cases ask for the same few."""

from ...assignors.builtin import BUILTIN
from ...assignors.model import Assignor


class UnknownAssignor(Exception):
    """The message is one sentence that lists what there is."""


def assignor_named(name: str) -> Assignor:
    found = BUILTIN.get(name)
    if found is None:
        raise UnknownAssignor(f"no assignor is called {name}: there are {', '.join(BUILTIN)}")
    return found
