"""What the coordinator can be told: Kafka's keys with Kafka's defaults, dots made underscores."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Bounds and defaults are those of upstream's GroupCoordinatorConfig."""

    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    # In spite of its name Kafka compares it with the length of a Java string (UTF-16 units).
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 60 * 60_000  # offsets.retention.minutes
    offsets_retention_check_interval_ms: int = 600_000
    # A constant upstream (CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS): a member that has never seen
    # its id cannot send heartbeats, so its first round is watched by this instead of its session.
    new_member_join_timeout_ms: int = 300_000
