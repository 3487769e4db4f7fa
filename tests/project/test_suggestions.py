"""Suggestions for names that do not exist."""

import pytest
from kohort.protocol.apis import APIS
from kohort.suggestions import SuggestsAttributes, did_you_mean, similar_names


def test_similar_names_share_a_prefix_or_letters_or_contain_the_name() -> None:
    names = ["billing", "billing-eu", "shipping", "mail"]
    assert similar_names("bill", names) == ["billing", "billing-eu"]
    assert similar_names("biling", names)[0] == "billing"
    assert similar_names("eu", names) == ["billing-eu"]
    assert similar_names("zzz", names) == []


@pytest.mark.parametrize(
    ("name", "api"),
    [
        ("CommitOffset", "OffsetCommit"),
        ("OffsetComit", "OffsetCommit"),
        ("offset_commits", "OffsetCommit"),
        ("Group Join", "JoinGroup"),
        ("Heart", "Heartbeat"),
        ("EndTransaction", "EndTxn"),
        ("TransactionOffsetCommit", "TxnOffsetCommit"),
        ("AddPartitionsToTransactions", "AddPartitionsToTxn"),
        ("list_txns", "ListTransactions"),
    ],
)
def test_words_may_have_another_order(name: str, api: str) -> None:
    assert did_you_mean(name, (each.name for each in APIS)) == f": did you mean {api}?"


def test_nothing_is_suggested_for_a_name_that_is_not_similar() -> None:
    assert did_you_mean("x", ["orders"]) == did_you_mean("", ["orders"]) == ""
    assert did_you_mean("log.roll.ms", ["log.retention.ms"]) == ""
    for name in ("BeginTransaction", "CommitTransaction"):
        assert did_you_mean(name, (each.name for each in APIS)) == ""


def test_an_unknown_attribute_is_an_error_with_a_suggestion() -> None:
    class Broker(SuggestsAttributes):
        faults = ()

    with pytest.raises(AttributeError, match="no attribute 'fault': did you mean faults"):
        Broker().fault  # noqa: B018
    assert not hasattr(Broker(), "__wrapped__")


def test_an_error_inside_a_property_is_not_hidden() -> None:
    class Broker(SuggestsAttributes):
        @property
        def faults(self) -> object:
            return None.missing  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'missing'"):
        Broker().faults  # noqa: B018
