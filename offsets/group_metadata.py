"""GroupMetadataValue: what a generation of a classic group was, in Kafka's bytes.

Since v1 a member has its rebalance timeout, since v2 the value says when the group came into its
state, since v3 a member may have an instance id, v4 is flexible. We write v3, as Kafka does.
"""

from struct import Struct
from struct import error as struct_error
from typing import Final

from ..protocol.primitives import INT16, INT32
from .commit_value import FLEXIBLE_SINCE, NO_TIMESTAMP, VERSION_MAX, value_version
from .errors import UnencodableRecord
from .fields import FieldReader, string_bytes
from .records import GroupMetadata, MemberMetadata

NO_TIMEOUT_MS: Final = -1

_WHAT: Final = "GroupMetadataValue"
_TIMESTAMP_AND_COUNT: Final = Struct(">qi")
_TIMEOUTS: Final = Struct(">ii")


def encode_group_value(group: GroupMetadata) -> bytes:
    """The bytes of a generation, v3. Raises UnencodableRecord."""
    try:
        parts = [
            INT16.pack(3),
            string_bytes("the protocol type of a group", group.protocol_type),
            INT32.pack(group.generation),
            string_bytes("the protocol of a group", group.protocol_name),
            string_bytes("the leader of a group", group.leader),
            _TIMESTAMP_AND_COUNT.pack(group.state_timestamp_ms, len(group.members)),
        ]
        clients: dict[tuple[str, str], bytes] = {}  # many members run in one client, at one host
        for member in group.members:
            client = member.client_id, member.client_host
            if client not in clients:
                clients[client] = string_bytes("a client id", member.client_id) + string_bytes(
                    "a client host", member.client_host
                )
            parts += (
                string_bytes("a member id", member.member_id),
                string_bytes("a group instance id", member.group_instance_id),
                clients[client],
                _TIMEOUTS.pack(member.rebalance_timeout_ms, member.session_timeout_ms),
                INT32.pack(len(member.subscription)),
                member.subscription,
                INT32.pack(len(member.assignment)),
                member.assignment,
            )
    except struct_error as error:
        raise UnencodableRecord(f"a number of a group is out of range: {error}") from error
    return b"".join(parts)


def decode_group_value(value: bytes) -> GroupMetadata:
    """What the bytes of a generation say, in any version. Raises UndecodableRecord."""
    version = value_version(_WHAT, value, VERSION_MAX)
    fields = FieldReader(f"{_WHAT} v{version}", value, 2, flexible=version >= FLEXIBLE_SINCE)
    protocol_type = fields.string()
    generation = fields.int32()
    protocol_name = fields.nullable_string()
    leader = fields.nullable_string()
    state_timestamp_ms = fields.int64() if version >= 2 else NO_TIMESTAMP
    members = tuple(_read_member(fields, version) for _ in range(fields.count()))
    fields.skip_tags()
    return GroupMetadata(
        protocol_type, generation, protocol_name, leader, state_timestamp_ms, members
    )


def _read_member(fields: FieldReader, version: int) -> MemberMetadata:
    # Positional arguments are evaluated from left to right: this is the order on disk.
    member = MemberMetadata(
        fields.string(),
        fields.nullable_string() if version >= 3 else None,
        fields.string(),
        fields.string(),
        fields.int32() if version >= 1 else NO_TIMEOUT_MS,
        fields.int32(),
        fields.data(),
        fields.data(),
    )
    fields.skip_tags()
    return member
