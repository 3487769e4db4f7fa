"""`kafka.security`: certificates, client settings for TLS and SASL, and client quotas."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from ..broker.config.listeners import Listener
from ..broker.config.users import parse_users
from ..broker.handlers.k49_alter_client_quotas import changed_quotas, check_entity
from ..broker.security.certificates import CA_FILE, CertificateAuthority
from ..broker.security.quotas import CLIENT_KEYS, IP_KEYS, entity_of
from ..broker.security.tls import ServerTls
from ..java_properties import quoted
from ..log.tasks import run_synchronously
from ..protocol.errors import ApiError
from ..protocol.framing import address
from ..topics.registry_log import ClientQuotaRecord
from .lifecycle import BrokerHost
from .oauth_tokens import oauth_settings
from .presets import check_known

if TYPE_CHECKING:
    from ssl import SSLContext

__all__ = ["Library", "Mechanism", "Security"]

_NO_TLS: Final = "No started listener uses TLS: use Kafka(security='SSL')"

Library = Literal["confluent", "kafka-python", "aiokafka", "java"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


class Security:
    """`kafka.security`: the broker's certificates, and the settings and quotas of clients. See
    docs/security.md."""

    def __init__(self, host: BrokerHost) -> None:
        self._host = host
        self.users = MappingProxyType(parse_users(host.config.str("kohort.users")))
        """The password of each user."""

    @property
    def ca_file(self) -> Path:
        """The certificate that clients must trust, in PEM. Raises RuntimeError if no listener uses
        TLS."""
        return self._folder / CA_FILE

    @property
    def _folder(self) -> Path:
        folder = self._host.security_folder
        if folder is None:
            raise RuntimeError(_NO_TLS)
        return folder

    def client_certificate(self, name: str, *, valid: bool = True) -> Path:
        """Create a client certificate with the common name `name`, and return a PEM file with its
        private key and the certificate. Unless `valid`, the certificate expired yesterday."""
        until = None if valid else datetime.now(UTC) - timedelta(days=1)
        authority = CertificateAuthority(self._folder)
        # Java rejects a certificate without a subject alternative name.
        names = ["localhost"]
        return authority.issue(f"client-{name}.pem", names, common_name=name, until=until)

    def expire_certificates(self) -> None:
        """Present an expired certificate to all clients that connect from now on. Raises
        RuntimeError without TLS."""

        def expire() -> None:
            for each in self._listeners_with_tls():
                each.expire()

        self._host.call(expire)

    def drop_handshakes(self, times: int = 1) -> None:
        """Disconnect the next `times` clients of each TLS listener during the handshake.
        Raises RuntimeError without TLS."""

        def drop() -> None:
            for each in self._listeners_with_tls():
                each.handshakes_to_drop = times

        self._host.call(drop)

    def _listeners_with_tls(self) -> Iterable[ServerTls]:
        """Return the TLS listeners. Raises RuntimeError if there are none. Runs on the broker's
        loop."""
        listeners = self._host.broker.tls.values()
        if not listeners:
            raise RuntimeError(_NO_TLS)
        return listeners

    def set_quotas(
        self, entity: Mapping[str, str | None], quotas: Mapping[str, float | None]
    ) -> None:
        """Change client quotas, as `kafka-configs --alter` does: `set_quotas({"client-id":
        "till-1"}, {"producer_byte_rate": 1024})`. A value of None removes a quota. The entity types
        are `user`, `client-id` and `ip`; a name of None is the default for entities without quotas
        of their own. Raises ValueError if Kafka would reject the change."""

        def change() -> None:
            node = self._host.broker.node
            try:
                run_synchronously(check_entity(entity, node.security.quotas.lookups))
                changed = changed_quotas(entity, self._stored_quotas(entity), quotas)
            except ApiError as rejection:
                known = ", ".join((*CLIENT_KEYS, *IP_KEYS))
                raise ValueError(
                    f"Cannot set quotas {dict(quotas)} for {dict(entity)}: {rejection.message} "
                    f"(entity types: user, client-id, ip; quotas: {known})"
                ) from None
            node.topics.change(ClientQuotaRecord(entity_of(entity), changed))

        self._host.change_topics(change)

    def quotas(self, entity: Mapping[str, str | None]) -> dict[str, float]:
        """Return the quotas of exactly this entity, including quotas that clients have set."""
        return self._host.call(lambda: dict(self._stored_quotas(entity)))

    def _stored_quotas(self, entity: Mapping[str, str | None]) -> Mapping[str, float]:
        return self._host.broker.node.topics.security.client_quotas.get(entity_of(entity), {})

    def client_config(
        self,
        user: str | None = None,
        *,
        library: Library,
        mechanism: Mechanism = "PLAIN",
        certificate: Path | None = None,
        listener: str | None = None,
    ) -> dict[str, Any]:
        """Return the settings of a client, including its bootstrap servers: arguments for
        `confluent` (or librdkafka), `kafka-python` and `aiokafka`, or properties for `java`.

        `user` is one of `users`, and the settings include its password. With OAUTHBEARER, it is a
        name for which the client creates unsecured tokens. `certificate` is a file from
        `client_certificate`, and `listener` the name of a listener (default: the first). For
        aiokafka, the settings include an `ssl_context`. Raises ValueError for an unknown library,
        mechanism, user or listener, and for a user name with which the library cannot create a
        token."""
        check_known("library", library, get_args(Library))
        check_known("mechanism", mechanism, get_args(Mechanism))
        has_token = mechanism == "OAUTHBEARER"
        if not has_token and user is not None and user not in self.users:
            users = ", ".join(self.users) or "none"
            raise ValueError(f"Unknown user {user!r}; known users: {users}")
        chosen = self._listener(listener)
        settings: dict[str, Any] = {
            "bootstrap.servers": self._bootstrap_servers(chosen),
            "security.protocol": str(chosen.protocol),
        }
        if chosen.protocol.uses_tls:
            pem = certificate and str(certificate)  # both the key and the certificate
            settings |= {"ca": str(self.ca_file), "certificate": pem, "key": pem}
        if not chosen.protocol.uses_sasl or user is None:
            return _convert(settings, library)
        settings["mechanism"] = mechanism
        if has_token:
            return {**_convert(settings, library), **oauth_settings(library, user)}
        return _convert(settings | {"user": user, "password": self.users[user]}, library)

    def _listener(self, name: str | None) -> Listener:
        listeners = self._host.config.listeners
        for each in listeners:
            if name is None or each.name == name.upper():
                return each
        known = ", ".join(each.name for each in listeners)
        raise ValueError(f"Unknown listener {name!r}; use one of {known}")

    def _bootstrap_servers(self, listener: Listener) -> str:
        nodes = self._host.call(lambda: self._host.broker.listener_addresses)
        return ",".join(address(*each[listener.name]) for each in nodes.values())


# --- the settings of each library

_PYTHON: Final = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "mechanism": "sasl_mechanism",
    "user": "sasl_plain_username",
    "password": "sasl_plain_password",
}
_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "confluent": {
        "bootstrap.servers": "bootstrap.servers",
        "security.protocol": "security.protocol",
        "ca": "ssl.ca.location",
        "certificate": "ssl.certificate.location",
        "key": "ssl.key.location",
        "mechanism": "sasl.mechanism",
        "user": "sasl.username",
        "password": "sasl.password",
    },
    "kafka-python": {
        **_PYTHON,
        "ca": "ssl_cafile",
        "certificate": "ssl_certfile",
        "key": "ssl_keyfile",
    },
    "aiokafka": _PYTHON,
    "java": {
        "bootstrap.servers": "bootstrap.servers",
        "security.protocol": "security.protocol",
        "ca": "ssl.truststore.location",
        "certificate": "ssl.keystore.location",
        "mechanism": "sasl.mechanism",
    },
}
"""The name of each setting, by library."""


def _convert(settings: Mapping[str, Any], library: Library) -> dict[str, Any]:
    """Return the settings that have a value, with the library's names and in its format."""
    names = _NAMES[library]
    converted = {new: settings[old] for old, new in names.items() if settings.get(old)}
    if library == "aiokafka" and "ca" in settings:
        converted["ssl_context"] = _ssl_context(settings)
    if library == "confluent":
        # librdkafka documents the lower-case form; FastStream, for example, rejects upper case.
        converted["security.protocol"] = converted["security.protocol"].lower()
    if library == "java":
        converted |= _java(settings)
    return converted


def _ssl_context(settings: Mapping[str, Any]) -> "SSLContext":
    from ssl import create_default_context

    context = create_default_context(cafile=settings["ca"])
    if settings["certificate"]:
        context.load_cert_chain(settings["certificate"])
    return context


def _java(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return Java's additional properties: the types of its stores, and the JAAS configuration with
    the credentials."""
    stores = {"ca": "ssl.truststore.type", "certificate": "ssl.keystore.type"}
    properties = {key: "PEM" for store, key in stores.items() if settings.get(store)}
    if "user" in settings:
        module = "plain.Plain" if settings["mechanism"] == "PLAIN" else "scram.Scram"
        user, password = (quoted(settings[each]) for each in ("user", "password"))
        properties["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module}LoginModule required "
            f"username={user} password={password};"
        )
    return properties
