"""The table of endpoints. Of two that fit a path, the first has it."""

from typing import Final

from . import choreography, cluster, faults, groups, history, life, puppets, topics
from .endpoint import Endpoint

SECTIONS: Final[dict[str, tuple[Endpoint, ...]]] = {
    "Broker and clock": cluster.ENDPOINTS,
    "Topics": topics.ENDPOINTS,
    "Groups": groups.ENDPOINTS,
    "Choreography": choreography.ENDPOINTS,
    "Puppets": puppets.ENDPOINTS,
    "Nodes, crashes, snapshots": life.ENDPOINTS,
    "Faults": faults.ENDPOINTS,
    "History": history.ENDPOINTS,
}
ENDPOINTS: Final = tuple(endpoint for section in SECTIONS.values() for endpoint in section)
