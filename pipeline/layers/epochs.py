"""Converts the records of consumer groups (KIP-848; types 3, 4, 5, 8 and 16) to rows like those of
classic groups. Works without Spark.

The coordinator writes the records of one request together, so a row is the state of the group after
all records with the same timestamp: its epoch (as `generation`), its members, and the partitions
that each member owns. A group epoch usually has several rows, because members revoke and receive
partitions one by one; diagnosis/history_index.py treats them as one generation.
"""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from ..columns import GROUP, OF_GROUP, columns
from ..diagnosis.consumer_group import decode_record
from ..diagnosis.group_history import CONSUMER_PROTOCOL, unresolved

Row = dict[str, Any]

EPOCHS: Final = pa.schema(
    [
        *columns(f"{OF_GROUP}, offsets_partition int!, log_offset long!, append_ts time"),
        *GROUP,
        *columns("metadata_hash long, tombstone bool!"),
    ]
)

SESSION_TIMEOUT_MS: Final = 45_000
"""Kafka's default of group.consumer.session.timeout.ms, which is not in the log."""

# A row contains all members. In a large group, a row combines the records of a longer span, so that
# rows contain at most 100 members per second of the log.
SMALL_GROUP: Final = 20
PER_MEMBER: Final = timedelta(milliseconds=10)


def epochs(records: pa.Table, names: Mapping[str, str]) -> pa.Table:
    """Return rows of schema EPOCHS for the new records of one group.

    `records`: cluster, group, key, value, log_offset; new records also have offsets_partition and
    append_ts. Of the older records, in which these are null, `records` contains only the newest of
    each key. `names`: topic names by id; an id without a name is shown as `id:<topic id>`.
    """
    rows = sorted(records.to_pylist(), key=lambda row: row["log_offset"])
    group = _Group(names)
    for row in rows:
        if row["offsets_partition"] is None:
            group.apply(row["key"], row["value"])
    found = []
    last = group.content()
    for run in _runs([row for row in rows if row["offsets_partition"] is not None], group):
        content = group.content()
        if content != last:
            found.append(_row(run, content))
        last = content
    return pa.Table.from_pylist(found, schema=EPOCHS)


def _runs(rows: list[Row], group: "_Group") -> Iterator[list[Row]]:
    """Yield the records of each row (see PER_MEMBER) after they have been applied to `group`."""
    run: list[Row] = []
    for row in rows:
        if run and not _is_together(run[0], row, len(group.members)):
            yield run
            run = []
        group.apply(row["key"], row["value"])
        run.append(row)
    if run:
        yield run


def _is_together(first: Row, row: Row, members: int) -> bool:
    begun, at = first["append_ts"], row["append_ts"]
    if begun is None or at is None or members <= SMALL_GROUP:
        return bool(begun == at)
    return bool(at - begun <= members * PER_MEMBER)


def _row(run: list[Row], content: Row | None) -> Row:
    first, last = run[0], run[-1]
    place = {name: last[name] for name in ("cluster", "group", "offsets_partition", "log_offset")}
    begun: datetime | None = first["append_ts"]
    if content is None:
        return {**place, "append_ts": last["append_ts"], "tombstone": True}
    return {
        **place,
        "append_ts": last["append_ts"],
        "state_ts": begun,
        "protocol_type": "consumer",
        "protocol": CONSUMER_PROTOCOL,
        "tombstone": False,
        **content,
    }


class _Group:
    """The state of a group after some of its records."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.members: dict[str, Row] = {}
        self._assignments: dict[str, Row] = {}
        self._topics_of_regex: dict[str, list[str]] = {}
        self._group: Row | None = None
        self._names: ChainMap[str, str] = ChainMap({}, dict(names))

    def apply(self, key: bytes, value: bytes | None) -> None:
        record = decode_record(key, value)
        if record is None:
            return
        found = None if record.value is None else dict(record.value)
        member = record.key.get("memberId", "")
        match record.kind:
            case "ConsumerGroupMetadata":
                self._group = found if found is None or found else self._group
            case "ConsumerGroupPartitionMetadata":  # before Kafka 4.1
                for topic in (found or {}).get("topics", ()):
                    self._names[topic["topicId"]] = topic["topicName"]
            case "ConsumerGroupMemberMetadata":
                _set(self.members, member, found)
            case "ConsumerGroupCurrentMemberAssignment":
                _set(self._assignments, member, found)
            case "ConsumerGroupRegularExpression":
                topics = None if found is None else found.get("topics", [])
                _set(self._topics_of_regex, record.key["regularExpression"], topics)

    def content(self) -> Row | None:
        """Return the columns that do not depend on the log position, or None if there is no
        group."""
        if self._group is None:
            return None
        return {
            "generation": self._group["epoch"],
            "metadata_hash": self._group.get("metadataHash"),
            "members": [self._member(id_, self.members[id_]) for id_ in sorted(self.members)],
        }

    def _member(self, member_id: str, metadata: Row) -> Row:
        assignment = self._assignments.get(member_id, {})
        assigned = self._partitions(assignment.get("assignedPartitions", ()))
        revoking = self._partitions(assignment.get("partitionsPendingRevocation", ()))
        regex = metadata.get("subscribedTopicRegex") or None
        topics = {*metadata.get("subscribedTopicNames", ())}
        topics.update(self._topics_of_regex.get(regex, ()) if regex is not None else ())
        classic = metadata.get("classicMemberMetadata") or {}
        return {
            "member_id": member_id,
            "instance_id": metadata.get("instanceId"),
            "client_id": metadata.get("clientId", ""),
            "client_host": metadata.get("clientHost", ""),
            "rebalance_timeout_ms": metadata.get("rebalanceTimeoutMs", -1),
            "session_timeout_ms": classic.get("sessionTimeoutMs", SESSION_TIMEOUT_MS),
            "topics": sorted(topics),
            "owned": assigned + revoking,
            "rack": metadata.get("rackId"),
            "regex": regex,
            "assigned": assigned,
        }

    def _partitions(self, topics: Any) -> list[Row]:
        return sorted(
            (
                {"topic": self._name(each["topicId"]), "partition": partition}
                for each in topics
                for partition in each["partitions"]
            ),
            key=lambda tp: (tp["topic"], tp["partition"]),
        )

    def _name(self, topic_id: str) -> str:
        return self._names.get(topic_id) or unresolved(topic_id)


def _set(values: dict[str, Any], key: str, value: Any) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value
