"""Who leads instead, for clients that asked the wrong node: they go there without asking for
Metadata first (KIP-951; upstream: KafkaApis.getCurrentLeader)."""

from collections.abc import Iterable
from typing import NamedTuple

from ...topics.partition import Partition
from ..node import Node
from .k03_metadata import BrokerResponse


class CurrentLeader(NamedTuple):
    """NO_LEADER while all nodes are down."""

    leader_id: int
    leader_epoch: int


def leader_of(partition: Partition) -> CurrentLeader:
    return CurrentLeader(partition.leader_id, partition.leader_epoch)


def endpoints(node: Node, leaders: Iterable[CurrentLeader]) -> list[BrokerResponse]:
    """Where these leaders are, each once."""
    ids = {leader.leader_id for leader in leaders}
    rack = node.config.str("broker.rack") or None
    up = node.cluster.up if ids else ()
    return [BrokerResponse(each.node_id, *each.address, rack) for each in up if each.node_id in ids]
