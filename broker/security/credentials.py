"""The passwords of users, and their SCRAM credentials."""

import secrets
from collections.abc import Mapping
from typing import Final

from ...topics.registry import TopicRegistry
from ...topics.scram import ITERATIONS_MIN, ScramCredential, ScramMechanism

__all__ = ["Credentials"]

SALT_BYTES: Final = 16


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
