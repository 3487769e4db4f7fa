"""`kafka.security`: what clients need to connect to a broker with TLS and SASL."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from ..broker.config.listeners import Listener
from ..broker.security.certificates import CA_FILE, CertificateAuthority
from ..protocol.framing import address
from .lifecycle import BrokerHost

__all__ = ["Library", "Mechanism", "Security"]

Library = Literal["confluent", "kafka-python", "aiokafka", "java"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class Security:
    """The certificates of the broker, and the settings of clients: see docs/security.md."""

    def __init__(self, host: BrokerHost, users: Mapping[str, str]) -> None:
        self._host = host
        self.users = MappingProxyType(dict(users))
        """User -> password."""

    @property
    def ca_file(self) -> Path:
        """The certificate that clients must trust, in PEM. Raises RuntimeError without TLS."""
        return self._folder / CA_FILE

    @property
    def _folder(self) -> Path:
        folder = self._host.security_folder
        if folder is None:
            raise RuntimeError("No started listener uses TLS: use Kafka(security='SSL')")
        return folder

    def client_certificate(self, name: str, *, valid: bool = True) -> Path:
        """Create a certificate for a client with the common name `name`, and return a PEM file with
        its private key and the certificate; unless `valid`, it expired yesterday."""
        until = None if valid else datetime.now(UTC) - timedelta(days=1)
        authority = CertificateAuthority(self._folder)
        # Java rejects a certificate without any alternative name.
        names = ["localhost"]
        return authority.issue(f"client-{name}.pem", names, common_name=name, until=until)

    def expire_certificates(self) -> None:
        """From now on, the broker's certificates have expired for clients that connect."""

        def expire() -> None:
            for each in self._host.broker.tls.values():
                each.expire()

        self._host.call(expire)

    def drop_handshakes(self, times: int = 1) -> None:
        """Disconnect the next clients of each listener with TLS, this many, in the handshake."""

        def drop() -> None:
            for each in self._host.broker.tls.values():
                each.handshakes_to_drop = times

        self._host.call(drop)

    def client_config(
        self,
        user: str | None = None,
        *,
        library: Library,
        mechanism: Mechanism = "PLAIN",
        certificate: Path | None = None,
        listener: str | None = None,
    ) -> dict[str, Any]:
        """Return the settings of a client, bootstrap servers included, for the constructors of
        `confluent` (and librdkafka), `kafka-python` and `aiokafka`, or as the properties of `java`.

        `user`: one of `users`, whose password is included; `certificate`: of `client_certificate`;
        `listener`: the name of a listener, by default the first. aiokafka's `ssl_context` is
        created here. Raises ValueError for an unknown library, user or listener."""
        if library not in get_args(Library):
            known = ", ".join(get_args(Library))
            raise ValueError(f"Unknown library {library!r}: use one of {known}")
        if user is not None and user not in self.users:
            raise ValueError(f"Unknown user {user!r}; the users: {', '.join(self.users) or 'none'}")
        chosen = self._listener(listener)
        settings: dict[str, Any] = {
            "bootstrap.servers": self._bootstrap_servers(chosen),
            "security.protocol": str(chosen.protocol),
        }
        if chosen.protocol.uses_tls:
            settings |= {"ca": str(self.ca_file), "certificate": certificate and str(certificate)}
        if chosen.protocol.uses_sasl and user is not None:
            settings |= {"mechanism": mechanism, "user": user, "password": self.users[user]}
        return _CONVERT[library](settings)

    def _listener(self, name: str | None) -> Listener:
        listeners = self._host.config.listeners
        for each in listeners:
            if name is None or each.name == name.upper():
                return each
        known = ", ".join(each.name for each in listeners)
        raise ValueError(f"Unknown listener {name!r}; the listeners: {known}")

    def _bootstrap_servers(self, listener: Listener) -> str:
        nodes = self._host.call(lambda: self._host.broker.listener_addresses)
        return ",".join(address(*each[listener.name]) for each in nodes.values())


# --- the settings of each library


def _confluent(settings: Mapping[str, Any]) -> dict[str, Any]:
    certificate = settings.get("certificate")
    return _renamed(
        {**settings, "key": certificate},
        {
            "bootstrap.servers": "bootstrap.servers",
            "security.protocol": "security.protocol",
            "ca": "ssl.ca.location",
            "certificate": "ssl.certificate.location",
            "key": "ssl.key.location",
            "mechanism": "sasl.mechanism",
            "user": "sasl.username",
            "password": "sasl.password",
        },
    )


def _kafka_python(settings: Mapping[str, Any]) -> dict[str, Any]:
    certificate = settings.get("certificate")
    return _renamed(
        {**settings, "key": certificate},
        {
            "bootstrap.servers": "bootstrap_servers",
            "security.protocol": "security_protocol",
            "ca": "ssl_cafile",
            "certificate": "ssl_certfile",
            "key": "ssl_keyfile",
            "mechanism": "sasl_mechanism",
            "user": "sasl_plain_username",
            "password": "sasl_plain_password",
        },
    )


def _aiokafka(settings: Mapping[str, Any]) -> dict[str, Any]:
    renamed = _renamed(
        settings,
        {
            "bootstrap.servers": "bootstrap_servers",
            "security.protocol": "security_protocol",
            "mechanism": "sasl_mechanism",
            "user": "sasl_plain_username",
            "password": "sasl_plain_password",
        },
    )
    if "ca" in settings:
        from ssl import create_default_context

        renamed["ssl_context"] = context = create_default_context(cafile=settings["ca"])
        if settings["certificate"]:
            context.load_cert_chain(settings["certificate"])
    return renamed


def _java(settings: Mapping[str, Any]) -> dict[str, Any]:
    renamed = _renamed(
        settings,
        {
            "bootstrap.servers": "bootstrap.servers",
            "security.protocol": "security.protocol",
            "ca": "ssl.truststore.location",
            "certificate": "ssl.keystore.location",
            "mechanism": "sasl.mechanism",
        },
    )
    for store in ("ssl.truststore", "ssl.keystore"):
        if f"{store}.location" in renamed:
            renamed[f"{store}.type"] = "PEM"
    if "user" in settings:
        module = "plain.Plain" if settings["mechanism"] == "PLAIN" else "scram.Scram"
        user, password = (_quoted(settings[each]) for each in ("user", "password"))
        renamed["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module}LoginModule required "
            f"username={user} password={password};"
        )
    return renamed


def _quoted(text: str) -> str:
    """In double quotes, as JAAS reads it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _renamed(settings: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The settings that have a value, under their names in the library."""
    return {new: settings[old] for old, new in names.items() if settings.get(old)}


_CONVERT: Final = {
    "confluent": _confluent,
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
    "java": _java,
}
