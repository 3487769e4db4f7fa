"""The API table against kio's schemas."""

import subprocess
import sys
from importlib import import_module

import pytest
from kio_messages import EVERY_VERSION, version_id
from kohort.protocol.apis import APIS, BY_KEY, Api
from kohort.protocol.errors import UnknownApi, UnsupportedVersion
from kohort.protocol.messages import request_module, response_module


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=version_id)
def test_every_version_has_schemas_of_this_key_and_flexibility(api: Api, version: int) -> None:
    request = getattr(request_module(api.key, version), f"{api.name}Request")
    response = getattr(response_module(api.key, version), f"{api.name}Response")
    assert request.__api_key__ == response.__api_key__ == api.key
    assert request.__flexible__ == response.__flexible__ == (version >= api.flexible_from)
    assert request.__header_schema__.__version__ == (2 if version >= api.flexible_from else 1)


def test_below_the_served_versions_kio_has_none_that_kafka_serves() -> None:
    # InitProducerId v6 is in kio, but in Kafka 4.3 only with unstable versions switched on.
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


def test_the_table_is_read_without_kio() -> None:
    code = "import sys, kohort.protocol.apis; sys.exit('kio' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_schemas_of_what_is_not_served_are_refused() -> None:
    with pytest.raises(UnknownApi, match="key 999"):
        request_module(999, 0)
    with pytest.raises(UnsupportedVersion, match="OffsetCommit is not served in version 1"):
        response_module(8, 1)
