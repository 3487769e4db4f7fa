"""What can be wrong with a lake. Each message is one sentence that says what to do."""

__all__ = ["LakeError", "LakeTooNew", "NoLake", "WrongRows"]


class LakeError(Exception):
    """Anything wrong with a lake's content or use; disk failures stay OSError."""


class NoLake(LakeError):
    """A folder that is not there, or that holds no lake."""


class LakeTooNew(LakeError):
    """A lake of a version that this kohort does not know."""


class WrongRows(LakeError):
    """Rows that are not of their table's schema: a column too many, missing, null or mistyped."""
