"""The encoding of Connect's metadata and assignments."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.assignors.connect.protocol import (
    CONFIG_MISMATCH,
    UndecodableConnectMetadata,
    WorkerAssignment,
    WorkerState,
    read_assignment,
    read_metadata,
    write_assignment,
    write_metadata,
)

ASSIGNMENT = WorkerAssignment(
    "w1", "http://w1", 7, (("c", -1), ("c", 0), ("d", 2)), (("d", 1),), delay_ms=300_000
)
ASSIGNMENT_BODY = (
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
        f"0001 0001 75 0000000000000007 0000004c 0001 {ASSIGNMENT_BODY}",
        1,
        WorkerState("u", 7, ASSIGNMENT),
    ),
}


@pytest.mark.parametrize("name", HEXES)
def test_metadata_is_encoded_as_in_the_schema(name: str) -> None:
    expected, version, state = HEXES[name]
    assert write_metadata(state, version) == bytes.fromhex(expected)
    assert read_metadata(bytes.fromhex(expected)) == state


@pytest.mark.parametrize("version", [1, 2])
def test_an_assignment_is_encoded_as_in_the_schema(version: int) -> None:
    expected = bytes.fromhex(f"000{version} {ASSIGNMENT_BODY}")
    assert write_assignment(ASSIGNMENT, version) == expected
    assert read_assignment(expected) == ASSIGNMENT


def test_an_eager_assignment_has_neither_revocations_nor_a_delay() -> None:
    blob = write_assignment(ASSIGNMENT, version=0)
    assert blob == bytes.fromhex(f"0000 {ASSIGNMENT_BODY}")[: -(4 + 3 + 8 + 4)]
    assert read_assignment(blob) == WorkerAssignment("w1", "http://w1", 7, ASSIGNMENT.assigned)


def test_null_arrays_are_read_as_empty() -> None:
    blob = bytes.fromhex("0001 0001 0000 0000 0000000000000000 ffffffff ffffffff 00000000")
    assert read_assignment(blob) == WorkerAssignment("", "", 0, error=CONFIG_MISMATCH)


def test_a_newer_version_is_read_as_the_newest_known_one() -> None:
    blob = bytes.fromhex(f"0009 {ASSIGNMENT_BODY} 00ff")
    assert read_assignment(blob) == ASSIGNMENT


def test_a_negative_version_is_rejected() -> None:
    with pytest.raises(UndecodableConnectMetadata, match="invalid version -1"):
        read_metadata(b"\xff\xff")


def test_a_blob_that_is_cut_anywhere_is_rejected() -> None:
    for blob, read in (
        (write_metadata(WorkerState("u", 7, ASSIGNMENT)), read_metadata),
        (write_assignment(ASSIGNMENT), read_assignment),
    ):
        for end in range(len(blob)):
            with pytest.raises(UndecodableConnectMetadata):
                read(blob[:end])


@given(st.binary(max_size=60))
def test_random_bytes_are_decoded_or_rejected(junk: bytes) -> None:
    for read in (read_metadata, read_assignment):
        with suppress(UndecodableConnectMetadata):
            read(junk)
