"""SCRAM credentials (RFC 5802), which, as in Kafka, do not contain the password itself.

Upstream: ScramCredential, ScramFormatter.
"""

import hashlib
import hmac
from enum import IntEnum
from typing import Final, NamedTuple

__all__ = ["ITERATIONS_MAX", "ITERATIONS_MIN", "ScramCredential", "ScramMechanism"]

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384


class ScramMechanism(IntEnum):
    """The SCRAM mechanisms, as numbered in the protocol (KIP-554)."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return f"SCRAM-{self.name.replace('_', '-')}"

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self._hash_name, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash_name)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return the salted password. Takes 1 ms for 4,096 iterations."""
        return hashlib.pbkdf2_hmac(self._hash_name, password.encode(), salt, iterations)

    @property
    def _hash_name(self) -> str:
        return self.name.replace("_", "").lower()


class ScramCredential(NamedTuple):
    """The data with which a broker verifies a user's password."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    @classmethod
    def derive(
        cls, mechanism: ScramMechanism, salt: bytes, iterations: int, salted_password: bytes
    ) -> "ScramCredential":
        client_key = mechanism.hmac(salted_password, b"Client Key")
        server_key = mechanism.hmac(salted_password, b"Server Key")
        return cls(salt, iterations, mechanism.hash(client_key), server_key)
