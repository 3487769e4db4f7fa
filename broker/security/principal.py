"""A client's identity, which may be derived from the name in its certificate (upstream:
KafkaPrincipal, SslPrincipalMapper)."""

import re
from typing import Final, NamedTuple


class Principal(NamedTuple):
    """A principal, written as in ACLs: `User:alice`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


def user(name: str) -> Principal:
    return Principal("User", name)


ANONYMOUS: Final = user("ANONYMOUS")
"""A client that did not authenticate."""

INTERNAL: Final = Principal("Internal", "kohort")
"""A client inside this process, such as a test's fake member. It may do everything. Clients outside
of this process cannot authenticate as a principal of this type."""


class _Rule(NamedTuple):
    pattern: "re.Pattern[str]"
    template: str
    case: str  # L, U or ""


# One rule, followed by a comma or the end.
_RULE: Final = re.compile(
    r"\s*+(?:DEFAULT|RULE:(?P<pattern>(?:\\.|[^\\/])*+)/(?P<replacement>(?:\\.|[^\\/])*+)/"
    r"(?P<case>[LU]?))\s*+(?:,[,\s]*+|\Z)"
)
# A named group in Java's syntax, and the parts of a Java replacement.
_NAMED_GROUP: Final = re.compile(r"(?<!\\)\(\?<(?=[A-Za-z])")
_REPLACEMENT: Final = re.compile(r"\\(.)|\$\{([A-Za-z]\w*+)\}|\$(\d++)|([^\\$])")


class PrincipalMapper:
    """`ssl.principal.mapping.rules`, such as `RULE:^CN=(.*?),.*$/$1/L,DEFAULT`. The first rule
    whose pattern matches the whole name of a certificate turns it into the principal's name.
    Without rules, no name is valid."""

    def __init__(self, rules: str) -> None:
        """Parse the rules. Raises ValueError."""
        self._rules: list[_Rule | None] = []  # None for DEFAULT
        self._text = rules
        position = 0
        while rules[position:].strip():
            match = _RULE.match(rules, position)
            if match is None:
                raise ValueError(
                    f"invalid rule '{rules[position:]}': expected RULE:PATTERN/REPLACEMENT/, "
                    "followed by L or U for lower or upper case, or DEFAULT"
                )
            pattern, replacement, case = match.groups()
            self._rules.append(None if pattern is None else _rule(pattern, replacement, case))
            position = match.end()

    def name(self, distinguished: str) -> str:
        """Return the name of a certificate's principal. Raises ValueError if no rule matches."""
        for rule in self._rules:
            if rule is None:
                return distinguished
            if rule.pattern.fullmatch(distinguished):
                mapped = rule.pattern.sub(rule.template, distinguished)
                return {"L": mapped.lower(), "U": mapped.upper()}.get(rule.case, mapped)
        raise ValueError(f"no rule of {self._text} applies to {distinguished}")


def _rule(pattern: str, replacement: str, case: str) -> _Rule:
    try:
        # As in Java, \w and \d are ASCII.
        compiled = re.compile(_NAMED_GROUP.sub("(?P<", pattern), re.ASCII)
    except re.error as error:
        raise ValueError(f"invalid pattern '{pattern}': {error}") from error
    return _Rule(compiled, _template(replacement, compiled), case)


def _template(replacement: str, pattern: "re.Pattern[str]") -> str:
    """Convert a Java replacement to Python's syntax. Raises ValueError."""
    parts, position = [], 0
    while position < len(replacement):
        match = _REPLACEMENT.match(replacement, position)
        if match is None:
            raise ValueError(f"invalid replacement '{replacement}': $ without a group")
        escaped, name, digits, text = match.groups()
        position = match.end()
        # As in Java, take as many digits as possible, provided that a group of this number exists.
        while digits and len(digits) > 1 and int(digits) > pattern.groups:
            digits, position = digits[:-1], position - 1
        if (name and name in pattern.groupindex) or (digits and int(digits) <= pattern.groups):
            parts.append(rf"\g<{name or digits}>")
            continue
        # As in Kafka, `$9` is plain text if there are groups, but fewer than nine.
        if name or (digits and not pattern.groups):
            raise ValueError(f"invalid replacement '{replacement}': no group {name or digits}")
        literal = f"${digits}" if digits else escaped or text
        parts.append(literal.replace("\\", r"\\"))
    return "".join(parts)
