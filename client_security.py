"""TLS and SASL for kohort's own clients, with PLAIN and SCRAM (RFC 5802).

The pipeline, `kohort conformance` and `kohort check` read the settings from a client properties
file.
"""

import base64
import hmac
import secrets
import ssl
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from .client_properties import read_client_arguments
from .protocol.errors import ErrorCode
from .topics.scram import ScramMechanism

__all__ = [
    "PLAINTEXT",
    "AuthenticationError",
    "Exchange",
    "Security",
    "plain_exchange",
    "read_security",
]

NONCE_BYTES: Final = 24
# The broker chooses the number of iterations. Kafka's tools allow 16,384; a million take half a
# second.
ITERATIONS_MAX: Final = 1_000_000

Exchange: TypeAlias = Generator[bytes, bytes, None]
"""Yields the client's tokens and receives the broker's. Raises ValueError for an invalid token."""

_SCRAM: Final = {each.sasl_name: each for each in ScramMechanism}


class AuthenticationError(Exception):
    """The broker rejected the client, or sent an invalid token. The message is the reason."""


class Security(NamedTuple):
    """How a client connects. `tls` is None without TLS, and `mechanism` is "" without SASL."""

    tls: ssl.SSLContext | None = None
    mechanism: str = ""
    new_exchange: Callable[[], Exchange] | None = None

    def authentication(self) -> Generator[tuple[str, dict[str, Any]], Any, None]:
        """Yield the API and the fields of each request that authenticates a connection (none
        without SASL), and receive its response. Raises AuthenticationError."""
        if self.new_exchange is None:
            return
        handshake = yield "SaslHandshake", {"mechanism": self.mechanism}
        if handshake.error_code is ErrorCode.unsupported_sasl_mechanism:
            enabled = ", ".join(handshake.mechanisms)
            raise AuthenticationError(f"the broker supports only {enabled}, not {self.mechanism}")
        if handshake.error_code is not ErrorCode.none:
            error = handshake.error_code.name.upper()
            raise AuthenticationError(f"the listener does not accept SASL ({error})")
        exchange = self.new_exchange()
        try:
            token = next(exchange)
            while True:
                response = yield "SaslAuthenticate", {"auth_bytes": token}
                if response.error_code is not ErrorCode.none:
                    error = response.error_code.name.upper()
                    raise AuthenticationError(response.error_message or error)
                token = exchange.send(response.auth_bytes)
        except StopIteration:
            return  # the exchange is complete
        except ValueError as problem:
            raise AuthenticationError(str(problem)) from None


PLAINTEXT: Final = Security()


def read_security(file: str | None) -> Security:
    """Read a client properties file. Without a file, return plain text without authentication.
    Raises ValueError; its message is a sentence that states the reason."""
    if file is None:
        return PLAINTEXT
    try:
        return _security(read_client_arguments(Path(file)))
    except OSError as error:  # also for a certificate file
        reason = error.strerror or error
        raise ValueError(f"cannot read {error.filename or file}: {reason}.") from None
    except ValueError as error:
        raise ValueError(f"invalid client properties in {file}: {error}.") from None


def _security(arguments: Mapping[str, Any]) -> Security:
    protocol = arguments.get("security_protocol", "PLAINTEXT")
    tls = _tls(arguments) if protocol.endswith("SSL") else None
    if not protocol.startswith("SASL"):
        return Security(tls)
    mechanism = arguments["sasl_mechanism"]
    if mechanism != "PLAIN" and mechanism not in _SCRAM:
        known = ", ".join(("PLAIN", *_SCRAM))
        raise ValueError(f"unsupported sasl.mechanism={mechanism}: expected one of {known}")
    user, password = arguments["sasl_plain_username"], arguments["sasl_plain_password"]

    def new_exchange() -> Exchange:
        if mechanism == "PLAIN":
            return plain_exchange(user, password)
        return _scram(_SCRAM[mechanism], user, password, secrets.token_urlsafe(NONCE_BYTES))

    return Security(tls, mechanism, new_exchange)


def _tls(arguments: Mapping[str, Any]) -> ssl.SSLContext:
    truststore, keystore = arguments.get("ssl_cafile"), arguments.get("ssl_certfile")
    context = ssl.create_default_context(cafile=truststore)
    context.check_hostname = arguments.get("ssl_check_hostname", True)
    if keystore is not None:
        context.load_cert_chain(keystore, password=arguments.get("ssl_password"))
    return context


def plain_exchange(user: str, password: str) -> Exchange:
    yield f"\0{user}\0{password}".encode()


def _scram(mechanism: ScramMechanism, user: str, password: str, nonce: str) -> Exchange:
    name = user.replace("=", "=3D").replace(",", "=2C")
    client_first = f"n={name},r={nonce}"
    token = yield f"n,,{client_first}".encode()
    try:
        server_first = token.decode()
        values = dict(each.partition("=")[::2] for each in server_first.split(","))
        salt = base64.b64decode(values["s"], validate=True)
        iterations = int(values["i"])
        is_valid = values["r"].startswith(nonce) and 0 < iterations <= ITERATIONS_MAX
    except (KeyError, ValueError):
        is_valid = False
    if not is_valid:
        raise ValueError("invalid first message from the broker")
    salted = mechanism.salted_password(password, salt, iterations)
    without_proof = f"c=biws,r={values['r']}"
    signed = f"{client_first},{server_first},{without_proof}".encode()
    client_key = mechanism.hmac(salted, b"Client Key")
    signature = mechanism.hmac(mechanism.hash(client_key), signed)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    server_final = yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()
    verifier = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), signed)
    if not hmac.compare_digest(server_final, b"v=" + base64.b64encode(verifier)):
        raise ValueError("invalid signature from the broker")
