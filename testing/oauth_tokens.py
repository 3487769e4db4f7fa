"""Unsecured tokens for SASL OAUTHBEARER, and each client library's settings for them."""

import base64
import json
import time
from collections.abc import Mapping
from typing import Any, Final

from ..java_properties import quoted

__all__ = ["oauth_settings", "unsecured_token"]

# Tests advance the broker's clock, but not the clients' clock, which librdkafka and Java use to
# create tokens.
TOKEN_SECONDS: Final = 10 * 365 * 24 * 3600
_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def unsecured_token(user: str) -> str:
    """Return an unsigned token. A broker without a JWKS accepts it."""
    claims = {"sub": user, "exp": int(time.time()) + TOKEN_SECONDS}
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def _encoded(part: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def oauth_settings(library: str, user: str) -> dict[str, Any]:
    """Return the settings, in addition to the mechanism, with which a client creates such tokens.
    Raises ImportError if the settings are objects of a library that is not installed, and
    ValueError for a user whose token librdkafka cannot create."""
    if library == "confluent":
        # librdkafka splits the setting at spaces, and writes the name into JSON without escaping
        # it.
        if " " in user or json.dumps(user, ensure_ascii=False) != f'"{user}"':
            raise ValueError(f"librdkafka cannot create a token for user {user!r}: rename the user")
        return {
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": f"principal={user} lifeSeconds={TOKEN_SECONDS}",
        }
    if library == "java":
        options = (
            f"unsecuredLoginStringClaim_sub={quoted(user)}"
            f' unsecuredLoginLifetimeSeconds="{TOKEN_SECONDS}"'
        )
        return {"sasl.jaas.config": f"{_MODULE} required {options};"}
    provider = _kafka_python_token if library == "kafka-python" else _aiokafka_token
    return {"sasl_oauth_token_provider": provider(user)}


def _kafka_python_token(user: str) -> Any:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Token(AbstractTokenProvider):
        def token(self) -> str:
            return unsecured_token(user)

    token: Any = Token
    return token()


def _aiokafka_token(user: str) -> Any:
    from aiokafka.abc import AbstractTokenProvider

    class Token(AbstractTokenProvider):
        async def token(self) -> str:
            return unsecured_token(user)

    return Token()
