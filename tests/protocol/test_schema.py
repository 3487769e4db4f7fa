"""Messages declared in Kafka's notation, and what is generated from them."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from kohort.protocol.decoder import compile_decoder
from kohort.protocol.encoder import compile_body_encoder
from kohort.protocol.schema import FieldSpec, MessageSpec


class Host(NamedTuple):
    name: str
    port: int = 9092


class Registration(NamedTuple):
    broker_id: int
    rack: str | None
    hosts: tuple[Host, ...]
    epoch_ms: int
    leader: Host | None


HOST = (FieldSpec("name", "string", "0+"), FieldSpec("port", "int32", "1+", default=1234))
SPEC = MessageSpec(
    "Registration",
    "0-3",
    (
        FieldSpec("brokerId", "int32", "0+"),
        FieldSpec("rack", "string", "1+", nullable="2+", default=None),
        FieldSpec("hosts", "[]Host", "0+", fields=HOST, message_class=Host),
        FieldSpec("epoch", "int64", "2-3", tagged="3", tag=5, default=-1, attribute="epoch_ms"),
        FieldSpec(
            "leader",
            "Host",
            "3+",
            nullable="3+",
            tagged="3+",
            tag=0,
            default=None,
            fields=HOST,
            message_class=Host,
        ),
    ),
    flexible="3+",
    message_class=Registration,
)
MESSAGE = Registration(7, "r", (Host("a", 1), Host("b", 2)), 11, Host("c", 3))


def round_trip(version: int, message: Any = MESSAGE) -> Any:
    schema = SPEC.schema(version)
    body = compile_body_encoder(schema, ValueError)(message)
    return compile_decoder(schema, ValueError)(body, 0, len(body))


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (0, Registration(7, None, (Host("a", 1234), Host("b", 1234)), -1, None)),
        (1, Registration(7, "r", (Host("a", 1), Host("b", 2)), -1, None)),
        (2, Registration(7, "r", (Host("a", 1), Host("b", 2)), 11, None)),
        (3, MESSAGE),
    ],
)
def test_fields_of_other_versions_have_their_defaults(version: int, expected: Any) -> None:
    assert round_trip(version) == expected


def test_fields_are_nullable_in_their_versions() -> None:
    without_rack = MESSAGE._replace(rack=None)
    assert round_trip(2, without_rack).rack is None
    with pytest.raises(ValueError, match="Registration v1 cannot be encoded: rack is None"):
        round_trip(1, without_rack)


def test_tagged_fields_with_default_values_are_omitted() -> None:
    encode = compile_body_encoder(SPEC.schema(3), ValueError)
    usual = MESSAGE._replace(epoch_ms=-1, leader=None)
    assert encode(usual).endswith(b"\0")
    assert len(encode(usual)) + 10 < len(encode(MESSAGE))
    assert round_trip(3, usual) == usual


def test_dicts_have_the_names_of_the_schema_and_only_the_existing_fields() -> None:
    schema = SPEC.schema(3)
    decode = compile_decoder(schema, ValueError, as_dict=True)
    hosts = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    for message, tagged in (
        (MESSAGE, {"epoch": 11, "leader": {"name": "c", "port": 3}}),
        (MESSAGE._replace(epoch_ms=-1, leader=None), {}),
    ):
        body = compile_body_encoder(schema, ValueError)(message)
        assert decode(body, 0, len(body)) == {"brokerId": 7, "rack": "r", "hosts": hosts, **tagged}


def test_malformed_utf8_is_an_error_if_decoding_is_strict() -> None:
    schema = SPEC.schema(1)
    body = b"\0\0\0\7" + b"\0\1\xff" + bytes(4)
    assert compile_decoder(schema, ValueError)(body, 0, len(body)).rack == "\ufffd"
    with pytest.raises(ValueError, match=r"Registration v1: rack is not UTF-8 \(at byte 6 of 11\)"):
        compile_decoder(schema, ValueError, strict=True)(body, 0, len(body))


def test_types_must_be_known() -> None:
    schema = MessageSpec("Odd", "0", (FieldSpec("x", "int31", "0"),), message_class=Host).schema(0)
    for compile_any in (compile_decoder, compile_body_encoder):
        with pytest.raises(TypeError, match="x has the unknown type int31"):
            compile_any(schema, ValueError)


def test_encoder_names_what_it_cannot_explain() -> None:
    """Each value is valid on its own, but the object changes while it is encoded."""

    class Changing:
        name = property(lambda self: next(self.names))
        names = iter((None, "fine"))

    schema = MessageSpec("Named", "0", (FieldSpec("name", "string", "0"),)).schema(0)
    with pytest.raises(ValueError, match="Named v0 cannot be encoded: 'NoneType' object has no"):
        compile_body_encoder(schema, ValueError)(Changing())
    assert compile_body_encoder(schema, ValueError)(SimpleNamespace(name="n")) == b"\0\1n"
