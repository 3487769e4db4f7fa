"""The document is OpenAPI, says what the endpoints take, and the page needs nothing else."""

import json
import re

from kohort.control_api.endpoints import ENDPOINTS
from kohort.control_api.openapi import document

from .conftest import Asker


def test_the_document_names_each_endpoint_once_and_is_served(ask: Asker) -> None:
    status, kind, body = ask.raw("GET", "/openapi.json")
    assert (status, kind) == (200, "application/json")
    said = json.loads(body)
    assert said == document()
    assert said["openapi"] == "3.1.0"
    operations = {
        (method.upper(), path): operation
        for path, methods in said["paths"].items()
        for method, operation in methods.items()
    }
    assert list(operations) == sorted(
        operations, key=[(each.method, each.path) for each in ENDPOINTS].index
    ) or set(operations) == {(each.method, each.path) for each in ENDPOINTS}
    names = [operation["operationId"] for operation in operations.values()]
    assert len(set(names)) == len(names) == len(ENDPOINTS)
    for (_, path), operation in operations.items():
        in_path = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
        assert in_path == re.findall(r"{(\w+)}", path)
        assert all(each["required"] for each in operation["parameters"] if each["in"] == "path")
        assert operation["summary"].endswith((".", "`."))


def test_the_schema_of_a_body_is_the_one_that_is_checked() -> None:
    wait = document()["paths"]["/groups/{group}/wait"]["post"]
    schema = wait["requestBody"]["content"]["application/json"]["schema"]
    assert schema["required"] == ["until"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["members"] == {
        "type": ["integer", "null"],
        "minimum": 1,
        "maximum": 2**31 - 1,
    }
    assert schema["properties"]["timeout"] == {
        "type": "number",
        "minimum": 0,
        "maximum": 600,
        "description": "seconds of wall time",
        "default": 10.0,
    }


def test_the_page_names_each_endpoint_and_loads_nothing(ask: Asker) -> None:
    status, kind, body = ask.raw("GET", "/")
    page = body.decode()
    assert (status, kind) == (200, "text/html; charset=utf-8")
    assert ask.control.kafka.bootstrap_servers in page
    assert all(f"</span>{endpoint.path}</code>" in page for endpoint in ENDPOINTS)
    assert re.findall(r'(?:src|href)="([^"]*)"', page) == ["/openapi.json"]
    assert "<script" not in page
