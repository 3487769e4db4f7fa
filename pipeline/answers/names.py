"""What members are called, and which groups have a name like one that is not there."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

__all__ = ["MemberNames", "nearest"]

# So much of the id's end tells members of one client apart: of a UUID the first part.
_TAIL = 8


class MemberNames:
    """A member is called by its instance id, else by its client id: an id that every life of it has
    anew says nothing to people. Where several of one generation have the same client id, with the
    beginning of its UUID.
    """

    def __init__(self, generations: Iterable[Iterable[dict[str, Any]]]) -> None:
        self._known: dict[str, str] = {}
        self._clients: dict[str, str] = {}
        shared: dict[str, int] = defaultdict(int)
        for members in generations:
            together: Counter[str] = Counter()
            for member in members:
                name = member["instance_id"] or member["client_id"] or member["member_id"]
                self._known[member["member_id"]] = name
                self._clients[member["member_id"]] = member["client_id"]
                together[name] += 1
            for name, times in together.items():
                shared[name] = max(shared[name], times)
        self._shared = {name for name, times in shared.items() if times > 1}

    def of(self, member_id: str, client_id: str | None = None) -> str:
        """`client_id`: of one that may be in no generation that is known."""
        name = self._known.get(member_id, client_id or member_id)
        if name not in self._shared or member_id not in self._clients:
            return name
        tail = member_id.removeprefix(f"{self._clients[member_id]}-")
        return f"{name}-{tail[:_TAIL]}"


def nearest(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Those that somebody may have meant: the same but for case, beginning so, or alike."""
    known = list(names)
    small = name.lower()
    near = [each for each in known if each.lower() == small]
    near += [each for each in known if small and each.lower().startswith(small)]
    near += get_close_matches(name, known, n=most)
    near += [each for each in known if small and small in each.lower()]
    return list(dict.fromkeys(near))[:most]
