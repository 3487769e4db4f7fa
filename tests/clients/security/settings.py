"""Settings with mistakes."""

import ssl
import time
from typing import Any

from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from kafka.net.sasl.oauth import AbstractTokenProvider
from kohort.testing.security import Security
from support.sasl import OAUTH_MODULE, unsecured_token

from .connecting import Config

PYTHON = ("kafka-python", "aiokafka")


def invalid_token() -> str:
    """Return a token that no broker accepts: it has expired, and has no name."""
    return unsecured_token({"sub": "", "exp": 0})


class KafkaPythonToken(AbstractTokenProvider):
    def token(self) -> str:
        return invalid_token()


class AiokafkaToken(AioTokenProvider):
    async def token(self) -> str:
        return invalid_token()


def with_invalid_token(security: Security, *, library: Any, listener: str) -> Config:
    config = security.client_config(
        "carol", library=library, listener=listener, mechanism="OAUTHBEARER"
    )
    if library in PYTHON:
        token = KafkaPythonToken if library == "kafka-python" else AiokafkaToken
        return {**config, "sasl_oauth_token_provider": token()}
    if library == "confluent":
        del config["enable.sasl.oauthbearer.unsecure.jwt"], config["sasl.oauthbearer.config"]
        return {**config, "oauth_cb": lambda _: (invalid_token(), time.time() + 3600)}
    # Java's client creates the token itself, always with a name, but the name can be in another
    # claim.
    claim = 'unsecuredLoginPrincipalClaimName="other" unsecuredLoginStringClaim_other="carol"'
    return {**config, "sasl.jaas.config": f"{OAUTH_MODULE} required {claim};"}


def with_password(config: Config, library: str, user: str, password: str) -> Config:
    if library in PYTHON:
        return {**config, "sasl_plain_username": user, "sasl_plain_password": password}
    if library == "confluent":
        return {**config, "sasl.username": user, "sasl.password": password}
    module = config["sasl.jaas.config"].split()[0]
    login = f'{module} required username="{user}" password="{password}";'
    return {**config, "sasl.jaas.config": login}


def with_protocol(config: Config, library: str, protocol: str) -> Config:
    changed = {
        **config,
        "security_protocol" if library in PYTHON else "security.protocol": protocol,
    }
    if library == "aiokafka" and protocol.endswith("SSL"):
        changed.setdefault("ssl_context", ssl.create_default_context())
    return changed


def impatient(config: Config, library: str) -> Config:
    """Shorten the minute for which Java's client retries if it is disconnected."""
    if library != "java":
        return config
    return {**config, "default.api.timeout.ms": "1000", "request.timeout.ms": "500"}


def without_authority(config: Config, library: str) -> Config:
    """Return settings with which the client trusts only the authorities of the machine."""
    trust = ("ssl.ca.location", "ssl_cafile", "ssl_context", "ssl.truststore.location")
    changed = {key: value for key, value in config.items() if key not in trust}
    changed.pop("ssl.truststore.type", None)
    if library == "aiokafka":
        changed["ssl_context"] = ssl.create_default_context()
    return changed
