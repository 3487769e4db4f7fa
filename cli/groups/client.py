"""--command-config: a client's properties in Java's keys, to kafka-python's arguments.

Only what says how to reach a cluster matters here. A key about security that cannot be obeyed is
refused; every other one is passed over, as Java's clients pass over keys that they do not know.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ...broker.config.sources import ConfigError, from_file
from .errors import CommandError

ARGUMENTS: Final[Mapping[str, str]] = {
    "client.id": "client_id",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.key.password": "ssl_password",
}
JAAS_OPTION: Final = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')


def arguments(path: Path) -> dict[str, Any]:
    """Arguments for KafkaAdminClient; raises CommandError."""
    if not path.exists():
        raise CommandError(f"java.nio.file.NoSuchFileException: {path}")
    try:
        given = {key: text for key, text, _ in from_file(path)}
    except ConfigError as error:
        raise CommandError(str(error)) from error
    return translated(given)


def translated(given: Mapping[str, str]) -> dict[str, Any]:
    """Arguments for KafkaAdminClient from properties; raises CommandError."""
    found: dict[str, Any] = {}
    for key, text in given.items():
        if key in ARGUMENTS:
            found[ARGUMENTS[key]] = text
        elif key == "sasl.jaas.config":
            options = dict(JAAS_OPTION.findall(text))
            if "username" in options:
                found["sasl_plain_username"] = options["username"]
                found["sasl_plain_password"] = options.get("password", "")
        elif key == "ssl.endpoint.identification.algorithm":
            found["ssl_check_hostname"] = text.strip() != ""
        elif key in ("ssl.truststore.type", "ssl.keystore.type"):
            if text.upper() != "PEM":
                raise CommandError(f"{key}={text} cannot be read: give certificates as PEM files")
        elif key.startswith(("sasl.", "ssl.")):
            raise CommandError(f"{key} is not supported")
    for store in ("truststore", "keystore"):
        if f"ssl.{store}.location" in given and f"ssl.{store}.type" not in given:
            # Java's default is JKS, which only Java reads.
            raise CommandError(f"ssl.{store}.location needs ssl.{store}.type=PEM")
    return found
