"""SASL/OAUTHBEARER (RFC 7628): one token, a JWT, with the client's identity in one of its claims.

There are validators for unsecured tokens (upstream: OAuthBearerUnsecuredValidatorCallbackHandler)
and for signed tokens, which are verified with keys from a file (upstream:
OAuthBearerValidatorCallbackHandler).
"""

import base64
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from ...printable import shortened
from .mechanism import AuthenticationFailed, Identity, InvalidCredentials
from .scram import NAME

if TYPE_CHECKING:
    import jwt

_log: Final = logging.getLogger("kohort.security")

# Upstream: OAuthBearerClientInitialResponse. \x01 separates key-value pairs.
CLIENT_RESPONSE: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>{NAME}))?,\x01"
    r"(?P<pairs>(?:[A-Za-z]++=[\x21-\x7E \t\r\n]++\x01)*+)\x01"
)
AUTHORIZATION: Final = re.compile(r"(?i:bearer) ++(?P<token>[-_.a-zA-Z0-9]++)")
# The client's response to an error, which ends the exchange.
ERROR_RECEIVED: Final = b"\x01"
# The maximum of times in tokens, in seconds (279,000 years). The response contains the session
# lifetime, which some clients store as microseconds in 64 bits.
SECONDS_MAX: Final = 2**43
# The allowed signature algorithms: neither `none` nor HMAC, whose secret key would be in the JWKS.
ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)


class InvalidToken(Exception):
    """The token is rejected. The message is for the log. `missing_scope` contains all required
    scopes if the token lacks one of them."""

    def __init__(self, message: str, missing_scope: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.missing_scope = missing_scope

    @property
    def response(self) -> str:
        """The response to the client (upstream: OAuthBearerSaslServer.jsonErrorResponse)."""
        if not self.missing_scope:
            return '{"status":"invalid_token"}'
        # Java prints a list in brackets.
        scope = f"[{', '.join(self.missing_scope)}]"
        return f'{{"status":"insufficient_scope", "scope":"{scope}"}}'


class TokenValidator(Protocol):
    def validate(self, token: str, now_ms: int) -> Identity:
        """Return the identity in the token. `now_ms` is the time of the system clock. Raises
        InvalidToken."""


class OAuthBearerExchange:
    """An OAUTHBEARER authentication. `now_ms` returns the time of the system clock; it is a
    function, because a client may create its token after the handshake."""

    def __init__(self, validator: TokenValidator, now_ms: Callable[[], int]) -> None:
        self._validator = validator
        self._now_ms = now_ms
        self._error = ""
        self.identity: Identity | None = None

    def evaluate(self, token: bytes) -> bytes:
        if self._error and token == ERROR_RECEIVED:
            raise AuthenticationFailed(self._error)
        match = CLIENT_RESPONSE.fullmatch(token.decode(errors="replace"))
        if match is None:
            raise InvalidCredentials("invalid first message from the client")
        pairs = dict(each.split("=", 1) for each in match["pairs"].split("\x01")[:-1])
        bearer = AUTHORIZATION.fullmatch(pairs.get("auth", ""))
        if bearer is None:
            raise InvalidCredentials("no bearer token in the first message from the client")
        try:
            identity = self._validator.validate(bearer["token"], self._now_ms())
        except InvalidToken as error:
            _log.warning("Could not validate the access token: %s", shortened(str(error)))
            self._error = error.response
            return self._error.encode()
        if match["authorization_id"] not in (None, identity.user):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id "
                f"({match['authorization_id']}) that is different from the token's principal name "
                f"({identity.user})"
            )
        self.identity = identity
        return b""


