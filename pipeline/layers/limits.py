"""How much of a group is remembered from batch to batch."""

from typing import Final

__all__ = ["REMEMBERED_MAX", "REMEMBERED_MEMBERS_MAX", "REMEMBERED_MIN", "REMEMBERED_MS"]

# What later batches look back on. An hour: `rebalances_1h`; rules look back 15 minutes, storms 5.
# The last ones always: the record before, and a cooperative rebalance's two phases.
# Never more than 200 rows of a group, nor 20,000 members in them (some 10 MB as Python objects, in
# the memory of one task): with 100 members 200 generations, with 1,000 twenty.
REMEMBERED_MS: Final = 3_600_000
REMEMBERED_MIN: Final = 3
REMEMBERED_MAX: Final = 200
REMEMBERED_MEMBERS_MAX: Final = 20_000
