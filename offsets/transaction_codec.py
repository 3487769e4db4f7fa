"""Encodes and decodes the records of __transaction_state in Kafka's format.

Upstream: TransactionLog, TransactionLogKey and TransactionLogValue.
"""

from functools import partial
from typing import Final

from ..protocol.primitives import INT16, Reader, string
from ..protocol.schema import FieldSpec, MessageSpec
from .record_schemas import RecordSpec, decode_value, encode_value
from .records import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    TransactionPartitions,
    TransactionRecord,
    UndecodableRecord,
    UnencodableRecord,
)

# The version that Kafka writes if the feature transaction.version is 1 or 2 (the default).
_VALUE_VERSION: Final = 1


F = partial(FieldSpec, versions="0+")
_tagged = partial(FieldSpec, versions="1+", tagged="1+")

TRANSACTION_SPEC: Final = RecordSpec(
    "TransactionLog",
    MessageSpec("TransactionLogKey", "0", (F("transactionalId", "string"),)),
    MessageSpec(
        "TransactionLogValue",
        "0-1",
        (
            F("producerId", "int64"),
            F("producerEpoch", "int16"),
            F("transactionTimeoutMs", "int32", attribute="timeout_ms"),
            F("transactionStatus", "int8", attribute="state"),
            F(
                "transactionPartitions",
                "[]PartitionsSchema",
                nullable="0+",
                fields=(F("topic", "string"), F("partitionIds", "[]int32")),
                message_class=TransactionPartitions,
                attribute="partitions",
            ),
            F("transactionLastUpdateTimestampMs", "int64", attribute="last_update_ms"),
            F("transactionStartTimestampMs", "int64", attribute="start_ms"),
            _tagged("previousProducerId", "int64", tag=0, default=NO_PRODUCER_ID),
            _tagged("nextProducerId", "int64", tag=1, default=NO_PRODUCER_ID),
            _tagged(
                "clientTransactionVersion", "int16", tag=2, default=0, attribute="client_version"
            ),
            _tagged("nextProducerEpoch", "int16", tag=3, default=NO_EPOCH),
        ),
        "1+",
        TransactionMetadata,
    ),
)


TRANSACTION_SPECS: Final = {0: TRANSACTION_SPEC}
"""Specs by record type, for `decode_as_dicts`."""


def encode_transaction(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Return the key and the value. Raises UnencodableRecord."""
    try:
        key = INT16.pack(0) + string(record.transactional_id)
    except ValueError as error:
        raise UnencodableRecord(f"transactional id cannot be encoded: {error}") from error
    if record.metadata is None:
        return key, None
    return key, encode_value(TRANSACTION_SPEC.value, _VALUE_VERSION, record.metadata)


def decode_transaction(key: bytes | None, value: bytes | None) -> TransactionRecord | None:
    """Decode a record. Return None for a key of an unknown version, which Kafka also ignores.
    Raises UndecodableRecord."""
    if key is None or len(key) < INT16.size:
        raise UndecodableRecord("record of __transaction_state without a key")
    if INT16.unpack_from(key)[0] != 0:
        return None
    try:
        transactional_id = Reader(key, INT16.size, flexible=False).string()
    except ValueError as error:
        raise UndecodableRecord(f"TransactionLogKey {key.hex()}: {error}") from error
    if value is None:
        return TransactionRecord(transactional_id, None)
    return TransactionRecord(transactional_id, decode_value(TRANSACTION_SPEC.value, value))
