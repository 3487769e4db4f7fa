"""Run `python -m kohort` as `kohort`."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
