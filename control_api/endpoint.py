"""An endpoint: method, path and function.

A request takes the function's parameters, which msgspec validates and describes for OpenAPI.
Parameters named in the path are taken from the path, others from the query of a GET or from the
JSON object in the body. The docstring of the function describes the endpoint.
"""

import re
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from inspect import Parameter, cleandoc, signature
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from ..suggestions import did_you_mean
from .parameters import describe

# Kafka limits topic names to 249 characters; client and group ids may be longer.
NAME_LENGTH_MAX: Final = 1000
# The maximum request timeout.
TIMEOUT_SECONDS_MAX: Final = 600
# An in-memory broker creates this many partitions within a second.
PARTITIONS_MAX: Final = 10_000
# The maximum number of items in a request or response: a few megabytes of JSON.
ITEMS_MAX: Final = 10_000
# Ten years, because no test waits for a longer retention.
ADVANCE_DAYS_MAX: Final = 10 * 366
ADVANCE_SECONDS_MAX: Final = ADVANCE_DAYS_MAX * 24 * 3600
# Joining with a subscription to more topics would take seconds.
TOPICS_MAX: Final = 1000
# Longer invalid values are truncated in error messages.
SHOWN_LENGTH_MAX: Final = 100
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

Name = Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
Names = Annotated[list[Name], Meta(min_length=1, max_length=TOPICS_MAX)]
Index = Annotated[int, Meta(ge=0, le=INT32_MAX)]
"""A partition number, a node id or a seed."""
Partitions = Annotated[int, Meta(ge=1, le=PARTITIONS_MAX)]
Offset = Annotated[int, Meta(ge=0, le=INT64_MAX)]
Generation = Annotated[int, Meta(ge=-1, le=INT32_MAX)]
GenerationOrEpoch = Annotated[int, Meta(ge=-2, le=INT32_MAX)]
Count = Annotated[int, Meta(ge=1, le=INT32_MAX)]
Limit = Annotated[int, Meta(ge=1, le=ITEMS_MAX)]
Timeout = Annotated[float, Meta(ge=0, le=TIMEOUT_SECONDS_MAX)]
Days = Annotated[float, Meta(ge=0, le=ADVANCE_DAYS_MAX)]
Hours = Annotated[float, Meta(ge=0, le=ADVANCE_DAYS_MAX * 24)]
Minutes = Annotated[float, Meta(ge=0, le=ADVANCE_SECONDS_MAX // 60)]
Seconds = Annotated[float, Meta(ge=0, le=ADVANCE_SECONDS_MAX)]
Milliseconds = Annotated[int, Meta(ge=0, le=ADVANCE_SECONDS_MAX * 1000)]
SignedSeconds = Annotated[float, Meta(ge=-ADVANCE_SECONDS_MAX, le=ADVANCE_SECONDS_MAX)]
SignedMilliseconds = Annotated[
    int, Meta(ge=-ADVANCE_SECONDS_MAX * 1000, le=ADVANCE_SECONDS_MAX * 1000)
]
Probability = Annotated[float, Meta(gt=0, le=1)]
Texts = Annotated[list[str | None], Meta(max_length=ITEMS_MAX)]

Method = Literal["GET", "POST", "DELETE"]


class Endpoint:
    """An endpoint. `function` is called with the Control and the parameters; its result is sent as
    JSON."""

    def __init__(self, method: Method, path: str, function: Callable[..., Any]) -> None:
        self.method = method
        self.path = path
        self.function = function
        self.name = function.__name__
        paragraphs = cleandoc(function.__doc__ or "").split("\n\n", 1)
        self.summary, self.description = (
            re.sub(r"\s+", " ", text) for text in (*paragraphs, "")[:2]
        )
        # All parameters except the Control.
        self._parameters = dict(list(signature(function).parameters.items())[1:])
        self.names = list(self._parameters)
        self.path_names = re.findall(r"{(\w+)}", path)
        self.other_names = [name for name in self.names if name not in self.path_names]
        self._path_pattern = re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]*)", path))

    @property
    def can_wait(self) -> bool:
        """Whether a request may take as long as its timeout."""
        return "timeout" in self.names

    def match(self, path: str) -> dict[str, str] | None:
        """Return the parameters in a path, percent-encoded; None if the path does not match."""
        match = self._path_pattern.fullmatch(path)
        return None if match is None else match.groupdict()

    @cached_property
    def in_path(self) -> type[msgspec.Struct]:
        """The parameters in the path."""
        return self._struct(self.path_names)

    @cached_property
    def others(self) -> type[msgspec.Struct]:
        """The parameters in the query or the body."""
        return self._struct(self.other_names)

    def parse(self, in_path: Mapping[str, str], others: Mapping[str, Any]) -> dict[str, Any]:
        """Validate and convert the parameters. Raises ValueError with a message for the user."""
        is_query = self.method == "GET"
        return {
            **self._convert(in_path, self.in_path, strict=False),
            **self._convert(others, self.others, strict=not is_query),
        }

    def _convert(
        self, given: Mapping[str, Any], to: type[msgspec.Struct], *, strict: bool
    ) -> dict[str, Any]:
        if unknown := given.keys() - set(to.__struct_fields__):
            name = min(unknown)
            fields = ", ".join(to.__struct_fields__) or "none"
            hint = did_you_mean(name, to.__struct_fields__) or f"; known fields: {fields}"
            raise ValueError(f"unknown field {name!r}{hint}")
        try:
            return msgspec.structs.asdict(msgspec.convert(given, to, strict=strict))
        except msgspec.ValidationError as error:
            raise ValueError(self._explain(str(error), given)) from error

    def _explain(self, error: str, given: Mapping[str, Any]) -> str:
        """Return msgspec's message, with the invalid value and the possible values."""
        text, _, path = error.partition(" - at `$.")
        path = path.rstrip("`")
        if not path:
            return text.replace("Object missing required field", "missing field").replace("`", "'")
        value, similar = given.get(path), ""
        hint = self._hints.get(path)
        if get_origin(hint) is Literal:
            text = f"expected one of {', '.join(get_args(hint))}"
            similar = did_you_mean(str(value), get_args(hint))
        if value is not None and "got" not in text:
            text = f"{text}, got {_shorten(value)}"
        return f"invalid {path}: {text[0].lower()}{text[1:]}{similar}".replace("`", "")

    def _struct(self, names: list[str]) -> type[msgspec.Struct]:
        fields: list[Any] = []
        for name in names:
            default = self._parameters[name].default
            has_default = default is not Parameter.empty
            described = Meta(description=describe(self.path, name))
            hint: Any = Annotated[self._hints[name], described]
            fields.append((name, hint, *([default] if has_default else [])))
        return msgspec.defstruct(self.name, fields, forbid_unknown_fields=True, kw_only=True)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.function, include_extras=True)


def check_used(
    given: Mapping[str, Any], choice: str, required: Collection[str], optional: Collection[str]
) -> dict[str, Any]:
    """Return the parameters that are not None. Raises ValueError if a required parameter is
    missing, or a given parameter is not used with this choice (such as `until=owner`)."""
    found = {name: value for name, value in given.items() if value is not None}
    for name in required:
        if name not in found:
            raise ValueError(f"missing field {name!r}: required with {choice}")
    for name in found:
        if name not in (*required, *optional):
            raise ValueError(f"invalid {name}: not used with {choice}")
    return found


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_LENGTH_MAX else f"{text[:SHOWN_LENGTH_MAX]}…"
