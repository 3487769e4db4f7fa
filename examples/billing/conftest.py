"""Tests import the service as `billing.service`: from the folder above, wherever this one is copied
to."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