@dataclass(frozen=True, slots=True)
class UnsecuredTokens:
    """Validates tokens without a signature, which anyone can create. `skew_ms` is the maximum
    difference between the clocks of issuer and broker."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    skew_ms: int = 0

    def validate(self, token: str, now_ms: int) -> Identity:
        header, claims = _parse(token)
        if header.get("alg") != "none":
            raise InvalidToken(
                "the token's algorithm is not 'none', but this listener verifies no signatures"
            )
        claims = {name: _as_in_kafka(value) for name, value in claims.items()}
        user = _user(claims, self.principal_claim)
        issued_ms = _time_ms(claims, "iat")
        if issued_ms is not None and issued_ms > now_ms + self.skew_ms:
            raise InvalidToken("the token was issued in the future")
        expires_ms = _required_time_ms(claims, "exp")
        if expires_ms <= now_ms - self.skew_ms:
            raise InvalidToken("the token has expired")
        if issued_ms is not None and expires_ms <= issued_ms:
            raise InvalidToken("the token expires before it was issued")
        scope = _scope(claims.get(self.scope_claim))
        if not scope.issuperset(self.required_scope):
            scopes = ", ".join(self.required_scope)
            raise InvalidToken(f"the token needs all of the scopes {scopes}", self.required_scope)
        return Identity(user, expires_ms)


@dataclass(frozen=True, slots=True)
class SignedTokens:
    """Validates tokens that are signed with one of `keys`. If `audiences` or `issuer` is empty, any
    value is accepted."""

    keys: Sequence["jwt.PyJWK"]
    principal_claim: str
    audiences: tuple[str, ...]
    issuer: str
    skew_ms: int

    def validate(self, token: str, now_ms: int) -> Identity:
        claims = self._verified_claims(token)
        expires_ms = _required_time_ms(claims, "exp")
        if expires_ms <= now_ms - self.skew_ms:
            raise InvalidToken("the token has expired")
        _required_time_ms(claims, "iat")
        not_before_ms = _time_ms(claims, "nbf")
        if not_before_ms is not None and not_before_ms > now_ms + self.skew_ms:
            raise InvalidToken("the token is not valid yet")
        return Identity(_user(claims, self.principal_claim), expires_ms)

    def _verified_claims(self, token: str) -> Mapping[str, Any]:
        import jwt

        header, _ = _parse(token)
        key_id, algorithm = header.get("kid"), header.get("alg")
        if algorithm not in ALGORITHMS:
            raise InvalidToken(f"unsupported algorithm {algorithm!r} in the token")
        # PyJWT would use the system clock. `validate` uses `now_ms`, which a test may control.
        options: Any = {
            **dict.fromkeys(("verify_exp", "verify_iat", "verify_nbf", "verify_sub"), False),
            "verify_aud": bool(self.audiences),
        }
        error: Exception | None = None
        for key in self.keys:
            if key_id is not None and key.key_id != key_id:
                continue
            try:
                return jwt.decode(
                    token,
                    key.key,
                    algorithms=[algorithm],
                    options=options,
                    audience=self.audiences or None,
                    issuer=self.issuer or None,
                )
            # PyJWT raises PyJWTError or TypeError if the algorithm does not fit the key.
            except (jwt.PyJWTError, TypeError) as failure:
                error = failure
        raise InvalidToken(str(error or f"no key with the id {key_id!r}")) from error


def load_jwks(path: Path) -> list["jwt.PyJWK"]:
    """Load the signature keys of a JWKS file. Raises OSError, ValueError, and ImportError without
    the extra `security`."""
    import jwt

    content = json.loads(path.read_text(encoding="utf-8"))
    try:
        return [
            jwt.PyJWK(each)
            for each in content["keys"]
            if each["kty"] != "oct" and each.get("use", "sig") == "sig"
        ]
    except (KeyError, TypeError, jwt.PyJWKError, jwt.InvalidKeyError) as error:
        raise ValueError(f"not a JSON Web Key Set: {error!r}") from error


# --- the parts of a token


def _parse(token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the header and the claims of a JWT, without verifying its signature."""
    parts = token.split(".")
    if len(parts) != 3:
        raise InvalidToken("the token does not have three parts")
    try:
        header, claims = (_parse_part(each) for each in parts[:2])
    except (ValueError, RecursionError):
        raise InvalidToken("the token is not Base64-encoded JSON") from None
    if header.get("alg") == "none" and parts[2]:
        raise InvalidToken("the token has a signature, but no algorithm")
    return header, claims


def _parse_part(part: str) -> Mapping[str, Any]:
    parsed = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    if not isinstance(parsed, dict):
        raise ValueError("not a JSON object")
    return parsed


def _as_in_kafka(value: Any) -> Any:
    """Convert a claim (upstream: OAuthBearerUnsecuredJws.convert). The items of a list, and all
    other values except numbers, become text. For example, null becomes the user `null`."""
    if isinstance(value, list):
        return [_text(each) for each in value]
    return _text(value) if isinstance(value, bool) or not isinstance(value, int | float) else value


def _text(value: Any) -> str:
    """Like Jackson's JsonNode.asText."""
    if isinstance(value, str):
        return value
    return "" if isinstance(value, list | dict) else json.dumps(value)


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    # All comparisons with NaN are false.
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not abs(value) < SECONDS_MAX
    ):
        raise InvalidToken(f"invalid time in the token's {name} claim")
    return round(value * 1000)


def _required_time_ms(claims: Mapping[str, Any], name: str) -> int:
    value = _time_ms(claims, name)
    if value is None:
        raise InvalidToken(f"the token lacks the claim {name}")
    return value


def _user(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InvalidToken(f"the token's {name} claim is missing, blank or not a string")
    return value


def _scope(value: object) -> set[str]:
    """Return the scopes. A string is one scope, even with spaces (upstream:
    OAuthBearerUnsecuredJws)."""
    items = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if value is not None and not isinstance(value, str | list):
        raise InvalidToken("the token's scope is neither a string nor a list")
    return {each.strip() for each in items if isinstance(each, str)}
