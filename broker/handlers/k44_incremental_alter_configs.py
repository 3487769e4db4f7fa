"""IncrementalAlterConfigs (key 44, KIP-339): changes single configurations. v1 flexible."""

from ..cluster import Node
from ..request import RequestContext
from .k33_alter_configs import apply_changes


def handle(context: RequestContext, node: Node) -> None:
    apply_changes(context, node, replace=False)
