"""The client's part of SASL, for tests."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def plain_token(user: str, password: str, authorization_id: str = "") -> bytes:
    return f"{authorization_id}\0{user}\0{password}".encode()


class ScramClient:
    """`user` is escaped as in messages: `,` is `=2C`."""

    def __init__(
        self,
        user: str,
        password: str,
        mechanism: str = "SCRAM-SHA-256",
        *,
        extensions: str = "",
        authorization_id: str = "",
    ) -> None:
        self._password = password.encode()
        self._hash = mechanism.removeprefix("SCRAM-").replace("-", "").lower()  # such as sha256
        self._header = f"n,{f'a={authorization_id}' if authorization_id else ''},"
        self._bare = f"n={user},r=fyko+d2lbbFgONRv9qkxdawL{extensions}"
        self.signature = b""

    def first(self) -> bytes:
        return (self._header + self._bare).encode()

    def final(self, server_first: bytes, **changed: str) -> bytes:
        """`changed`: other values for `c` and `r`, and for `ext`, the text after them."""
        values = dict(each.split("=", 1) for each in server_first.decode().split(","))
        salt, iterations = base64.b64decode(values["s"]), int(values["i"])
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        channel = changed.get("c", base64.b64encode(self._header.encode()).decode())
        bare = f"c={channel},r={changed.get('r', values['r'])}{changed.get('ext', '')}"
        signed = f"{self._bare},{server_first.decode()},{bare}".encode()
        mask = self._hmac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, mask, strict=True))
        signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        self.signature = b"v=" + base64.b64encode(signature)
        return f"{bare},p={base64.b64encode(proof).decode()}".encode()

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)


def upsertion(user: str, password: str, mechanism: int, iterations: int = 4096) -> dict[str, Any]:
    """What an admin client sends in AlterUserScramCredentials."""
    name, salt = {1: "sha256", 2: "sha512"}[mechanism], b"salt of " + user.encode()
    return {
        "name": user,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": salt,
        "salted_password": hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations),
    }


def unsecured_token(
    claims: Mapping[str, Any], header: Mapping[str, Any] | None = None, signature: str = ""
) -> str:
    head = {"alg": "none"} if header is None else header
    return f"{_base64_json(head)}.{_base64_json(claims)}.{signature}"


def _base64_json(content: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def bearer(token: str, authorization_id: str = "", extensions: str = "") -> bytes:
    user = f"a={authorization_id}" if authorization_id else ""
    return f"n,{user},\x01auth=Bearer {token}{extensions}\x01\x01".encode()
