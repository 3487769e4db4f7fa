"""Converts properties files for Java clients (`--command-config`) to arguments of kafka-python.

kohort's own clients use the same arguments (client_security.py).
"""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from .java_properties import parse_jaas, parse_properties

__all__ = ["client_arguments", "read_client_arguments"]

# The values of security.protocol, and whether they use SASL.
PROTOCOLS: Final = {"PLAINTEXT": False, "SSL": False, "SASL_PLAINTEXT": True, "SASL_SSL": True}

ARGUMENTS: Final[Mapping[str, str]] = {
    "client.id": "client_id",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.key.password": "ssl_password",
}


def read_client_arguments(path: Path) -> dict[str, Any]:
    """Return the arguments for a properties file. Raises OSError, and ValueError with a message
    that contains no passwords."""
    try:
        return client_arguments(dict(parse_properties(path.read_text(encoding="utf-8"))))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8") from error


def client_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """Convert Java's client properties to arguments. Unknown keys are ignored, as by Java's
    clients. Raises ValueError for security settings that are not supported."""
    arguments: dict[str, Any] = {"sasl_mechanism": "GSSAPI"}  # the default of Kafka's clients
    for key, text in properties.items():
        if key == "security.protocol":
            arguments["security_protocol"] = text.upper()
        elif key in ARGUMENTS:
            arguments[ARGUMENTS[key]] = text
        elif key == "sasl.jaas.config":
            _, options = parse_jaas(text)
            if "username" in options:
                arguments["sasl_plain_username"] = options["username"]
                arguments["sasl_plain_password"] = options.get("password", "")
        elif key == "ssl.endpoint.identification.algorithm":
            arguments["ssl_check_hostname"] = text.strip() != ""
        elif key in ("ssl.truststore.type", "ssl.keystore.type"):
            if text.upper() != "PEM":
                raise ValueError(f"unsupported {key}={text}: expected PEM")
        elif key.startswith(("sasl.", "ssl.")):
            raise ValueError(f"{key} is not supported")
    for store in ("truststore", "keystore"):
        if f"ssl.{store}.location" in properties:
            _check_store(store, properties)
    _check_login(arguments)
    return arguments


def _check_store(store: str, properties: Mapping[str, str]) -> None:
    if f"ssl.{store}.type" not in properties:
        # Java's default is JKS, which only Java can read.
        raise ValueError(f"ssl.{store}.location needs ssl.{store}.type=PEM")
    path = properties[f"ssl.{store}.location"]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if store == "truststore":
            context.load_verify_locations(path)
        else:
            # Without a password, OpenSSL would prompt for one if the key is encrypted.
            context.load_cert_chain(path, password=properties.get("ssl.key.password", ""))
    except OSError as error:  # kafka-python would retry until a timeout
        reason = getattr(error, "reason", None) or error.strerror
        raise ValueError(f"cannot load ssl.{store}.location={path}: {reason}") from error


def _check_login(arguments: Mapping[str, Any]) -> None:
    """Raise ValueError for settings with which kafka-python would retry until a timeout."""
    protocol = arguments.get("security_protocol", "PLAINTEXT")
    if protocol not in PROTOCOLS:
        raise ValueError(f"invalid security.protocol={protocol}: use one of {', '.join(PROTOCOLS)}")
    needs_password = PROTOCOLS[protocol] and arguments["sasl_mechanism"] != "GSSAPI"
    if needs_password and not arguments.get("sasl_plain_password"):
        raise ValueError(
            f'security.protocol={protocol} needs sasl.jaas.config=MODULE required username="NAME" '
            'password="PASSWORD";'
        )
