"""What the nodes of a broker share for security, built from the configuration."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from ...topics.registry import TopicRegistry
from ...topics.scram import ScramMechanism
from ..config.broker_config import BrokerConfig, ConfigError
from ..config.listeners import Listener
from .credentials import Credentials, parse_jaas, parse_users
from .oauthbearer import (
    OAuthBearerExchange,
    SignedTokens,
    TokenValidator,
    UnsecuredTokens,
    load_jwks,
)
from .plain import PlainExchange
from .sasl import Mechanism, SaslListener
from .scram import ScramExchange

__all__ = ["Security", "build_security"]

SCRAM: Final = {each.sasl_name: each for each in ScramMechanism}
NONCE_BYTES: Final = 16
HANDLER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
LOGIN_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    **dict.fromkeys(SCRAM, "ScramLoginModule"),
}
# Before each of the names, in the options of OAUTHBEARER.
UNSECURED: Final = "unsecuredValidator"


@dataclass(slots=True)
class Security:
    sasl: Mapping[str, SaslListener]
    """How clients authenticate, by the name of the listener; only of listeners with SASL."""


def build_security(config: BrokerConfig, topics: TopicRegistry) -> Security:
    """Raises ConfigError."""
    try:
        users = parse_users(config.str("kohort.users"))
    except ValueError as error:
        raise ConfigError(
            f"invalid kohort.users (from {config.origin('kohort.users')}): {error}."
        ) from None
    credentials = Credentials(users, topics)
    return Security(
        {
            listener.name: SaslConfig(config, listener, credentials).listener()
            for listener in config.listeners
            if listener.protocol.uses_sasl
        }
    )


class SaslConfig:
    """Reads the keys of one listener."""

    def __init__(self, config: BrokerConfig, listener: Listener, credentials: Credentials) -> None:
        self._config, self._listener, self._credentials = config, listener, credentials

    def listener(self) -> SaslListener:
        config = self._config
        mechanisms = config.list(self._key("sasl.enabled.mechanisms"))
        return SaslListener(
            {name: self._mechanism(name) for name in mechanisms},
            receive_bytes_max=config.int(self._key("sasl.server.max.receive.size")),
            failure_delay_ms=config.int(self._key("connection.failed.authentication.delay.ms")),
        )

    def _key(self, key: str, mechanism: str = "") -> str:
        return self._config.key_of(self._listener, key, mechanism)

    def _mechanism(self, name: str) -> Mechanism:
        max_reauth_ms = self._config.int(self._key("connections.max.reauth.ms", name))
        jaas = self._jaas_options(name)
        self._check_callback_handler(name)
        if name in SCRAM:
            mechanism = SCRAM[name]
            credential_of = partial(self._credentials.scram, mechanism=mechanism)

            def new_scram(_now_ms: int) -> ScramExchange:
                nonce = secrets.token_urlsafe(NONCE_BYTES)
                return ScramExchange(mechanism, credential_of, nonce)

            return Mechanism(new_scram, max_reauth_ms)
        if name == "PLAIN":
            passwords = {
                option.removeprefix("user_"): password
                for option, password in jaas.items()
                if option.startswith("user_")
            }
            passwords = {**self._credentials.passwords, **passwords}
            return Mechanism(lambda _now_ms: PlainExchange(passwords), max_reauth_ms)
        validator = self._token_validator(jaas)
        return Mechanism(partial(OAuthBearerExchange, validator), max_reauth_ms)

    def _jaas_options(self, mechanism: str) -> dict[str, str]:
        key = self._key("sasl.jaas.config", mechanism)
        if not key.endswith(f".{mechanism.lower()}.sasl.jaas.config"):
            return {}
        try:
            module, options = parse_jaas(self._config.str(key))
            if module != LOGIN_MODULES[mechanism]:
                raise ValueError(f"expected {LOGIN_MODULES[mechanism]} for {mechanism}")
        except ValueError as error:
            # Without the value, which contains passwords.
            origin = self._config.origin(key)
            raise ConfigError(f"invalid {key} (from {origin}): {error}.") from None
        return options

    def _check_callback_handler(self, mechanism: str) -> None:
        key = self._key("sasl.server.callback.handler.class", mechanism)
        name = self._config.str(key)
        if name and (mechanism != "OAUTHBEARER" or name != HANDLER):
            raise ConfigError(
                f"unsupported {key}={name} (from {self._config.origin(key)}): kohort runs no Java "
                f"classes. For signed tokens, set sasl.oauthbearer.jwks.endpoint.url."
            )

    def _token_validator(self, jaas: Mapping[str, str]) -> TokenValidator:
        config = self._config

        def key(name: str) -> str:
            return self._key(f"sasl.oauthbearer.{name}", "OAUTHBEARER")

        url_key = key("jwks.endpoint.url")
        url = config.str(url_key)
        if not url:
            handler = self._key("sasl.server.callback.handler.class", "OAUTHBEARER")
            if config.str(handler):
                raise ConfigError(
                    f"{handler} (from {config.origin(handler)}) needs {url_key}: a file: URL."
                )
            return _unsecured_tokens(jaas, self._key("sasl.jaas.config", "OAUTHBEARER"))
        parts = urlsplit(url)
        where = f"{url_key}={url} (from {config.origin(url_key)})"
        if parts.scheme != "file" or not parts.path:
            raise ConfigError(f"unsupported {where}: expected file:///PATH.")
        try:
            keys = load_jwks(Path(unquote(parts.path)))
        except ImportError:
            raise ConfigError(f"{where} needs the extra: pip install 'kohort[security]'.") from None
        except (OSError, ValueError) as error:
            raise ConfigError(f"cannot read {where}: {error}.") from error
        return SignedTokens(
            keys,
            principal_claim=config.str(key("sub.claim.name")),
            audiences=config.list(key("expected.audience")),
            issuer=config.str(key("expected.issuer")),
            skew_ms=config.int(key("clock.skew.seconds")) * 1000,
        )


def _unsecured_tokens(jaas: Mapping[str, str], key: str) -> UnsecuredTokens:
    skew = jaas.get(f"{UNSECURED}AllowableClockSkewMs", "0")
    if not skew.isdecimal():
        raise ConfigError(f"invalid {UNSECURED}AllowableClockSkewMs in {key}: expected a number.")
    return UnsecuredTokens(
        principal_claim=jaas.get(f"{UNSECURED}PrincipalClaimName", "sub"),
        scope_claim=jaas.get(f"{UNSECURED}ScopeClaimName", "scope"),
        required_scope=tuple(jaas.get(f"{UNSECURED}RequiredScope", "").split()),
        skew_ms=int(skew),
    )
