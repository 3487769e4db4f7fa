"""What one batch hands to the next: tables of the lake that nobody but the layers reads.

Each is written whole by every batch that changes it, and commits with the batch, so that state and
answers are always of one moment.
"""

from typing import Final

from .columns import Table

__all__ = ["STATE"]

STATE: Final[dict[str, Table]] = {}
