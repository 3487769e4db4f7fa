"""What the C library may keep of the memory that was freed.

A large request or answer is allocated, filled and freed within a turn of the loop. glibc by default
gives the system back what is free at the end of its heap above 128 KiB, so the next one asks for
it again, and pays for each page with a fault: half of the processor time of a fetched megabyte.
"""

import os
from typing import Final

MIB: Final = 1024 * 1024

# malloc.h
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3

# Variables of glibc's own.
TOLD: Final = ("GLIBC_TUNABLES", "MALLOC_")

# What is larger is had from the system alone, and goes back to it at once: a consumer of four busy
# partitions is answered with 4 MiB (max.partition.fetch.bytes is 1 MiB by default).
KEPT_BLOCK_BYTES_MAX: Final = 8 * MIB
# What is free at the heap's end above this goes back: such an answer, and what it was joined from.
KEPT_BYTES_MAX: Final = 16 * MIB


def keep_freed() -> None:
    """Does nothing where the C library is another (macOS, musl), or is told by its environment."""
    import ctypes  # some milliseconds, which a start need not wait for

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or any(name.startswith(TOLD) for name in os.environ):
        return
    mallopt(M_MMAP_THRESHOLD, KEPT_BLOCK_BYTES_MAX)
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
