"""The server-side assignors, by their names in the protocol. `group.consumer.assignors`
(broker/config/keys.py) lists the same names."""

from collections.abc import Mapping
from typing import Final

from .homogeneous import assign_uniform
from .model import ServerAssignor
from .range import assign_range

SERVER_ASSIGNORS: Final[Mapping[str, ServerAssignor]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}
