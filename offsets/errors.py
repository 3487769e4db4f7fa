"""What can be wrong with a record of __consumer_offsets: its bytes, or what is to become bytes."""


class RecordError(ValueError):
    """Base: catch this to catch both."""


class UndecodableRecord(RecordError):
    """The bytes of a key or value of a type we know do not follow its layout.

    Kafka fails the load of the whole partition on such a record (CoordinatorLoaderImpl), and so do
    we: to skip it could bring back an offset that was overwritten.
    """


class UnencodableRecord(RecordError):
    """A field does not fit its layout: a string above 32,767 bytes, a number out of range."""
