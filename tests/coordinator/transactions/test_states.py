"""The state machine: each request in each state, by clients before and since KIP-890."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from kohort.coordinator.transactions.commands import DescribeTransaction
from kohort.coordinator.transactions.states import EPOCH_MAX, LAST_EPOCH, TransactionState
from kohort.protocol.errors import ErrorCode
from support.transaction_coordinator import (
    ID,
    ID_EXPIRATION_MS,
    TIMEOUT_MS,
    TXN_V1,
    TXN_V2,
    TransactionHarness,
)

E, S = ErrorCode, TransactionState
ORDERS, BILLS = ("orders", 0), ("bills", 3)
VERSIONS = (TXN_V1, TXN_V2)
STATES = tuple(S)[:6]


def in_state(state: TransactionState, version: int) -> TransactionHarness:
    """Return a harness whose transaction of `ID` is in this state, after one with epoch 0."""
    harness = TransactionHarness()
    harness.init()
    if state is S.EMPTY:
        return harness
    harness.add(ORDERS, client_version=version)
    if state is S.ONGOING:
        return harness
    commit = state in (S.PREPARE_COMMIT, S.COMPLETE_COMMIT)
    assert harness.end(commit=commit, client_version=version).error is E.none
    if state in (S.COMPLETE_COMMIT, S.COMPLETE_ABORT):
        harness.write_markers()
    assert harness.state is state
    return harness


class Row(NamedTuple):
    """The error of a request in a state, the state afterwards, and by how much the epoch grows."""

    error: ErrorCode
    state: TransactionState
    bump: int = 0


def unchanged(error: ErrorCode) -> dict[TransactionState, Row]:
    return {state: Row(error, state) for state in STATES}


CONCURRENT = {
    state: Row(E.concurrent_transactions, state) for state in (S.PREPARE_COMMIT, S.PREPARE_ABORT)
}
IDLE = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)

Send = Callable[[TransactionHarness, int], Any]


def end(harness: TransactionHarness, version: int, *, commit: bool, back: int = 0) -> Any:
    epoch = harness.metadata.producer_epoch - back
    return harness.end(commit=commit, client_version=version, producer_epoch=epoch)


REQUESTS: dict[str, Send] = {
    "init": lambda h, _v: h.init(),
    "init of another producer": lambda h, _v: h.init(expected_id=7, expected_epoch=0),
    "init of the producer": lambda h, _v: h.init(
        expected_id=h.metadata.producer_id, expected_epoch=h.metadata.producer_epoch
    ),
    "add": lambda h, v: h.add(BILLS, client_version=v),
    "add with an older epoch": lambda h, v: h.add(
        BILLS, client_version=v, producer_epoch=h.metadata.producer_epoch - 1
    ),
    "add with a newer epoch": lambda h, v: h.add(
        BILLS, client_version=v, producer_epoch=h.metadata.producer_epoch + 1
    ),
    "add of another producer": lambda h, v: h.add(BILLS, client_version=v, producer_id=7),
    "verify": lambda h, v: h.add(ORDERS, client_version=v, verify_only=True),
    "commit": lambda h, v: end(h, v, commit=True),
    "abort": lambda h, v: end(h, v, commit=False),
    "commit with the previous epoch": lambda h, v: end(h, v, commit=True, back=1),
    "abort with the previous epoch": lambda h, v: end(h, v, commit=False, back=1),
    "commit with a newer epoch": lambda h, v: end(h, v, commit=True, back=-1),
    "commit of another producer": lambda h, v: h.end(commit=True, client_version=v, producer_id=7),
}

ANY_VERSION: dict[str, dict[TransactionState, Row]] = {
    "init": {
        **{state: Row(E.none, S.EMPTY, 1) for state in IDLE},
        S.ONGOING: Row(E.concurrent_transactions, S.PREPARE_ABORT, 1),
        **CONCURRENT,
    },
    "init of another producer": {**unchanged(E.producer_fenced), **CONCURRENT},
    "init of the producer": {
        **{state: Row(E.none, S.EMPTY, 1) for state in IDLE},
        S.ONGOING: Row(E.concurrent_transactions, S.PREPARE_ABORT, 1),
        **CONCURRENT,
    },
    "add": {**{state: Row(E.none, S.ONGOING) for state in (*IDLE, S.ONGOING)}, **CONCURRENT},
    "add with an older epoch": {**unchanged(E.producer_fenced), **CONCURRENT},
    "add with a newer epoch": {**unchanged(E.producer_fenced), **CONCURRENT},
    "add of another producer": {**unchanged(E.invalid_producer_id_mapping), **CONCURRENT},
    "verify": {**unchanged(E.none), **CONCURRENT},
}
INVALID = {state: Row(E.invalid_txn_state, state) for state in STATES}
V1: dict[str, dict[TransactionState, Row]] = {
    "commit": {
        **INVALID,
        **CONCURRENT,
        S.ONGOING: Row(E.none, S.PREPARE_COMMIT),
        S.COMPLETE_COMMIT: Row(E.none, S.COMPLETE_COMMIT),
    },
    "abort": {
        **INVALID,
        **CONCURRENT,
        S.ONGOING: Row(E.none, S.PREPARE_ABORT),
        S.COMPLETE_ABORT: Row(E.none, S.COMPLETE_ABORT),
    },
    "commit with the previous epoch": unchanged(E.producer_fenced),
    "abort with the previous epoch": unchanged(E.producer_fenced),
    "commit with a newer epoch": unchanged(E.producer_fenced),
    "commit of another producer": unchanged(E.invalid_producer_id_mapping),
}
# The epoch changes with the Prepare state, so a request with the current epoch is not a retry, but
# belongs to the next transaction. No error is final before the markers are written.
V2: dict[str, dict[TransactionState, Row]] = {
    "commit": {
        **CONCURRENT,
        **{state: INVALID[state] for state in IDLE},
        S.ONGOING: Row(E.none, S.PREPARE_COMMIT, 1),
    },
    "abort": {
        **CONCURRENT,
        **{state: Row(E.none, S.PREPARE_ABORT, 1) for state in (*IDLE, S.ONGOING)},
    },
    "commit with the previous epoch": {
        **unchanged(E.producer_fenced),
        **CONCURRENT,
        S.COMPLETE_COMMIT: Row(E.none, S.COMPLETE_COMMIT),
        S.COMPLETE_ABORT: INVALID[S.COMPLETE_ABORT],
    },
    "abort with the previous epoch": {
        **unchanged(E.producer_fenced),
        **CONCURRENT,
        S.COMPLETE_COMMIT: INVALID[S.COMPLETE_COMMIT],
        S.COMPLETE_ABORT: Row(E.none, S.COMPLETE_ABORT),
    },
    "commit with a newer epoch": {**unchanged(E.producer_fenced), **CONCURRENT},
    "commit of another producer": {**unchanged(E.invalid_producer_id_mapping), **CONCURRENT},
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.text)
@pytest.mark.parametrize("request_name", REQUESTS)
def test_each_request_in_each_state(
    request_name: str, state: TransactionState, version: int
) -> None:
    table = {**ANY_VERSION, **(V1 if version == TXN_V1 else V2)}
    harness = in_state(state, version)
    producer_id, epoch = harness.metadata.producer_id, harness.metadata.producer_epoch
    records = len(harness.log)
    error = REQUESTS[request_name](harness, version).error
    row = Row(error, harness.state, harness.metadata.producer_epoch - epoch)
    assert row == table[request_name][state]
    assert harness.metadata.producer_id == producer_id
    # Records are written only for changes, such as an added partition.
    changes = row.state is not state or row.bump or (request_name, state) == ("add", S.ONGOING)
    assert (len(harness.log) > records) == bool(changes)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.text)
def test_requests_of_unknown_ids_are_rejected(state: TransactionState) -> None:
    harness = in_state(state, TXN_V2)
    unknown = {"transactional_id": "unknown"}
    assert harness.add(ORDERS, **unknown).error is E.invalid_producer_id_mapping
    assert harness.end(commit=True, **unknown).error is E.invalid_producer_id_mapping
    described = harness.handle(DescribeTransaction("unknown"))
    assert described.error is E.transactional_id_not_found


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.text)
@pytest.mark.parametrize("version", VERSIONS)
def test_only_ongoing_transactions_time_out(state: TransactionState, version: int) -> None:
    harness = in_state(state, version)
    epoch = harness.metadata.producer_epoch
    harness.advance(TIMEOUT_MS - 1)
    assert harness.state is state
    harness.advance(1)
    if state is S.ONGOING:
        assert harness.state is S.PREPARE_ABORT
        assert harness.metadata.producer_epoch == epoch + 1, "the producer is fenced"
        (markers,) = harness.markers
        assert (markers.commit, markers.producer_epoch) == (False, epoch + 1)
        assert markers.partitions == {ORDERS}
        assert harness.end(commit=True, producer_epoch=epoch).error is E.producer_fenced
    else:
        assert harness.state is state


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.text)
def test_only_idle_ids_expire(state: TransactionState) -> None:
    harness = in_state(state, TXN_V2)
    harness.now += ID_EXPIRATION_MS - 1
    harness.expire_ids()
    assert ID in harness.coordinator.transactions
    harness.now += 1
    harness.expire_ids()
    assert (ID in harness.coordinator.transactions) == (state not in IDLE)


def test_an_expired_id_gets_a_new_producer_id() -> None:
    harness = in_state(S.COMPLETE_COMMIT, TXN_V1)
    old = harness.metadata.producer_id
    harness.now += ID_EXPIRATION_MS
    harness.expire_ids()
    again = harness.init()
    assert (again.error, again.producer_epoch) == (E.none, 0)
    assert again.producer_id > old
    assert harness.add(ORDERS, producer_id=old).error is E.invalid_producer_id_mapping


def test_more_partitions_do_not_move_the_timeout() -> None:
    harness = in_state(S.ONGOING, TXN_V1)
    harness.advance(TIMEOUT_MS - 1)
    assert harness.add(BILLS).error is E.none
    harness.advance(1)
    assert harness.state is S.PREPARE_ABORT
    assert harness.markers[0].partitions == {ORDERS, BILLS}


def test_a_partition_of_the_transaction_is_added_without_a_record() -> None:
    harness = in_state(S.ONGOING, TXN_V1)
    records = len(harness.log)
    assert harness.add(ORDERS).error is E.none
    assert len(harness.log) == records


def test_partitions_that_were_not_added_are_missing() -> None:
    harness = in_state(S.ONGOING, TXN_V1)
    result = harness.add(ORDERS, BILLS, verify_only=True)
    assert (result.error, set(result.missing)) == (E.none, {BILLS})
    harness.end(commit=True)
    harness.write_markers()
    assert set(harness.add(ORDERS, verify_only=True).missing) == {ORDERS}


# --- retries of InitProducerId (KIP-360)


def test_a_repeated_init_after_a_restart_is_fenced() -> None:
    """The epoch before the current one is not stored, as in Kafka."""
    harness = in_state(S.EMPTY, TXN_V1)
    expected = {"expected_id": harness.metadata.producer_id, "expected_epoch": 0}
    assert harness.init(**expected).producer_epoch == 1
    harness.restart()
    assert harness.init(**expected).error is E.producer_fenced


# --- exhausted epochs


def with_last_epoch(epoch: int = LAST_EPOCH) -> TransactionHarness:
    """Return an id with the last epoch that a producer may have."""
    harness = in_state(S.EMPTY, TXN_V2)
    record = harness.log[-1]
    assert record.metadata is not None
    last = record._replace(metadata=record.metadata._replace(producer_epoch=epoch))
    harness.log.append(last)
    harness.restart()
    return harness


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_with_the_last_epoch_is_followed_by_a_new_producer_id(commit: bool) -> None:
    harness = with_last_epoch()
    old = harness.metadata.producer_id
    harness.add(ORDERS, client_version=TXN_V2)
    result = harness.end(commit=commit, client_version=TXN_V2)
    assert (result.error, result.producer_epoch) == (E.none, 0)
    assert result.producer_id > old
    (markers,) = harness.markers
    assert (markers.producer_id, markers.producer_epoch) == (old, EPOCH_MAX)
    harness.restart()  # the next producer id is durable
    harness.write_markers()
    assert (harness.metadata.producer_id, harness.metadata.producer_epoch) == result[1:]
    retry = {"producer_id": old, "producer_epoch": LAST_EPOCH, "client_version": TXN_V2}
    assert harness.end(commit=commit, **retry) == result
    assert harness.end(commit=not commit, **retry).error is E.invalid_txn_state


def test_an_aborted_transaction_with_the_last_epoch_fences_its_producer() -> None:
    harness = with_last_epoch()
    old = harness.metadata.producer_id
    harness.add(ORDERS, client_version=TXN_V1)
    harness.advance(TIMEOUT_MS)
    harness.write_markers()
    assert harness.add(ORDERS, producer_id=old, producer_epoch=LAST_EPOCH).error is not E.none
    assert harness.init().error is E.none


# --- restarts


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.text)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_restart_keeps_the_state_and_the_missing_markers(
    state: TransactionState, version: int
) -> None:
    harness = in_state(state, version)
    before, missing = harness.metadata, list(harness.markers)
    harness.restart()
    assert harness.metadata.producer_epoch == before.producer_epoch
    assert harness.state is state
    assert harness.markers == missing
    if missing:
        harness.write_markers()
        complete = {S.PREPARE_COMMIT: S.COMPLETE_COMMIT, S.PREPARE_ABORT: S.COMPLETE_ABORT}
        assert harness.state is complete[state]


def test_markers_of_an_earlier_epoch_complete_nothing() -> None:
    harness = in_state(S.PREPARE_COMMIT, TXN_V2)
    (markers,) = harness.markers
    older = markers._replace(producer_epoch=markers.producer_epoch - 1)
    harness.carry_out(harness.coordinator.markers_written(older, harness.now))
    assert harness.state is S.PREPARE_COMMIT
    harness.carry_out(harness.coordinator.markers_written(markers, harness.now))
    harness.carry_out(harness.coordinator.markers_written(markers, harness.now))
    assert harness.state is S.COMPLETE_COMMIT


def test_expiration_is_split_into_steps_between_which_ids_may_be_created_again() -> None:
    harness = TransactionHarness()
    empty = in_state(S.EMPTY, TXN_V1).log[-1]
    for number in range(1_002):
        harness.coordinator.apply(empty._replace(transactional_id=f"id-{number}"))
    harness.now += ID_EXPIRATION_MS
    steps = harness.coordinator.expired_ids(harness.now)
    assert len(next(steps).records) == 500
    again = empty._replace(transactional_id="id-1001")
    harness.coordinator.apply(again._replace(metadata=None))
    recent = again.metadata._replace(last_update_ms=harness.now)
    harness.coordinator.apply(again._replace(metadata=recent))
    assert [len(each.records) for each in steps] == [500, 1]


def test_a_wide_transaction_is_not_copied_when_it_grows_or_ends() -> None:
    """It may have thousands of topics, and producers add one partition at a time (KIP-890)."""
    harness = TransactionHarness()
    harness.init()
    harness.add(ORDERS, ("orders", 2), BILLS)
    bills, orders = harness.log[-1].metadata.partitions
    harness.add(("orders", 1))
    assert harness.log[-1].metadata.partitions == (bills, ("orders", [0, 1, 2]))
    assert harness.log[-1].metadata.partitions[0].partition_ids is bills.partition_ids
    partitions = harness.coordinator.transactions[ID].partitions
    assert harness.end(commit=True).error is E.none
    assert harness.coordinator.transactions[ID].partitions is partitions
    assert orders == ("orders", [0, 2])


def test_only_an_ongoing_transaction_is_aborted_by_force() -> None:
    harness = in_state(S.EMPTY, TXN_V2)
    for transactional_id in (ID, "unknown"):
        harness.carry_out(harness.coordinator.abort(transactional_id, harness.now))
    assert harness.state is S.EMPTY
    harness = in_state(S.ONGOING, TXN_V2)
    epoch = harness.metadata.producer_epoch
    harness.carry_out(harness.coordinator.abort(ID, harness.now))
    assert (harness.state, harness.metadata.producer_epoch) == (S.PREPARE_ABORT, epoch + 1)


def test_only_a_complete_transaction_is_expired_by_force() -> None:
    for state in STATES:
        harness = in_state(state, TXN_V2)
        harness.carry_out(harness.coordinator.expire(ID))
        is_kept = ID in harness.coordinator.transactions
        assert is_kept == (state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT))
    harness.carry_out(harness.coordinator.expire("unknown"))
