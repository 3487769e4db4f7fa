"""The security settings that the nodes of a broker share, built from the configuration."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from ...java_properties import parse_jaas
from ...topics.registry import TopicRegistry
from ...topics.scram import ITERATIONS_MIN, ScramCredential, ScramMechanism
from ..config.broker_config import BrokerConfig
from ..config.listeners import Listener
from ..config.sources import ConfigError
from ..config.users import parse_users
from ..event_loop.timers import Clock
from .authorizer import Authorizer
from .mechanism import PlainExchange
from .oauthbearer import (
    OAuthBearerExchange,
    SignedTokens,
    TokenValidator,
    UnsecuredTokens,
    load_jwks,
)
from .quotas import ClientQuotas
from .sasl import Mechanism, SaslAuthenticator, SaslListener
from .scram import ScramExchange
from .session import ClientSession, OnFailed

SCRAM: Final = {each.sasl_name: each for each in ScramMechanism}
NONCE_BYTES: Final = 16
SALT_BYTES: Final = 16
HANDLER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
LOGIN_MODULES: Final = {
    "PLAIN": "PlainLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    **dict.fromkeys(SCRAM, "ScramLoginModule"),
}
JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
# Prefix of the OAUTHBEARER options for unsecured tokens.
UNSECURED: Final = "unsecuredValidator"


@dataclass(slots=True)
class Security:
    quotas: ClientQuotas
    sasl: Mapping[str, SaslListener]
    """The settings of SASL listeners, by listener name."""
    authorizer: Authorizer | None
    """None if every client may do everything."""
    on_failed_connection: OnFailed = field(default=lambda _client, _reason: None)
    """Hook: see OnFailed."""

    def new_session(self, listener: Listener, clock: Clock) -> ClientSession:
        """Return the session of a client that has just connected to the listener."""
        sasl = self.sasl.get(listener.name)
        return ClientSession(
            listener,
            sasl=None if sasl is None else SaslAuthenticator(sasl, clock),
            on_failed=self.on_failed_connection,
        )


def new_security(config: BrokerConfig, topics: TopicRegistry, quotas: ClientQuotas) -> Security:
    """Build the security settings. Raises ConfigError."""
    try:
        users = parse_users(config.str("kohort.users"))
    except ValueError as error:
        raise ConfigError(
            f"invalid kohort.users (from {config.origin('kohort.users')}): {error}."
        ) from None
    credentials = Credentials(users, topics)
    return Security(
        quotas,
        {
            listener.name: SaslConfig(config, listener, credentials).listener()
            for listener in config.listeners
            if listener.protocol.uses_sasl
        },
        _authorizer(config, topics),
    )


def _authorizer(config: BrokerConfig, topics: TopicRegistry) -> Authorizer | None:
    if not config.str("authorizer.class.name"):
        return None
    super_users = filter(None, map(str.strip, config.str("super.users").split(";")))
    allows_by_default = config.bool("allow.everyone.if.no.acl.found")
    return Authorizer(
        topics.security.acls, frozenset(super_users), allows_by_default=allows_by_default
    )


class Credentials:
    """The passwords of `users`, which are also valid for SCRAM, and the SCRAM credentials that
    clients have created, which take precedence."""

    def __init__(self, users: Mapping[str, str], topics: TopicRegistry) -> None:
        self.passwords = users
        self._topics = topics
        self._derived: dict[tuple[str, ScramMechanism], ScramCredential] = {}

    def scram(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        stored = self._topics.security.scram_credentials.get(user, {}).get(mechanism)
        if stored is not None or user not in self.passwords:
            return stored
        key = user, mechanism
        if key not in self._derived:
            salt, iterations = secrets.token_bytes(SALT_BYTES), ITERATIONS_MIN
            salted = mechanism.salted_password(self.passwords[user], salt, iterations)
            self._derived[key] = ScramCredential.derive(mechanism, salt, iterations, salted)
        return self._derived[key]


class SaslConfig:
    """Reads the SASL configuration of one listener."""

    def __init__(self, config: BrokerConfig, listener: Listener, credentials: Credentials) -> None:
        self._config, self._listener, self._credentials = config, listener, credentials

    def listener(self) -> SaslListener:
        config = self._config.for_listener(self._listener)
        return SaslListener(
            {name: self._mechanism(name) for name in config.list("sasl.enabled.mechanisms")},
            receive_bytes_max=config.int("sasl.server.max.receive.size"),
            failure_delay_ms=config.int("connection.failed.authentication.delay.ms"),
        )

    def _mechanism(self, name: str) -> Mechanism:
        config = self._config.for_listener(self._listener, name)
        where = f"of {name} on listener {self._listener.name}"
        _check_callback_handler(config, name, where)
        options = _jaas_options(config, name, where)
        max_reauth_ms = config.int("connections.max.reauth.ms")
        if name in SCRAM:
            mechanism = SCRAM[name]
            credential_of = partial(self._credentials.scram, mechanism=mechanism)

            def new_scram(_now_ms: Callable[[], int]) -> ScramExchange:
                nonce = secrets.token_urlsafe(NONCE_BYTES)
                return ScramExchange(mechanism, credential_of, nonce)

            return Mechanism(new_scram, max_reauth_ms)
        if name == "PLAIN":
            listed = {
                option.removeprefix("user_"): password
                for option, password in options.items()
                if option.startswith("user_")
            }
            passwords = {**self._credentials.passwords, **listed}
            return Mechanism(lambda _now_ms: PlainExchange(passwords), max_reauth_ms)
        if config.str(JWKS_URL):
            validator: TokenValidator = _signed_tokens(config, where)
        else:
            validator = _unsecured_tokens(options, where)
        return Mechanism(partial(OAuthBearerExchange, validator), max_reauth_ms)


def _check_callback_handler(config: BrokerConfig, mechanism: str, where: str) -> None:
    key = "sasl.server.callback.handler.class"
    name = config.str(key)
    if not name:
        return
    given = f"{key}={name} {where} (from {config.origin(key)})"
    if mechanism != "OAUTHBEARER" or name != HANDLER:
        raise ConfigError(
            f"unsupported {given}: kohort runs no Java classes; remove it, or choose {HANDLER} for "
            "signed OAUTHBEARER tokens."
        )
    if not config.str(JWKS_URL):
        raise ConfigError(f"{given} needs {JWKS_URL}: set it to a file URL (file:///PATH).")


def _jaas_options(config: BrokerConfig, mechanism: str, where: str) -> dict[str, str]:
    key = "sasl.jaas.config"
    if not config.str(key):
        return {}
    try:
        module, options = parse_jaas(config.str(key))
        if module != LOGIN_MODULES[mechanism]:
            raise ValueError(f"expected {LOGIN_MODULES[mechanism]}")
    except ValueError as error:
        # The message does not contain the value, which contains passwords.
        origin = config.origin(key)
        raise ConfigError(f"invalid {key} {where} (from {origin}): {error}.") from None
    return options


def _signed_tokens(config: BrokerConfig, where: str) -> SignedTokens:
    url = urlsplit(config.str(JWKS_URL))
    given = f"{JWKS_URL}={config.str(JWKS_URL)} {where} (from {config.origin(JWKS_URL)})"
    if url.scheme != "file" or url.netloc or not url.path:
        raise ConfigError(f"unsupported {given}: expected a file URL (file:///PATH).")
    try:
        keys = load_jwks(Path(unquote(url.path)))
    except ImportError:
        raise ConfigError(
            f"{given} needs PyJWT: run pip install './kohort[security]' in the folder that "
            "contains the clone."
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read {given}: {error}.") from error
    return SignedTokens(
        keys,
        principal_claim=config.str("sasl.oauthbearer.sub.claim.name"),
        audiences=config.list("sasl.oauthbearer.expected.audience"),
        issuer=config.str("sasl.oauthbearer.expected.issuer"),
        skew_ms=config.int("sasl.oauthbearer.clock.skew.seconds") * 1000,
    )


def _unsecured_tokens(options: Mapping[str, str], where: str) -> UnsecuredTokens:
    key = f"{UNSECURED}AllowableClockSkewMs"
    skew = options.get(key, "0")
    if not skew.isdecimal():
        raise ConfigError(f"invalid {key}={skew} {where}: expected milliseconds.")
    return UnsecuredTokens(
        principal_claim=options.get(f"{UNSECURED}PrincipalClaimName", "sub"),
        scope_claim=options.get(f"{UNSECURED}ScopeClaimName", "scope"),
        required_scope=tuple(options.get(f"{UNSECURED}RequiredScope", "").split()),
        skew_ms=int(skew),
    )
