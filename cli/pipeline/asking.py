"""From the flag to a lake that can be asked; what can be wrong with it is one sentence each."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UserError

if TYPE_CHECKING:
    from ...pipeline.answers.answers import Answers

__all__ = ["asked"]


@contextmanager
def asked(lake: Path) -> Iterator["Answers"]:
    """Raises UserError."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise UserError(
            "a lake is read with pyarrow, which is not here: pip install "
            "'./kohort[pipeline]', in the folder that holds its clone, or pyarrow alone."
        ) from error
    from ...pipeline.answers.answers import Answers, NoSuchGroup
    from ...pipeline.lake import Lake, LakeError

    try:
        yield Answers(Lake(lake))
    except (LakeError, NoSuchGroup) as error:
        raise UserError(str(error)) from error
    except OSError as error:
        raise UserError(f"{error.filename or lake}: {error.strerror or error}.") from error
