"""The registry's records as JSON in its log."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.topics.acls import Acl, AclOperation, AclPermission, AclResourceType, PatternType
from kohort.topics.registry_log import (
    AclDeletedRecord,
    AclRecord,
    BrokerConfigRecord,
    ClientMetricsRecord,
    ClientQuotaRecord,
    GroupConfigRecord,
    LeaderRecord,
    ProducerIdsRecord,
    RegistryRecord,
    ScramCredentialRecord,
    TopicDeletedRecord,
    TopicPurgedRecord,
    TopicRecord,
    UndecodableRegistryRecord,
    decode,
    encode,
)
from kohort.topics.scram import ScramCredential, ScramMechanism

TEXTS = st.text(max_size=20)
ENTITIES = st.dictionaries(TEXTS, TEXTS | st.none(), max_size=2).map(
    lambda names: tuple(sorted(names.items()))
)
ACLS = st.builds(
    Acl,
    st.sampled_from(AclResourceType),
    TEXTS,
    st.sampled_from(PatternType),
    TEXTS,
    TEXTS,
    st.sampled_from(AclOperation),
    st.sampled_from(AclPermission),
)
CONFIGS = st.dictionaries(TEXTS, TEXTS, max_size=3)


@given(
    st.one_of(
        st.builds(TopicRecord, TEXTS, st.uuids(), st.integers(0, 10**5), CONFIGS),
        st.builds(TopicDeletedRecord, TEXTS),
        st.builds(TopicPurgedRecord, TEXTS),
        st.builds(LeaderRecord, TEXTS, st.uuids(), st.integers(0, 9), st.integers(), st.integers()),
        st.builds(BrokerConfigRecord, TEXTS, CONFIGS),
        st.builds(GroupConfigRecord, TEXTS, CONFIGS),
        st.builds(ClientMetricsRecord, TEXTS, CONFIGS),
        st.builds(ClientQuotaRecord, ENTITIES, st.dictionaries(TEXTS, st.floats(0), max_size=3)),
        st.builds(AclRecord, ACLS),
        st.builds(AclDeletedRecord, ACLS),
        st.builds(ProducerIdsRecord, st.integers(0, 2**62)),
        st.builds(
            ScramCredentialRecord,
            TEXTS,
            st.sampled_from(ScramMechanism),
            st.none()
            | st.builds(ScramCredential, st.binary(), st.integers(0), st.binary(), st.binary()),
        ),
    )
)
def test_record_round_trip(record: RegistryRecord) -> None:
    assert decode(*encode(record)) == record


def test_records_are_readable_json() -> None:
    record = TopicRecord("orders", uuid.UUID(int=1), 3, {"retention.ms": "5"})
    assert encode(record) == (
        b'{"topic":"orders"}',
        (
            b'{"configs":{"retention.ms":"5"},"id":"00000000-0000-0000-0000-000000000001",'
            b'"partitions":3}'
        ),
    )
    assert encode(TopicDeletedRecord("orders")) == (b'{"topic":"orders"}', None)
    mechanism = ScramMechanism.SHA_512
    credential = ScramCredential(b"salt", 4096, b"stored", b"server")
    assert encode(ScramCredentialRecord("a:b", mechanism, credential)) == (
        b'{"scram":"SHA_512:a:b"}',
        (b'{"iterations":4096,"salt":"c2FsdA==","server_key":"c2VydmVy","stored_key":"c3RvcmVk"}'),
    )
    assert encode(TopicPurgedRecord("orders")) == (b'{"topic":"orders"}', b'{"gone":true}')


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"orders", b"{}"),
        (b"{}", b"{}"),
        (b"[1]", b"{}"),
        (b'{"topic":"orders"}', b"{}"),
        (b'{"topic":"orders"}', b'{"id":"1","partitions":1,"configs":{}}'),
        (b'{"planet":"mars"}', b"{}"),
        (b'{"broker":""}', None),
        (b'{"scram":"MD5:alice"}', None),
        (
            b'{"scram":"SHA_256:alice"}',
            b'{"salt":"","iterations":1,"stored_key":"","server_key":7}',
        ),
    ],
)
def test_an_undecodable_record_is_reported_with_its_key(
    key: bytes | None, value: bytes | None
) -> None:
    with pytest.raises(UndecodableRegistryRecord, match="registry record"):
        decode(key, value)
