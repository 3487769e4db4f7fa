"""PushTelemetry (key 72, KIP-714): the metrics of a client, which are discarded.

ApiVersions does not list this API, because there is no receiver of metrics. Even without a
receiver, Kafka decompresses the metrics.
"""

from uuid import UUID

from ...log.codecs import decompress
from ...log.errors import InvalidRecord
from ...log.tasks import CooperativeTask, begin, in_thread
from ...protocol.errors import ApiError, ErrorCode
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from .k71_get_telemetry_subscriptions import instance_of

# The second id is also reserved (upstream: Uuid.RESERVED).
INVALID_INSTANCE_IDS = (None, UUID(int=1))


@in_slices
def handle(context: RequestContext, node: Node) -> CooperativeTask[None]:
    request = context.request
    if request.client_instance_id in INVALID_INSTANCE_IDS:
        context.respond(Message(error_code=ErrorCode.invalid_request))
        return
    instance = instance_of(context, node)
    error = ErrorCode.none
    try:
        instance.push(request, node.config.int("telemetry.max.bytes"), node.clock.now_ms())
        if request.metrics and request.compression_type:
            yield from _decompress(request.compression_type, request.metrics, node)
    except ApiError as rejection:
        error = rejection.error
    except InvalidRecord:
        error = instance.last_error = ErrorCode.invalid_record
    context.respond(Message(error_code=error))


def _decompress(codec: int, metrics: bytes, node: Node) -> CooperativeTask[None]:
    """Decompress the metrics to validate them. Raises InvalidRecord."""
    limit = node.cluster.decompressions
    yield from begin(limit)
    try:
        yield from in_thread(lambda: decompress(codec, memoryview(metrics)))
    finally:
        limit.end()
