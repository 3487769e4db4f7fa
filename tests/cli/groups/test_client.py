"""A client's properties in Java's keys."""

from pathlib import Path

import pytest
from kohort.cli.groups.client import arguments, translated
from kohort.cli.groups.errors import CommandError


def test_javas_keys_become_kafka_pythons_arguments(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# how to reach it\n"
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        '    username="ann" password="a=b;c";\n'
        "ssl.truststore.type=PEM\n"
        "ssl.truststore.location=/etc/ca.pem\n"
        "ssl.endpoint.identification.algorithm=\n"
        "max.poll.records=5\n"
    )
    assert arguments(file) == {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ann",
        "sasl_plain_password": "a=b;c",
        "ssl_cafile": "/etc/ca.pem",
        "ssl_check_hostname": False,
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ssl.truststore.type": "PKCS12"}, "ssl.truststore.type=PKCS12 cannot be read"),
        ({"ssl.truststore.location": "ca.jks"}, "ssl.truststore.location needs"),
        ({"sasl.login.class": "com.example.Login"}, "sasl.login.class is not supported"),
    ],
)
def test_security_that_cannot_be_obeyed_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(CommandError) as caught:
        translated(given)
    assert str(caught.value).startswith(said)


def test_a_file_that_is_not_there_is_told_in_javas_words() -> None:
    with pytest.raises(CommandError) as caught:
        arguments(Path("no.properties"))
    assert str(caught.value) == "java.nio.file.NoSuchFileException: no.properties"
