"""Prevents an import that no command needs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import cast


@contextmanager
def hypothesis_hidden() -> Iterator[None]:
    """Keep kio from importing Hypothesis, which takes a quarter of the start time and creates the
    folder .hypothesis. kio does so to register strategies, which no command needs."""
    if "hypothesis" in sys.modules:
        yield
        return
    sys.modules["hypothesis"] = cast("ModuleType", None)  # importing it raises ImportError
    try:
        yield
    finally:
        del sys.modules["hypothesis"]
