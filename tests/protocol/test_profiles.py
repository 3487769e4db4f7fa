"""What older Kafkas served of our APIs, beside what such brokers said, which kafka-python keeps."""

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS
from kohort.protocol.apis import APIS, BY_KEY
from kohort.protocol.profiles import NEWEST, PROFILES

RELEASES = {"kafka-2.8": (2, 8), "kafka-3.9": (3, 9), NEWEST: (4, 3)}


def test_every_profile_is_checked() -> None:
    assert PROFILES.keys() == RELEASES.keys()
    assert PROFILES[NEWEST] == BY_KEY


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_serves_what_that_release_told_as_far_as_kohort_has_it(name: str) -> None:
    told = BROKER_API_VERSIONS[RELEASES[name]]
    expected = {api.key: min(api.max_version, told[api.key][1]) for api in APIS if api.key in told}
    assert {key: api.max_version for key, api in PROFILES[name].items()} == expected


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_has_a_version_of_each_of_its_apis(name: str) -> None:
    assert all(api.serves(api.min_version) for api in PROFILES[name].values())
