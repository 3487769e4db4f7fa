"""The rows that rules answer with are the gold tables' rows."""

import pytest
from kohort.pipeline.diagnosis import rows
from kohort.pipeline.tables import TABLES

TABLE_OF = {
    rows.Rebalance: "gold_rebalance",
    rows.MemberExit: "gold_member_exit",
    rows.Storm: "gold_rebalance_storm",
    rows.Skew: "gold_skew",
    rows.GroupLifecycle: "gold_group_lifecycle",
    rows.PartitionStatus: "gold_partition_status",
    rows.GroupStatus: "gold_group_status",
    rows.Diagnosis: "gold_diagnosis",
}


@pytest.mark.parametrize("row", TABLE_OF, ids=lambda row: row.__name__)
def test_a_row_has_the_columns_of_its_table_in_their_order(row: type) -> None:
    assert list(row._fields) == TABLES[TABLE_OF[row]].schema.names  # type: ignore[attr-defined]


@pytest.mark.parametrize("row", TABLE_OF, ids=lambda row: row.__name__)
def test_a_field_may_be_none_where_its_column_may_be_null(row: type) -> None:
    for column in TABLES[TABLE_OF[row]].schema:
        kind = row.__annotations__[column.name]
        assert ("None" in str(kind)) == column.nullable or "tuple" in str(kind), column.name


def test_every_row_is_named_in_the_module() -> None:
    assert {row.__name__ for row in TABLE_OF} == set(rows.__all__)
