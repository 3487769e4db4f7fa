"""What a handler sees of the broker: the node that was asked, its groups, and what all share."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..log.group_commit import GroupCommit
from ..topics.configs import Configs
from ..topics.registry import Topics
from ..topics.view import TopicsView
from .clock import Clock
from .config.broker_config import BrokerConfig
from .fetch_sessions import FetchSessionCache
from .runtime import GroupRuntime
from .timers import Timers

if TYPE_CHECKING:
    from .cluster import Cluster


@dataclass(slots=True)
class Node:
    node_id: int
    cluster: "Cluster"
    address: tuple[str, int]
    """Host and port that clients are told to connect to."""
    config: BrokerConfig
    configs: Configs
    """The same, with what was set while it ran."""
    clock: Clock
    timers: Timers
    waits: Timers
    """For what a client waits for by its own clock (long polls): on the wall clock, whatever a test
    does to the broker's."""
    group_commit: GroupCommit
    topics: Topics
    readable: TopicsView
    """What clients may read: `topics`, and the mirror of the offsets topic."""
    groups: GroupRuntime
    """Of the offsets partitions that this node leads."""
    fetch_sessions: FetchSessionCache
    """Of the clients that fetch from this node."""
