"""The document of the endpoints: OpenAPI 3.1, made of their table."""

from typing import Any

from .. import __version__
from .endpoint import Endpoint
from .endpoints import SECTIONS
from .fields import Field

Json = dict[str, Any]

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string", "description": "what is wrong, for people"}},
}
_STATUSES = {
    400: "something that was given is wrong",
    403: "asked by a page of another origin, in a browser",
    404: "there is no such thing",
    405: "this path is not for this method",
    408: "a barrier has waited in vain: the error is the story of what was waited for",
    409: "a fault has not fired, or a puppet may not join: the error tells why",
    413: "the body is too large",
    500: "the harness has failed",
    503: "as many requests wait as may",
}


def document() -> Json:
    paths: dict[str, Json] = {}
    for section, endpoints in SECTIONS.items():
        for endpoint in endpoints:
            operation = _operation(section, endpoint)
            paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kohort's controls",
            "version": __version__,
            "summary": "Ask and steer a Kafka broker for tests.",
        },
        "tags": [{"name": section} for section in SECTIONS],
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR},
            "responses": {
                "Error": {
                    "description": "; ".join(f"{code}: {said}" for code, said in _STATUSES.items()),
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Error"}}
                    },
                }
            },
        },
    }


def _operation(section: str, endpoint: Endpoint) -> Json:
    operation: Json = {
        "operationId": endpoint.name,
        "tags": [section],
        "summary": endpoint.summary,
        "parameters": [
            _parameter(field, "path" if field.name in endpoint.in_path else "query")
            for field in endpoint.fields
            if endpoint.method == "GET" or field.name in endpoint.in_path
        ],
        "responses": {
            "200": {
                "description": "done",
                "content": {"application/json": {"schema": {"type": "object"}}},
            },
            "default": {"$ref": "#/components/responses/Error"},
        },
    }
    if endpoint.description:
        operation["description"] = endpoint.description
    if endpoint.method != "GET" and endpoint.others:
        operation["requestBody"] = _body(endpoint.others)
    return operation


def _parameter(field: Field, where: str) -> Json:
    return {
        "name": field.name,
        "in": where,
        "required": field.is_required,
        "schema": field.schema,
    }


def _body(fields: list[Field]) -> Json:
    required = [field.name for field in fields if field.is_required]
    schema = {
        "type": "object",
        "properties": {field.name: field.schema for field in fields},
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }
    return {"required": bool(required), "content": {"application/json": {"schema": schema}}}
