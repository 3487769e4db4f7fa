"""The API table compared with kio's schemas, and the tables of older releases with brokers."""

import subprocess
import sys
from importlib import import_module

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS
from kohort.protocol.apis import APIS, BY_KEY, NEWEST, PROFILES
from kohort.protocol.errors import ProtocolError, UnsupportedVersion
from kohort.protocol.messages import request_module, response_module
from support.kio_messages import EVERY_VERSION


def test_schemas_of_every_version_have_the_key_and_flexibility() -> None:
    for api, version in EVERY_VERSION:
        request = getattr(request_module(api.key, version), f"{api.name}Request")
        response = getattr(response_module(api.key, version), f"{api.name}Response")
        assert request.__api_key__ == response.__api_key__ == api.key
        assert request.__flexible__ == response.__flexible__ == (version >= api.flexible_from)
        assert request.__header_schema__.__version__ == (2 if version >= api.flexible_from else 1)


def test_every_version_that_kafka_and_kio_have_is_served() -> None:
    # kio has InitProducerId v6, but in Kafka 4.3 this version is unstable and disabled by default.
    for api in APIS:
        index = import_module("kio.schema.index").schema_name_map[api.schema]
        assert api.min_version == min(index)
        assert api.max_version == max(index) or api.name == "InitProducerId"


def test_keys_are_unique_and_ascending() -> None:
    keys = [api.key for api in APIS]
    assert keys == sorted(set(keys))
    assert BY_KEY[8].name == "OffsetCommit"


def test_produce_is_listed_from_version_0_and_served_from_3() -> None:
    listed = {api.name: api.advertised_min_version for api in APIS}
    assert listed.pop("Produce") == 0
    assert not BY_KEY[0].serves(2)
    assert listed == {api.name: api.min_version for api in APIS if api.name != "Produce"}


def test_handlers_are_named_by_key_and_name() -> None:
    assert BY_KEY[8].handler == "k08_offset_commit"
    assert BY_KEY[44].handler == "k44_incremental_alter_configs"


def test_the_table_is_imported_without_kio() -> None:
    code = "import sys, kohort.protocol.apis; sys.exit('kio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_schemas_of_versions_that_are_not_served_are_errors() -> None:
    with pytest.raises(ProtocolError, match="API key 999 is not served"):
        request_module(999, 0)
    with pytest.raises(UnsupportedVersion, match="OffsetCommit is not served in version 1"):
        response_module(8, 1)


RELEASES = {"kafka-2.8": (2, 8), "kafka-3.9": (3, 9), NEWEST: (4, 3)}


def test_every_profile_is_tested() -> None:
    assert PROFILES.keys() == RELEASES.keys()
    assert PROFILES[NEWEST] == BY_KEY


@pytest.mark.parametrize("name", PROFILES)
def test_profile_has_the_versions_that_brokers_of_the_release_advertise(name: str) -> None:
    """kafka-python recorded these versions."""
    advertised = BROKER_API_VERSIONS[RELEASES[name]]
    expected = {
        api.key: min(api.max_version, advertised[api.key][1])
        for api in APIS
        if api.key in advertised
    }
    listed = [api for api in PROFILES[name].values() if api.is_listed]
    assert {api.key: api.max_version for api in listed} == expected


@pytest.mark.parametrize("name", PROFILES)
def test_profile_serves_a_version_of_each_of_its_apis(name: str) -> None:
    assert all(api.serves(api.min_version) for api in PROFILES[name].values())
