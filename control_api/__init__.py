"""The test harness over HTTP and JSON, for tests in any language.

The routes, the validation, the OpenAPI document and the docs are generated from the table of
endpoints.

    endpoints    the table of endpoints
    broker       endpoint functions: nodes, crashes, snapshots, clock
    topics       endpoint functions: topics and records
    groups       endpoint functions: groups (state, waits, control)
    transactions endpoint functions: transactions (state, waits, control)
    fake_members endpoint functions: scripted members
    requests     endpoint functions: faults and history
    schema_registry  the schema registry
    control      the state: the `Kafka`, and objects to which requests refer by number or name
    parameters   descriptions of the parameters
    endpoint     one row of the table, and the validation of its parameters (msgspec)
    serializers  converts objects of the harness to JSON
    server       the ASGI application, and a thread that serves it
    openapi      the OpenAPI document, and an HTML page

The package needs the extra `control` (msgspec, Starlette, uvicorn).
"""

from typing import Final

TOKEN_VARIABLE: Final = "KOHORT_CONTROL_TOKEN"  # noqa: S105 (its name)
"""The environment variable that contains the control API token."""
