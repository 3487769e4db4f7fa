"""PushTelemetry (key 72, KIP-714): a client's metrics, which are discarded.

ApiVersions does not list this API, because there is no metrics receiver. Even without a
receiver, Kafka decompresses the metrics.
"""

from uuid import UUID

from ...log.codecs import with_decompressed
from ...log.errors import InvalidRecord
from ...log.tasks import CooperativeTask, no_steps
from ...protocol.budgets import DECOMPRESSED_BYTES_MAX
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
            yield from with_decompressed(
                request.compression_type,
                memoryview(request.metrics),
                DECOMPRESSED_BYTES_MAX,
                node.cluster.decompressions,
                lambda _metrics: no_steps(),
            )
    except ApiError as rejection:
        error = rejection.error
    except InvalidRecord:
        error = instance.last_error = ErrorCode.invalid_record
    context.respond(Message(error_code=error))
