"""Consumer groups (KIP-848) as rows like those of classic groups, without Spark."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from kohort.pipeline.layers.epochs import EPOCHS, SMALL_GROUP, epochs
from offset_logs import RECORDS, Stored

NAMES = {"ozzQbK_eQjCij_SszOu_Aw": "orders"}


def table(records: list[Stored], *, known: int = 0) -> pa.Table:
    """Records of one group; the first ones are from an earlier batch."""
    rows = [
        {
            "cluster": "c",
            "group": record.group,
            "key": record.key,
            "value": record.value,
            "log_offset": number,
            "offsets_partition": 0 if number >= known else None,
            "append_ts": datetime.fromtimestamp(record.at_ms / 1000, UTC)
            if number >= known
            else None,
        }
        for number, record in enumerate(records)
        if number >= known or record.value is not None
    ]
    fields = [EPOCHS.field(name) for name in ("cluster", "group", "offsets_partition")]
    fields += [EPOCHS.field("log_offset"), EPOCHS.field("append_ts")]
    schema = pa.schema([field.with_nullable(True) for field in fields])
    return pa.Table.from_pylist(
        rows,
        schema=schema.append(pa.field("key", pa.binary())).append(pa.field("value", pa.binary())),
    )


def of(group: str) -> list[Stored]:
    return [record for record in RECORDS if record.group == group and record.type > 2]


def content(rows: pa.Table) -> list[Any]:
    """Per row: the epoch, and by client what it has and what it has to revoke."""
    return [
        None
        if row["tombstone"]
        else (
            row["generation"],
            {
                member["client_id"]: (
                    [tp["partition"] for tp in member["assigned"]],
                    [tp["partition"] for tp in member["owned"] if tp not in member["assigned"]],
                )
                for member in row["members"]
            },
        )
        for row in rows.to_pylist()
    ]


def test_each_request_that_changed_a_group_of_kafka_is_a_row() -> None:
    assert content(epochs(table(of("kip-g")), NAMES)) == [
        (2, {"k0": ([0, 1, 2, 3], [])}),
        (3, {"k0": ([0, 1, 2, 3], []), "k1": ([], [])}),
        (3, {"k0": ([0, 1], [2, 3]), "k1": ([], [])}),
        (3, {"k0": ([0, 1], []), "k1": ([], [])}),
        (3, {"k0": ([0, 1], []), "k1": ([2, 3], [])}),
        (4, {"k1": ([2, 3], [])}),
        (5, {}),
    ]


def test_the_rows_continue_in_the_next_batch() -> None:
    records = of("kip-g")
    whole = content(epochs(table(records), NAMES))
    for cut in range(1, len(records)):
        newest = {record.key: record for record in records[:cut]}
        known = list(newest.values())
        rows = epochs(table([*known, *records[cut:]], known=len(known)), NAMES)
        # A request whose records are in two batches has a row in each.
        assert content(rows)[-1] == whole[-1]
        assert [row for row in content(rows) if row not in whole] in ([], content(rows)[:1])


def test_a_deleted_group_ends_with_a_tombstone() -> None:
    records = of("new-h")
    deleted = [r._replace(value=None, at_ms=r.at_ms + 60_000) for r in records if r.type in (3, 6)]
    assert content(epochs(table([*records, *deleted]), NAMES))[-1] is None


def test_topics_without_a_name_are_shown_by_their_id() -> None:
    [row, *_] = epochs(table(of("kip-g")), {}).to_pylist()
    assert row["members"][0]["assigned"][0]["topic"] == "id:ozzQbK_eQjCij_SszOu_Aw"
    assert row["members"][0]["topics"] == ["orders"]


def test_classic_members_keep_their_session_timeout() -> None:
    members = {
        m["client_id"]: m for m in epochs(table(of("up-g")), NAMES).to_pylist()[0]["members"]
    }
    assert members["u1"]["session_timeout_ms"] == 6_000
    assert members["u0b"]["session_timeout_ms"] == 45_000
    assert members["u1"]["rebalance_timeout_ms"] == 300_000


def test_values_that_cannot_be_decoded_do_not_end_the_group() -> None:
    records = of("kip-g")[:4]
    broken = [r._replace(value=b"\0\x63", at_ms=r.at_ms + 1000) for r in records]
    rows = content(epochs(table([*records, *broken]), NAMES))
    assert rows == [(2, {"k0": ([0, 1, 2, 3], [])}), (2, {"": ([], [])})]


def test_a_large_group_has_fewer_rows_than_members() -> None:
    first, epoch, *_ = of("kip-g")
    joins = [
        record
        for number in range(300)
        for record in (
            first._replace(key=b"\0\5\0\5kip-g\0\5" + b"%05d" % number, at_ms=first.at_ms + number),
            epoch._replace(
                value=b"\0\0" + number.to_bytes(4, "big") + b"\0", at_ms=first.at_ms + number
            ),
        )
    ]
    rows = epochs(table(joins), NAMES)
    sizes = [len(row["members"]) for row in rows.to_pylist()]
    assert sizes[:SMALL_GROUP] == list(range(1, SMALL_GROUP + 1))
    assert sizes[-1] == 300
    assert len(sizes) < SMALL_GROUP + 10
