"""AlterUserScramCredentials (key 51, KIP-554). Always flexible. Upstream: ScramControlManager."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.registry_log import ScramCredentialRecord
from ...topics.scram import ITERATIONS_MAX, ITERATIONS_MIN, ScramCredential, ScramMechanism
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from .authorization import cluster_denial
from .common import respond_when_durable


class UserResponse(NamedTuple):
    user: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    """Change each valid credential, and respond when all changes are durable. A user may occur only
    once in the request. Deletions are validated first."""
    request = context.request
    if (denial := cluster_denial(context, node, AclOperation.ALTER)) is not None:
        users = dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))
        context.respond(Message(results=[UserResponse(each, *denial) for each in users]))
        return
    changes: dict[str, ScramCredentialRecord] = {}
    errors: dict[str, ApiError] = {}
    for each in (*request.deletions, *request.upsertions):
        yield
        if each.name in errors:
            continue
        try:
            if changes.pop(each.name, None) is not None:
                raise ApiError(
                    ErrorCode.duplicate_resource,
                    "A user credential cannot be altered twice in the same request",
                )
            changes[each.name] = _validated(node, each)
        except ApiError as error:
            errors[each.name] = error
    for change in changes.values():
        node.topics.change(change)
        yield
    responses = [UserResponse(user) for user in changes]
    responses += [UserResponse(user, each.error, each.message) for user, each in errors.items()]
    respond_when_durable(context, node, "results", responses)


def _validated(node: Node, requested: Any) -> ScramCredentialRecord:
    """Return the change that a deletion or an upsertion requests. Raises ApiError."""
    user = requested.name
    if not user:
        raise ApiError(ErrorCode.unacceptable_credential, "Username must not be empty")
    try:
        mechanism = ScramMechanism(requested.mechanism)
    except ValueError:
        error = ErrorCode.unsupported_sasl_mechanism
        raise ApiError(error, "Unknown SCRAM mechanism") from None
    if not hasattr(requested, "salted_password"):
        if mechanism not in node.topics.security.scram_credentials.get(user, {}):
            raise ApiError(
                ErrorCode.resource_not_found,
                "Attempt to delete a user credential that does not exist",
            )
        return ScramCredentialRecord(user, mechanism, None)
    salt, salted_password = bytes(requested.salt), bytes(requested.salted_password)
    iterations = requested.iterations
    if iterations < ITERATIONS_MIN:
        raise ApiError(ErrorCode.unacceptable_credential, "Too few iterations")
    if iterations > ITERATIONS_MAX:
        raise ApiError(ErrorCode.unacceptable_credential, "Too many iterations")
    if not salted_password:
        raise ApiError(ErrorCode.unacceptable_credential, "Salted password must not be empty")
    credential = ScramCredential.derive(mechanism, salt, iterations, salted_password)
    return ScramCredentialRecord(user, mechanism, credential)
