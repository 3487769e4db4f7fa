"""What Connect's workers and their leader say to each other, byte by byte."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.connect.protocol import (
    CONFIG_MISMATCH,
    UndecodableConnectBlob,
    WorkerAssignment,
    WorkerState,
    read_assignment,
    read_metadata,
    write_assignment,
    write_metadata,
)

GIVEN = WorkerAssignment(
    "w1", "http://w1", 7, (("c", -1), ("c", 0), ("d", 2)), (("d", 1),), delay_ms=300_000
)
GIVEN_BODY = (
    "0000"  # no error
    "0002 7731  0009 687474703a2f2f7731  0000000000000007"
    "00000002  0001 63 00000002 ffffffff 00000000  0001 64 00000001 00000002"
    "00000001  0001 64 00000001 00000001"
    "000493e0"
)
HEXES = {
    "metadata, eager": ("0000 0001 75 0000000000000007", 0, WorkerState("u", 7)),
    "metadata of a worker that runs nothing": (
        "0002 0001 75 0000000000000007 ffffffff",
        2,
        WorkerState("u", 7),
    ),
    "metadata of a worker that runs something": (
        f"0001 0001 75 0000000000000007 0000004c 0001 {GIVEN_BODY}",
        1,
        WorkerState("u", 7, GIVEN),
    ),
}


@pytest.mark.parametrize("name", HEXES)
def test_metadata_has_the_bytes_of_the_schema(name: str) -> None:
    expected, version, state = HEXES[name]
    assert write_metadata(state, version) == bytes.fromhex(expected)
    assert read_metadata(bytes.fromhex(expected)) == state


@pytest.mark.parametrize("version", [1, 2])
def test_an_assignment_has_the_bytes_of_the_schema(version: int) -> None:
    expected = bytes.fromhex(f"000{version} {GIVEN_BODY}")
    assert write_assignment(GIVEN, version) == expected
    assert read_assignment(expected) == GIVEN


def test_an_eager_assignment_says_neither_what_to_stop_nor_how_long_to_wait() -> None:
    blob = write_assignment(GIVEN, version=0)
    assert blob == bytes.fromhex(f"0000 {GIVEN_BODY}")[: -(4 + 3 + 8 + 4)]
    assert read_assignment(blob) == WorkerAssignment("w1", "http://w1", 7, GIVEN.assigned)


def test_null_arrays_are_read_as_empty_ones() -> None:
    blob = bytes.fromhex("0001 0001 0000 0000 0000000000000000 ffffffff ffffffff 00000000")
    assert read_assignment(blob) == WorkerAssignment("", "", 0, error=CONFIG_MISMATCH)


def test_a_newer_version_is_read_as_the_newest_known_one() -> None:
    blob = bytes.fromhex(f"0009 {GIVEN_BODY} 00ff")
    assert read_assignment(blob) == GIVEN


def test_a_negative_version_is_refused() -> None:
    with pytest.raises(UndecodableConnectBlob, match="no version -1"):
        read_metadata(b"\xff\xff")


def test_a_blob_that_is_cut_anywhere_is_refused() -> None:
    for blob, read in (
        (write_metadata(WorkerState("u", 7, GIVEN)), read_metadata),
        (write_assignment(GIVEN), read_assignment),
    ):
        for end in range(len(blob)):
            with pytest.raises(UndecodableConnectBlob):
                read(blob[:end])


@given(st.binary(max_size=60))
def test_junk_is_read_or_refused(junk: bytes) -> None:
    for read in (read_metadata, read_assignment):
        with suppress(UndecodableConnectBlob):
            read(junk)
