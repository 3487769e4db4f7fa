"""What a handler sees of the broker: one node with its address, its topics and its groups."""

from dataclasses import dataclass

from ..log.rounds import Rounds
from ..topics.registry import Topics
from .clock import Clock
from .config import BrokerConfig
from .runtime import GroupRuntime
from .timers import Timers


@dataclass(slots=True)
class Node:
    node_id: int
    cluster_id: str
    """A UUID in Kafka's form: 22 letters of unpadded base64url."""
    address: tuple[str, int]
    """Host and port that clients are told to connect to."""
    config: BrokerConfig
    clock: Clock
    timers: Timers
    rounds: Rounds
    topics: Topics
    groups: GroupRuntime
