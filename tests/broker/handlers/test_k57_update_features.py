"""UpdateFeatures: requests that kohort rejects and Kafka accepts."""

from kohort.broker.handlers.k18_api_versions import FEATURES
from kohort.protocol.errors import ErrorCode as E
from support.broker import BrokerHarness


def test_features_are_not_downgraded() -> None:
    broker = BrokerHarness()
    for name, newest in FEATURES.items():
        for downgrade in (2, 3):
            update = {"feature": name, "max_version_level": 0, "upgrade_type": downgrade}
            response = broker.call("UpdateFeatures", feature_updates=(update,))
            assert response.error_code is E.invalid_update_version
            assert response.error_message.endswith(
                f"Invalid update version 0 for feature {name}. "
                f"kohort cannot downgrade it below version {newest}."
            )
    versions = broker.call(
        "ApiVersions", 4, client_software_name="test", client_software_version="1"
    )
    finalized = {each.name: each.max_version_level for each in versions.finalized_features}
    assert finalized == FEATURES


def test_one_downgrade_rejects_all_updates() -> None:
    broker = BrokerHarness()
    kept = {"feature": "transaction.version", "max_version_level": 2, "upgrade_type": 1}
    changed = {"feature": "group.version", "max_version_level": 0, "upgrade_type": 2}
    response = broker.call("UpdateFeatures", 1, feature_updates=(kept, changed))
    assert response.error_code is E.invalid_update_version
    assert response.results == ()
    changed["allow_downgrade"] = True
    response = broker.call("UpdateFeatures", 0, feature_updates=(kept, changed))
    assert "cannot downgrade" in response.error_message
