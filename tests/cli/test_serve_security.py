"""`kohort serve` with TLS: certificates of its own authority, or from PEM files."""

import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from support.running_broker import (
    WITHOUT_UVLOOP,
    BrokerProcess,
    kohort,
    start_broker,
)
from support.wire import Client

TLS = ("--port", "0", "--security", "ssl", "--data-dir", "data", "--durability", "os")


def api_versions(served: BrokerProcess, context: ssl.SSLContext) -> Any:
    with Client(served.bootstrap, tls=context) as client:
        return client.call("ApiVersions", 0)["error_code"]


def ca_file(served: BrokerProcess) -> Path:
    match = served.logged(r"Clients must trust (.*) \(")
    assert match
    return Path(match[1])


def trusting(file: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=file)


@pytest.mark.parametrize("command", [("-m", "kohort"), WITHOUT_UVLOOP], ids=["uvloop", "asyncio"])
def test_clients_trust_the_authority_in_the_data_folder(tmp_path: Path, command: Any) -> None:
    folder = tmp_path / "data" / "security"
    with start_broker(tmp_path, *TLS, kohort=command) as served:
        context = trusting(folder / "ca.pem")
        assert api_versions(served, context) == "none"
        assert ca_file(served) == Path("data/security/ca.pem")
        assert served.stop() == 0
    modes = {each.name: each.stat().st_mode & 0o777 for each in (folder, *folder.iterdir())}
    assert modes == dict.fromkeys(modes, 0o600) | {"security": 0o700}
    with start_broker(tmp_path, *TLS, kohort=command) as served:
        assert api_versions(served, context) == "none", "the authority was replaced"


def test_a_broker_in_memory_logs_where_its_authority_is(tmp_path: Path) -> None:
    args = ("--port", "0", "--security", "SSL", "--durability", "none")
    with start_broker(tmp_path, *args) as served:
        file = ca_file(served)
        assert api_versions(served, trusting(file)) == "none"
        assert served.stop() == 0
        assert not file.parent.exists()


def test_a_keystore_in_pem_replaces_the_own_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(
        tmp_path / "broker.pem"
    )
    keystore = ("-o", "ssl.keystore.location=broker.pem", "-o", "ssl.keystore.type=PEM")
    with start_broker(tmp_path, *TLS, *keystore) as served:
        assert api_versions(served, trusting(tmp_path / "ca.pem")) == "none"
        assert "must trust" not in served.errors.read_text()
        assert not (tmp_path / "data" / "security").exists()


def test_the_key_and_the_certificate_can_be_values_of_keys(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued = authority.issue_cert("localhost")
    (certificate,) = issued.cert_chain_pems
    env = {
        "KAFKA_SSL_KEYSTORE_KEY": issued.private_key_pem.bytes().decode(),
        "KAFKA_SSL_KEYSTORE_CERTIFICATE_CHAIN": certificate.bytes().decode(),
    }
    with start_broker(tmp_path, *TLS, env=env) as served:
        assert api_versions(served, trusting(tmp_path / "ca.pem")) == "none"


def test_clients_that_never_complete_a_handshake_do_not_delay_the_end(tmp_path: Path) -> None:
    with start_broker(tmp_path, *TLS) as served:
        clients = [socket.create_connection((served.host, served.port)) for _ in range(20)]
        context = trusting(tmp_path / "data" / "security" / "ca.pem")
        assert api_versions(served, context) == "none"
        assert served.stop() == 0
        for client in clients:
            client.close()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("ssl.keystore.location=/none.pem",), "ssl.keystore.type JKS is not supported: convert"),
        (
            ("ssl.keystore.location=/none.pem", "ssl.keystore.type=PEM"),
            (
                "cannot load the key and the certificate of ssl.keystore.location=/none.pem: "
                "No such file or directory."
            ),
        ),
        (("ssl.keystore.key=x",), "cannot load the key and the certificate of ssl.keystore.cert"),
        (
            ("ssl.principal.mapping.rules=x",),
            "invalid ssl.principal.mapping.rules: invalid rule 'x': expected RULE:PATTERN/",
        ),
        (
            ("ssl.client.auth=required", "ssl.truststore.certificates=x"),
            "cannot load the certificates of ssl.truststore: ",
        ),
    ],
)
def test_a_bad_certificate_is_an_error_in_one_line(
    tmp_path: Path, options: tuple[str, ...], problem: str
) -> None:
    flags = [flag for option in options for flag in ("-o", option)]
    done = kohort("serve", *TLS, *flags, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"kohort serve: {problem}")


def test_an_unknown_protocol_is_an_error(tmp_path: Path) -> None:
    done = kohort("serve", "--security", "TLS", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        (
            "kohort serve: invalid --security TLS: "
            "expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL.\n"
        ),
    )


def test_users_authenticate_with_their_passwords(tmp_path: Path) -> None:
    args = ("--port", "0", "--security", "SASL_SSL", "--durability", "os", "--data-dir", "data")
    users = ("--user", "alice:alice-secret", "--user", "bob:b:o,b")
    with start_broker(tmp_path, *args, *users) as served:
        for name, password, error in (
            ("alice", "alice-secret", "none"),
            ("bob", "b:o,b", "none"),
            ("alice", "b:o,b", "sasl_authentication_failed"),
        ):
            with Client(
                served.bootstrap, tls=trusting(tmp_path / "data/security/ca.pem")
            ) as client:
                client.call("SaslHandshake", 1, mechanism="PLAIN")
                token = f"\0{name}\0{password}".encode()
                response = client.call("SaslAuthenticate", 2, auth_bytes=token)
                assert response["error_code"] == error
        assert "alice-secret" not in served.errors.read_text()


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("--user", "alice"), "invalid --user: expected NAME:PASSWORD."),
        (("--user", "a:b"), "--user needs --security SASL_SSL or SASL_PLAINTEXT."),
        (
            ("--security", "SASL_SSL", "--user", "a:b", "--user", "a:c"),
            "two --user flags have the name a: expected one.",
        ),
    ],
)
def test_a_wrong_user_is_an_error(tmp_path: Path, args: tuple[str, ...], problem: str) -> None:
    done = kohort("serve", *args, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, f"kohort serve: {problem}\n")


@pytest.mark.parametrize(
    ("args", "warning"),
    [
        (("--security", "SASL_SSL"), "no user can authenticate on SASL_SSL, except SCRAM users"),
        (("--super-user", "admin"), r"super.users=User:admin \(from --super-user\) has no effect"),
    ],
)
def test_users_that_cannot_authenticate_are_warned_about(
    tmp_path: Path, args: tuple[str, ...], warning: str
) -> None:
    with start_broker(tmp_path, "--port", "0", "--durability", "none", *args) as served:
        assert served.logged(f"WARN(ING)? {warning}")


def test_only_super_users_may_do_what_no_acl_allows(tmp_path: Path) -> None:
    args = ("--port", "0", "--security", "SASL_PLAINTEXT", "--durability", "none")
    users = ("--user", "admin:a", "--user", "alice:a", "--super-user", "admin")
    errors = []
    with start_broker(tmp_path, *args, *users) as served:
        for name in ("admin", "alice"):
            with Client(served.bootstrap) as client:
                client.call("SaslHandshake", 1, mechanism="PLAIN")
                client.call("SaslAuthenticate", 2, auth_bytes=f"\0{name}\0a".encode())
                topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
                created = client.call("CreateTopics", 7, topics=[topic], timeout=10_000)
                errors.append(created["topics"][0]["error_code"])
    assert errors == ["none", "topic_authorization_failed"]
