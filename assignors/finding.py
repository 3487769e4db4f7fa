"""An assignor by its name: built in, installed, or by its path.

    find("range")                           one of ours
    find("busiest-first")                   of an installed package, by its entry point in the group
                                            `kohort.assignors`
    find("my_project.assignors:Weighted")   a class, which is made without arguments, or an object

A name is what members vote for, so no two assignors may have the same one.
"""

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Final

from .builtin import BUILTIN
from .model import Assignor

GROUP: Final = "kohort.assignors"
_NOWHERE: Final = "no assignor is called {}"
_ELSEWHERE: Final = {
    "connect": "connect gives connectors and tasks to workers, not partitions to members, "
    "and is an object of its own (kohort.assignors.connect)"
}
_PARTS: Final = ("name", "cooperative", "user_data", "assign")


class AssignorNotFound(LookupError):
    """There is none of that name; what there is, it says."""


class AssignorNameTaken(ValueError):
    """Two assignors have one name, and a group could not tell them apart."""


class NotAnAssignor(TypeError):
    """What was found does not do what kohort.assignors.model.Assignor says."""


def names() -> list[str]:
    """All that have a name of their own: built in and installed."""
    return sorted({*BUILTIN, *(entry.name for entry in entry_points(group=GROUP))})


def find(name: str) -> Assignor:
    """Raises AssignorNotFound, AssignorNameTaken or NotAnAssignor, each in a sentence for a user.

    What a module raises while it is imported goes through.
    """
    module, colon, path = name.partition(":")
    if colon:
        found = _by_path(module, path)
        _must_be_free(found.name, f"{name} calls itself {found.name}")
        return found
    installed = list(entry_points(group=GROUP, name=name))
    if name in BUILTIN and not installed:
        return BUILTIN[name]
    if len(installed) == 1 and name not in BUILTIN:
        return _installed(installed[0])
    if not installed:
        raise AssignorNotFound(f"{_ELSEWHERE.get(name, _NOWHERE).format(name)}: {_what_there_is()}")
    owners = ["kohort itself"] if name in BUILTIN else []
    owners += sorted(f"{_package(entry)} ({entry.value})" for entry in installed)
    taken = f"{name} is the name of {len(owners)} assignors, {_and(owners)}"
    raise AssignorNameTaken(f"{taken}: {_what_there_is()}")


def _installed(entry: EntryPoint) -> Assignor:
    found = _by_path(entry.module, entry.attr)
    if found.name != entry.name:
        raise NotAnAssignor(
            f"{_package(entry)} installs an assignor {entry.name}, "
            f"but {entry.value} calls itself {found.name}"
        )
    return found


def _must_be_free(name: str, who: str) -> None:
    if name in BUILTIN:
        raise AssignorNameTaken(f"{who}, as one of kohort's own does: {_what_there_is()}")


def _by_path(module_name: str, path: str) -> Assignor:
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{module_name}.".startswith(f"{missing.name}."):
            raise  # the module is there, and itself misses another
        raise AssignorNotFound(
            f"there is no module {missing.name} for {module_name}:{path}, neither installed nor "
            f"in a folder of PYTHONPATH: {_what_there_is()}"
        ) from None
    found: object = module
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise AssignorNotFound(f"{module_name} has no {path}: {_what_it_has(module)}")
    return assignor_of(found, f"{module_name}:{path}")


def assignor_of(found: object, path: str) -> Assignor:
    """The object itself, or one of this class; raises NotAnAssignor, which calls it `path`."""
    if isinstance(found, type):
        try:
            found = found()
        except TypeError as unmade:
            raise NotAnAssignor(
                f"{path} cannot be made without arguments ({unmade}): name an object of it"
            ) from unmade
    lacking = [part for part in _PARTS if not hasattr(found, part)]
    if lacking:
        raise NotAnAssignor(
            f"{path} is no assignor, it lacks {_and(lacking)}: see kohort.assignors.model.Assignor"
        )
    assignor: Assignor = found  # type: ignore[assignment]  # as far as names can tell
    if not isinstance(assignor.name, str) or not assignor.name:
        raise NotAnAssignor(f"{path} has no name, and members vote for names: give it one")
    return assignor


def _what_there_is() -> str:
    said = f"built in are {_and(sorted(BUILTIN))}"
    installed = sorted({entry.name for entry in entry_points(group=GROUP)})
    if installed:
        said += f"; installed are {_and(installed)}"
    return f"{said}; any other by its path, package.module:Name"


def _what_it_has(module: ModuleType) -> str:
    own = [
        name
        for name, value in vars(module).items()
        if hasattr(value, "assign") and value is not Assignor and not name.startswith("_")
    ]
    return f"it has {_and(sorted(own))}" if own else "it has no assignor at all"


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "a package without a name"


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
