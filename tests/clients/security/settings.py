"""Settings that `client_config` does not have: tokens, and mistakes."""

import ssl
import time
from typing import Any

from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from kafka.net.sasl.oauth import AbstractTokenProvider
from kohort.testing.security import Security
from support.sasl import OAUTH_MODULE, unsecured_token

from .connecting import Config

PYTHON = ("kafka-python", "aiokafka")
TOKEN_SECONDS = 3600


def token_for(user: str) -> str:
    """An unsecured token; without a user, one that no broker accepts."""
    now = time.time()
    return unsecured_token({"sub": user, "iat": now - 1, "exp": now + TOKEN_SECONDS if user else 0})


class KafkaPythonToken(AbstractTokenProvider):
    def __init__(self, user: str) -> None:
        self.user = user

    def token(self) -> str:
        return token_for(self.user)


class AiokafkaToken(AioTokenProvider):
    def __init__(self, user: str) -> None:
        self.user = user

    async def token(self) -> str:
        return token_for(self.user)


def with_token(security: Security, user: str, *, library: Any, listener: str) -> Config:
    """Settings for OAUTHBEARER."""
    config = security.client_config(library=library, listener=listener)
    if library in PYTHON:
        token = KafkaPythonToken if library == "kafka-python" else AiokafkaToken
        return {
            **config,
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": token(user),
        }
    config["sasl.mechanism"] = "OAUTHBEARER"
    if library == "confluent":
        config["oauth_cb"] = lambda _: (token_for(user), time.time() + TOKEN_SECONDS)
    else:
        # It creates the token, and none without a name, but it can have another claim for it.
        claim = "sub" if user else "other"
        config["sasl.jaas.config"] = (
            f'{OAUTH_MODULE} required unsecuredLoginPrincipalClaimName="{claim}" '
            f'unsecuredLoginStringClaim_{claim}="{user or "carol"}";'
        )
    return config


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
    """Java's client goes on for a minute if it is disconnected."""
    if library != "java":
        return config
    return {**config, "default.api.timeout.ms": "1000", "request.timeout.ms": "500"}


def without_authority(config: Config, library: str) -> Config:
    """The client trusts the authorities of the machine only."""
    trust = ("ssl.ca.location", "ssl_cafile", "ssl_context", "ssl.truststore.location")
    changed = {key: value for key, value in config.items() if key not in trust}
    changed.pop("ssl.truststore.type", None)
    if library == "aiokafka":
        changed["ssl_context"] = ssl.create_default_context()
    return changed
