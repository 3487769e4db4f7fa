"""Finds assignors by name (built in or installed) or by path.

    resolve("range")                          a built-in assignor
    resolve("busiest-first")                  an installed assignor, by its entry point in the group
                                              `kohort.assignors`
    resolve("my_project.assignors:Weighted")  a class, instantiated without arguments, or an object

Names must be unique, because members vote by name.
"""

from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Final

from .model import Assignor
from .range import RangeAssignor
from .roundrobin import RoundRobinAssignor
from .server.adapter import SERVER_SIDE
from .sticky.assignors import CooperativeStickyAssignor, StickyAssignor

BUILTIN: Final[dict[str, Assignor]] = {
    assignor.name: assignor
    for assignor in (
        RangeAssignor(),
        RoundRobinAssignor(),
        StickyAssignor(),
        CooperativeStickyAssignor(),
        *SERVER_SIDE,
    )
}
"""The built-in assignors by name: the client-side assignors, then the server-side assignors."""

ENTRY_POINT_GROUP: Final = "kohort.assignors"
_CONNECT: Final = (
    "connect assigns connectors and tasks to workers, not partitions to members: "
    "use kohort.assignors.connect"
)
_ATTRIBUTES: Final = ("name", "cooperative", "subscription_user_data", "assign")


class AssignorNotFound(LookupError):
    """No assignor has this name or path. The message lists alternatives."""


class AssignorNameTaken(ValueError):
    """Several assignors have the same name."""


class NotAnAssignor(TypeError):
    """The object is not a valid assignor: it lacks attributes of kohort.assignors.model.Assignor,
    has no name, cannot be instantiated, or its entry point has another name."""


def resolve(name: str) -> Assignor:
    """Return the assignor called `name`. Raises AssignorNotFound, AssignorNameTaken, NotAnAssignor,
    and any error that importing a module raises."""
    module, colon, path = name.partition(":")
    if colon:
        found = _by_path(module, path)
        if found.name in BUILTIN:
            raise AssignorNameTaken(
                f"{name} has the same name as the built-in {found.name}; {_available()}"
            )
        return found
    installed = list(entry_points(group=ENTRY_POINT_GROUP, name=name))
    if name in BUILTIN and not installed:
        return BUILTIN[name]
    if len(installed) == 1 and name not in BUILTIN:
        return _installed(installed[0])
    if not installed:
        reason = _CONNECT if name == "connect" else f"unknown assignor {name}"
        raise AssignorNotFound(f"{reason}; {_available()}")
    owners = ["kohort"] if name in BUILTIN else []
    owners += sorted(f"{_package(entry)} ({entry.value})" for entry in installed)
    conflict = f"{len(owners)} assignors have the name {name}: {_and(owners)}"
    raise AssignorNameTaken(f"{conflict}; {_available()}")


def _installed(entry: EntryPoint) -> Assignor:
    found = _by_path(entry.module, entry.attr)
    if found.name != entry.name:
        raise NotAnAssignor(
            f"{_package(entry)} installs the assignor {entry.value} as {entry.name}, "
            f"but its name is {found.name}: use the same name for both"
        )
    return found


def _by_path(module_name: str, path: str) -> Assignor:
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{module_name}.".startswith(f"{missing.name}."):
            raise  # the module exists, but one of its imports failed
        raise AssignorNotFound(
            f"no module {missing.name} for {module_name}:{path}: install it, or add its folder to "
            f"PYTHONPATH; {_available()}"
        ) from None
    found: object = module
    for part in path.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise AssignorNotFound(f"{module_name} has no {path}; {_assignors_in(module)}")
    return to_assignor(found, f"{module_name}:{path}")


def to_assignor(found: object, path: str) -> Assignor:
    """Return the object, or an instance of the class. Raises NotAnAssignor, with `path` in the
    message."""
    if isinstance(found, type):
        try:
            found = found()
        except TypeError as error:
            raise NotAnAssignor(
                f"{path} cannot be instantiated without arguments ({error}): name an object instead"
            ) from error
    missing = [name for name in _ATTRIBUTES if not hasattr(found, name)]
    if missing:
        raise NotAnAssignor(
            f"{path} is not an assignor; it lacks {_and(missing)}: "
            "see kohort.assignors.model.Assignor"
        )
    assignor: Assignor = found  # type: ignore[assignment]  # has its attributes
    if not isinstance(assignor.name, str) or not assignor.name:
        raise NotAnAssignor(f"{path} has no name: set `name` to a string")
    return assignor


def _available() -> str:
    text = f"built in: {', '.join(sorted(BUILTIN))}"
    installed = sorted({entry.name for entry in entry_points(group=ENTRY_POINT_GROUP)})
    if installed:
        text += f"; installed: {', '.join(installed)}"
    return f"{text}; any other by its path, package.module:Name"


def _assignors_in(module: ModuleType) -> str:
    own = [
        name
        for name, value in vars(module).items()
        if hasattr(value, "assign") and value is not Assignor and not name.startswith("_")
    ]
    return f"its assignors: {', '.join(sorted(own))}" if own else "it has no assignors"


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "an unnamed package"


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
