"""IncrementalAlterConfigs (key 44, KIP-339): changes individual configurations. v1 flexible."""

from collections.abc import Iterator

from ..cluster import Node
from ..network.request import RequestContext, in_slices
from .k33_alter_configs import apply_changes


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    return apply_changes(context, node, replace=False)
