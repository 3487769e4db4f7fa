"""`kohort report`: the lake as one page of HTML."""

import argparse
from pathlib import Path

from ..errors import UserError
from .asking import asked

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """0. Raises UserError."""
    with asked(args.lake) as answers:
        from ...pipeline.report.page import page

        if not answers.names():
            raise UserError("the lake knows no group yet: nothing was in the log that was read.")
        _write(args.out, "".join(page(answers)))
    print(f"{args.out} written: {args.out.stat().st_size / 1000:,.0f} kB")
    return 0


def _write(path: Path, text: str) -> None:
    """Whoever reloads the page meanwhile sees the old one or the new one."""
    if path.is_dir():
        raise UserError(f"{path} is a folder: give the name of a file, as {path / 'report.html'}.")
    made = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        made.write_text(text, encoding="utf-8")
        made.replace(path)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from error
