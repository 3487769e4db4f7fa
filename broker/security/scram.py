"""SASL/SCRAM (RFC 5802): the client proves that it knows its password without sending it (upstream:
ScramSaslServer).

C: n,,n=alice,r=<client's nonce>
S: r=<client's and server's nonce>,s=<salt>,i=<iterations>
C: c=biws,r=<both nonces>,p=<proof>
S: v=<signature>
"""

import base64
import hmac
import re
from collections.abc import Callable
from typing import Final

from ...topics.scram import ScramCredential, ScramMechanism
from .mechanism import AuthenticationFailed, Identity, InvalidCredentials

# Upstream: ScramMessages. Names are ASCII; "," and "=" are written =2C and =3D.
NAME: Final = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)++"
VALUE: Final = r"[\x01-\x2B\x2D-\x7F]++"
NONCE: Final = r"[\x21-\x2B\x2D-\x7E]++"
BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*+(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
EXTENSIONS: Final = rf"(?:,[A-Za-z]++={VALUE})*+"
CLIENT_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization_id>{NAME}))?,"
    # Unlike in the RFC, Kafka's signature does not cover the reserved m=.
    rf"(?:m={VALUE},)?"
    rf"(?P<bare>n=(?P<name>{NAME}),r=(?P<nonce>{NONCE})(?P<extensions>{EXTENSIONS}))"
)
CLIENT_FINAL: Final = re.compile(
    # Unlike in the RFC, Kafka's signature does not cover these extensions.
    rf"(?P<without_proof>c={BASE64},r=(?P<nonce>{NONCE}))(?:,(?!p=)[A-Za-z]++={VALUE})*+,"
    rf"p=(?P<proof>{BASE64})"
)


class ScramExchange:
    """A SCRAM authentication. `credential_of(user)` returns the user's credential; `nonce` is
    random, without commas."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential_of: Callable[[str], ScramCredential | None],
        nonce: str,
    ) -> None:
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._nonce = nonce
        # Known after the first message.
        self._credential: ScramCredential | None = None
        self._user = self._client_first = self._server_first = ""
        self.identity: Identity | None = None

    def evaluate(self, token: bytes) -> bytes:
        message = token.decode(errors="replace")
        if self._credential is None:
            return self._respond_to_first(message)
        return self._respond_to_final(message, self._credential)

    def _respond_to_first(self, message: str) -> bytes:
        match = CLIENT_FIRST.fullmatch(message)
        if match is None:
            raise InvalidCredentials("invalid first message from the client")
        user = match["name"].replace("=2C", ",").replace("=3D", "=")
        extensions = dict(each.split("=", 1) for each in match["extensions"].split(",")[1:])
        if extensions.get("tokenauth", "").lower() == "true":
            raise InvalidCredentials("delegation tokens are not supported")
        credential = self._credential_of(user)
        if credential is None:
            raise InvalidCredentials(f"user {user!r} has no {self._mechanism.sasl_name} credential")
        if match["authorization_id"] not in (None, user):
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self._user, self._credential = user, credential
        self._client_first = match["bare"]
        self._nonce = match["nonce"] + self._nonce
        salt = base64.b64encode(credential.salt).decode()
        self._server_first = f"r={self._nonce},s={salt},i={credential.iterations}"
        return self._server_first.encode()

    def _respond_to_final(self, message: str, credential: ScramCredential) -> bytes:
        match = CLIENT_FINAL.fullmatch(message)
        if match is None:
            raise InvalidCredentials("invalid final message from the client")
        if match["nonce"] != self._nonce:
            raise InvalidCredentials("wrong nonce in the final message from the client")
        hmac_of = self._mechanism.hmac
        messages = (self._client_first, self._server_first, match["without_proof"])
        signed = ",".join(messages).encode()
        proof = base64.b64decode(match["proof"])
        signature = hmac_of(credential.stored_key, signed)
        if len(proof) != len(signature):
            raise InvalidCredentials("the proof has the wrong length")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        if not hmac.compare_digest(self._mechanism.hash(client_key), credential.stored_key):
            raise InvalidCredentials(f"wrong password for user {self._user!r}")
        self.identity = Identity(self._user)
        return b"v=" + base64.b64encode(hmac_of(credential.server_key, signed))
