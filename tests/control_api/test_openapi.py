"""The OpenAPI document and the page of the endpoints."""

import json
import re

from kohort.control_api.endpoints import ENDPOINTS
from kohort.control_api.openapi import document, schema
from kohort.control_api.parameters import BY_PATH, PARAMETERS

from .conftest import ApiClient


def test_the_openapi_document_has_each_endpoint_once(api: ApiClient) -> None:
    status, kind, body = api.raw("GET", "/openapi.json")
    assert (status, kind) == (200, "application/json")
    served = json.loads(body)
    assert served == document()
    assert served["openapi"] == "3.1.0"
    operations = {
        (method.upper(), path): operation
        for path, methods in served["paths"].items()
        for method, operation in methods.items()
    }
    assert set(operations) == {(each.method, each.path) for each in ENDPOINTS}
    names = [operation["operationId"] for operation in operations.values()]
    assert len(set(names)) == len(names) == len(ENDPOINTS)
    for (_, path), operation in operations.items():
        in_path = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
        assert in_path == re.findall(r"{(\w+)}", path)
        assert all(each["required"] for each in operation["parameters"] if each["in"] == "path")
        assert operation["summary"].endswith((".", "`."))


def test_the_openapi_document_has_the_schema_of_a_body() -> None:
    wait = document()["paths"]["/groups/{group}/wait"]["post"]
    schema = wait["requestBody"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["until"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["members"] == {
        "anyOf": [{"type": "integer", "minimum": 1, "maximum": 2**31 - 1}, {"type": "null"}],
        "description": "with until=stable, the number of members (default: any)",
        "default": None,
    }
    assert schema["properties"]["timeout"] == {
        "type": "number",
        "minimum": 0,
        "maximum": 600,
        "description": "how long to wait, in seconds of wall-clock time (default: 10)",
        "default": 10.0,
    }


def test_descriptions_of_parameters_are_used_and_name_the_default() -> None:
    used = {
        name
        for endpoint in ENDPOINTS
        for name in endpoint.names
        if name not in BY_PATH.get(endpoint.path, {})
    }
    assert used == PARAMETERS.keys()
    for path, texts in BY_PATH.items():
        names = {name for endpoint in ENDPOINTS if endpoint.path == path for name in endpoint.names}
        assert texts.keys() <= names
    for endpoint in ENDPOINTS:
        for described in schema(endpoint.others)["properties"].values():
            if default := described.get("default"):
                shown = f"{default:g}" if isinstance(default, float) else default
                assert f"(default: {shown}" in described["description"]


def test_the_page_lists_each_endpoint_without_external_resources(api: ApiClient) -> None:
    status, kind, body = api.raw("GET", "/")
    page = body.decode()
    assert (status, kind) == (200, "text/html; charset=utf-8")
    assert api.control.kafka.bootstrap_servers in page
    assert all(f"</span>{endpoint.path}</code>" in page for endpoint in ENDPOINTS)
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["/openapi.json"]
    assert "<script" not in page
