"""The identity of a client, also from the name in its certificate (upstream: KafkaPrincipal,
SslPrincipalMapper)."""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

__all__ = ["ANONYMOUS", "INTERNAL", "Principal", "PrincipalMapper", "distinguished_name", "user"]


class Principal(NamedTuple):
    """Written as in ACLs: `User:alice`."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


def user(name: str) -> Principal:
    return Principal("User", name)


ANONYMOUS: Final = user("ANONYMOUS")
"""A client that did not authenticate."""

INTERNAL: Final = Principal("Internal", "kohort")
"""A client inside this process, such as a fake member of a test: it may do everything. No client
can authenticate as this type."""


# --- names of certificates

# The attributes that Java writes by keyword (RFC 2253), by the names of Python's ssl module.
_KEYWORDS: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}


def distinguished_name(subject: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Write a subject of `SSLObject.getpeercert` as Java does: the most specific part first. Other
    attributes than those of RFC 2253 have the name that OpenSSL gives them."""
    parts = []
    for attributes in subject:
        parts.append(
            "+".join(f"{_KEYWORDS.get(name, name)}={_escaped(value)}" for name, value in attributes)
        )
    return ",".join(reversed(parts))


def _escaped(value: str) -> str:
    escaped = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    escaped = re.sub(r"^([ #])", r"\\\1", escaped)
    return re.sub(r" $", r"\\ ", escaped)


class _Rule(NamedTuple):
    pattern: "re.Pattern[str]"
    replacement: str
    case: str  # L, U or ""


_RULE: Final = re.compile(r"RULE:((?:\\.|[^\\/])*+)/((?:\\.|[^\\/])*+)/([LU]?)")


class PrincipalMapper:
    """`ssl.principal.mapping.rules`: the first rule whose pattern matches a whole name makes the
    principal's name of it. `RULE:^CN=(.*?),.*$/$1/L,DEFAULT`."""

    def __init__(self, rules: str) -> None:
        """Raises ValueError for rules that cannot be parsed."""
        self._rules: list[_Rule | None] = []  # None: DEFAULT
        self._text = rules
        position = 0
        while position < len(rules):
            position += len(rules[position:]) - len(rules[position:].lstrip(" ,"))
            if rules.startswith("DEFAULT", position):
                self._rules.append(None)
                position += len("DEFAULT")
            elif (match := _RULE.match(rules, position)) is not None:
                self._rules.append(_rule(*match.groups()))
                position = match.end()
            else:
                raise ValueError(
                    f"invalid rule '{rules[position:]}': expected RULE:PATTERN/REPLACEMENT/, "
                    "followed by L or U for lower or upper case, or DEFAULT"
                )

    def name(self, distinguished: str) -> str:
        """Raises ValueError if no rule matches."""
        for rule in self._rules or (None,):
            if rule is None:
                return distinguished
            if rule.pattern.fullmatch(distinguished):
                mapped = rule.pattern.sub(rule.replacement, distinguished)
                return {"L": mapped.lower(), "U": mapped.upper()}.get(rule.case, mapped)
        raise ValueError(f"no rule of {self._text} applies to {distinguished}")


def _rule(pattern: str, replacement: str, case: str) -> _Rule:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"invalid pattern '{pattern}': {error}") from error
    # Java's groups are written with a dollar sign; a number without a group is text.
    groups = compiled.groups
    escaped = replacement.replace("\\", r"\\")
    converted = re.sub(
        r"\$(\d)",
        lambda match: rf"\g<{match[1]}>" if int(match[1]) <= groups else match[0],
        escaped,
    )
    return _Rule(compiled, converted, case)
