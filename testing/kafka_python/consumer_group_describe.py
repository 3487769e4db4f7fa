"""ConsumerGroupDescribe, which kafka-python lacks, and the lookup of coordinators for it."""

from functools import partial
from typing import Any

from kafka import errors as kafka_errors
from kafka.protocol.api_message import ApiMessage


# kafka-python 3 lacks only this message. ApiMessage loads its schema from this folder.
class ConsumerGroupDescribeRequest(ApiMessage, load_json=__package__):
    pass


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__package__):
    pass


def coordinator_id(admin: Any, group: str) -> int:
    """Return the node id of a group's coordinator. Raises kafka-python's errors."""
    # kafka-python has no public method for FindCoordinator.
    node_id: int = admin._manager.run(admin._find_coordinator_id, group)
    return node_id


def forget_coordinators(admin: Any) -> None:
    """Make the admin client look up the coordinators of its groups again."""
    # kafka-python has no public method to clear its cache.
    admin._manager.cluster._coordinators.clear()


def describe_consumer_group(admin: Any, group: str) -> dict[str, Any] | None:
    """Return the group in a ConsumerGroupDescribe response, with the schema's field names and
    possibly an error code; None if the cluster lacks the API. Raises kafka-python's errors."""
    node_id = coordinator_id(admin, group)
    manager = admin._manager
    message: Any = ConsumerGroupDescribeRequest
    request = message(group_ids=[group], include_authorized_operations=False)
    try:
        # kafka-python has no public method to send a message of an unsupported class.
        response = manager.run(partial(manager.send, request, node_id=node_id))
    except kafka_errors.IncompatibleBrokerVersion:
        return None
    described: dict[str, Any] = response.to_dict()["groups"][0]
    return described
