"""ApiVersions."""

from kio.schema.index import api_key_map

from ...protocol.apis import APIS
from ..scenario import scenario
from ..script import Script

SERVED = frozenset(api.schema for api in APIS)


@scenario(
    "ApiVersions: the APIs, their versions, and the features of groups and transactions",
    excuse="the APIs and features of Kafka that kohort does not have are not listed, and the epoch "
    "of the features is not a metadata offset",
    kohort_lacks=tuple(name for name in api_key_map.values() if name not in SERVED),
    hides=("finalized_features_epoch",),
)
async def apis_and_features_are_listed(s: Script) -> None:
    for version in range(5):
        values = {"client_software_name": "test", "client_software_version": "1"}
        await s.send("ApiVersions", version, values)
