"""Errors in records of __consumer_offsets."""


class UndecodableRecord(ValueError):
    """The bytes of a key or value do not follow the schema of their record type.

    Kafka fails the load of the whole partition on such a record (CoordinatorLoaderImpl), and so do
    we: skipping it could bring back an offset that was overwritten.
    """


class UnencodableRecord(ValueError):
    """A field does not fit its type: a string above 32,767 bytes, a number out of range."""
