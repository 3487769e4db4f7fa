"""The declared tables of the lake."""

import pytest
from kohort.pipeline.columns import SOURCE
from kohort.pipeline.tables import TABLES


@pytest.mark.parametrize("name", TABLES)
def test_no_table_has_a_column_twice(name: str) -> None:
    names = TABLES[name].schema.names
    assert len(names) == len(set(names))
    assert "batch_id" not in names  # it is in the folder's name


def test_bronze_has_all_columns_of_the_source() -> None:
    kept = {"bronze_commit", "bronze_group", "bronze_other"}
    fields = {field.name: field.type for name in kept for field in TABLES[name].schema}
    assert {field.name: field.type for field in SOURCE if field.name != "kind"} == {
        name: type_ for name, type_ in fields.items() if name not in {"cluster", "source"}
    }
