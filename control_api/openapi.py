"""Describes the endpoints in an OpenAPI 3.1 document, and on an HTML page."""

from html import escape
from typing import Final

import msgspec

from .. import __version__
from .endpoint import Endpoint
from .endpoints import SECTIONS
from .serializers import Json

_STATUSES: Final = {
    400: "invalid parameters",
    401: "the token is missing or wrong",
    403: "the request comes from a web page, or its Host header names an unknown host",
    404: "the path or the object does not exist",
    405: "the path does not support the method",
    408: "a wait timed out; the error explains the state",
    409: "a fault or a marker hold is unused, or a fake member cannot join; the error explains why",
    413: "the body is too large",
    500: "an unexpected error",
    503: "too many requests are waiting",
}


def schema(parameters: type[msgspec.Struct]) -> Json:
    """Return the JSON schema of `Endpoint.in_path` or `Endpoint.others`."""
    _, components = msgspec.json.schema_components([parameters])
    described: Json = components[parameters.__name__]
    return described


def document() -> Json:
    paths: dict[str, Json] = {}
    for section, endpoints in SECTIONS.items():
        for endpoint in endpoints:
            operation = _operation(section, endpoint)
            paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    error = {"description": "a description of the problem", "type": "string"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kohort control API",
            "version": __version__,
            "summary": "Inspect and control a Kafka broker for tests.",
        },
        "tags": [{"name": section} for section in SECTIONS],
        "paths": paths,
        # Both, because a server may run without a token.
        "security": [{}, {"token": []}],
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "the server's token, if one is set (--control-token)",
                }
            },
            "schemas": {
                "Error": {"type": "object", "required": ["error"], "properties": {"error": error}}
            },
            "responses": {
                "Error": {
                    "description": "; ".join(f"{code}: {text}" for code, text in _STATUSES.items()),
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Error"}}
                    },
                }
            },
        },
    }


def _operation(section: str, endpoint: Endpoint) -> Json:
    parameters = _parameters("path", schema(endpoint.in_path))
    if endpoint.method == "GET":
        parameters += _parameters("query", schema(endpoint.others))
    operation: Json = {
        "operationId": endpoint.name,
        "tags": [section],
        "summary": endpoint.summary,
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "success",
                "content": {"application/json": {"schema": {"type": "object"}}},
            },
            "default": {"$ref": "#/components/responses/Error"},
        },
    }
    if endpoint.description:
        operation["description"] = endpoint.description
    if endpoint.method != "GET" and endpoint.other_names:
        body = schema(endpoint.others)
        operation["requestBody"] = {
            "required": bool(body["required"]),
            "content": {"application/json": {"schema": body}},
        }
    return operation


def _parameters(where: str, schema: Json) -> list[Json]:
    return [
        {
            "name": name,
            "in": where,
            "required": name in schema["required"],
            "description": of_field.pop("description"),
            "schema": of_field,
        }
        for name, of_field in schema["properties"].items()
    ]


# --- the page

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #1b1f24; background: #fff; }
code { font: 14px ui-monospace, monospace; }
section > div { border-top: 1px solid #ddd; padding: .6rem 0; }
p { margin: .2rem 0; } ul { margin: .2rem 0; padding-left: 1.2rem; }
.method { display: inline-block; min-width: 4.5rem; font-weight: 600; }
.type, .more { color: #57606a; }
@media (prefers-color-scheme: dark) { body { color: #e6edf3; background: #0d1117; }
  section > div { border-color: #30363d; } .type, .more { color: #9198a1; } }
"""


def page(bootstrap_servers: str, *, has_token: bool) -> str:
    """Return HTML without scripts or external resources."""
    access = (
        "Each request needs the header <code>Authorization: Bearer TOKEN</code>, where TOKEN "
        "is the server's token."
        if has_token
        else "The server has no token, and can be reached from this machine only."
    )
    sections = "".join(
        f"<section><h2>{escape(name)}</h2>{''.join(map(_endpoint, endpoints))}</section>"
        for name, endpoints in SECTIONS.items()
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>kohort control API</title><style>{_STYLE}</style>"
        f"<h1>kohort {__version__}: control API</h1>"
        f"<p>Clients connect to <code>{escape(bootstrap_servers)}</code>. These endpoints inspect "
        "and control that broker. Requests and responses are JSON; an error is <code>"
        "{&quot;error&quot;: &quot;message&quot;}</code>. "
        f"{access} "
        'For programs: <a href="/openapi.json">/openapi.json</a>.</p>'
        f"{sections}</html>\n"
    )


def _endpoint(endpoint: Endpoint) -> str:
    more = endpoint.description
    described = schema(endpoint.others)
    fields = "".join(
        f'<li><code>{name}</code> <span class="type">'
        f"{_prose(describe_type(of_field, is_required=name in described['required']))}</span></li>"
        for name, of_field in described["properties"].items()
    )
    return (
        f'<div><code><span class="method">{endpoint.method}</span>{escape(endpoint.path)}</code>'
        f"<p>{_prose(endpoint.summary)}</p>"
        + (f'<p class="more">{_prose(more)}</p>' if more else "")
        + (f"<ul>{fields}</ul>" if fields else "")
        + "</div>"
    )


def describe_type(schema: Json, *, is_required: bool) -> str:
    """Return text such as `integer, required: the new number of partitions`."""
    (inner,) = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    parts = [f"one of {', '.join(inner['enum'])}" if "enum" in inner else inner["type"]]
    if is_required:
        parts.append("required")
    return f"{', '.join(parts)}: {schema['description']}"


def _prose(text: str) -> str:
    """Return the text with backquoted parts as code."""
    parts = escape(text, quote=False).split("`")
    return "".join(f"<code>{part}</code>" if n % 2 else part for n, part in enumerate(parts))
