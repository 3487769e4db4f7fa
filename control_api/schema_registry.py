"""A schema registry for tests: the part of Confluent's REST API that serializers use, in memory.

Its URL is `…/schema-registry` on the control port. Schemas are not checked for compatibility (the
level is NONE). Errors use Confluent's codes. A deletion is soft until it is repeated with
`permanent=true`; `deleted=true` includes soft-deleted versions.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

Json: TypeAlias = Any

PREFIX: Final = "/schema-registry"
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
TYPES: Final = ("AVRO", "JSON", "PROTOBUF")
LEVEL: Final = "NONE"
# A test with more schemas probably registers one for each record by mistake.
SCHEMAS_MAX: Final = 10_000
# Python refuses to convert strings of more than 4,300 digits.
NUMBER_LENGTH_MAX: Final = 10


class RegistryError(Exception):
    """An error to return as the response. The HTTP status is the first three digits of the code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = int(str(code)[:3])


class Schema(NamedTuple):
    text: str
    type: str
    references: str
    """The references as JSON, in the order of the request."""

    @classmethod
    def parse(cls, body: Json) -> "Schema":
        """Return the schema in a request. Raises RegistryError if it is invalid."""
        text, kind = body.get("schema"), body.get("schemaType") or "AVRO"
        if kind not in TYPES:
            raise RegistryError(
                42201, f"Invalid schema type {kind}: expected one of {', '.join(TYPES)}"
            )
        if not isinstance(text, str) or not text.strip():
            raise RegistryError(42201, "Invalid schema: expected a non-empty string")
        if kind != "PROTOBUF":
            try:
                # Equal schemas have the same id, regardless of their formatting.
                # Infinite numbers, such as 1e999, cannot be written as JSON.
                text = json.dumps(json.loads(text), separators=(",", ":"), allow_nan=False)
            except (ValueError, RecursionError) as error:
                raise RegistryError(42201, f"Invalid schema: {error}") from error
        references = body.get("references") or []
        if not isinstance(references, list) or not all(map(_is_reference, references)):
            raise RegistryError(
                42201, "Invalid schema: a reference must have a subject and a version"
            )
        return cls(text, kind, json.dumps(references))

    def referenced(self) -> list[tuple[str, int]]:
        """Return the subject and version of each reference."""
        return [(each["subject"], each["version"]) for each in json.loads(self.references)]

    def json(self) -> dict[str, Json]:
        """Return the schema as in a response, where the type AVRO is omitted."""
        fields: dict[str, Json] = {"schema": self.text}
        if self.type != "AVRO":
            fields["schemaType"] = self.type
        if references := json.loads(self.references):
            fields["references"] = references
        return fields


def _is_reference(given: Json) -> bool:
    return (
        isinstance(given, dict)
        and given.keys() <= {"name", "subject", "version"}
        and isinstance(given.get("name", ""), str)
        and isinstance(given.get("subject"), str)
        and isinstance(given.get("version"), int)
    )


class SchemaRegistry:
    """A schema registry. It is thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[Schema, int] = {}
        self._schemas: dict[int, Schema] = {}
        # Schema ids by subject and version. Soft-deleted versions are also in `_deleted`.
        self._subjects: dict[str, dict[int, int]] = {}
        self._deleted: set[tuple[str, int]] = set()
        # Parameters of the request in progress.
        self._includes_deleted = self._is_permanent = False

    def clear(self) -> None:
        with self._lock:
            for each in (self._ids, self._schemas, self._subjects, self._deleted):
                each.clear()

    def handle(self, method: str, path: str, query: Mapping[str, str], body: Json) -> Json:
        """Return the content of the response. `path` is the path after the prefix, percent-encoded.
        Raises RegistryError."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        with self._lock:
            self._includes_deleted = query.get("deleted") == "true"
            self._is_permanent = query.get("permanent") == "true"
            answer = self._use_subjects if parts[0] == "subjects" else self._use_others
            content = answer(method, parts, body)
        if content is None:
            raise RegistryError(404, f"kohort's schema registry does not support {method} {path}")
        return content

    def _use_subjects(self, method: str, parts: list[str], body: Json) -> Json:
        """Return the content of the response; None for an unknown path."""
        match method, parts:
            case "GET", ["subjects"]:
                return sorted(each for each in self._subjects if self._shown(each))
            case "POST", ["subjects", subject]:
                return self._find(subject, Schema.parse(body))
            case "DELETE", ["subjects", subject]:
                return self._delete_subject(subject)
            case "GET", ["subjects", subject, "versions"]:
                return list(self._versions_of(subject))
            case "POST", ["subjects", subject, "versions"]:
                return {"id": self._register(subject, Schema.parse(body))}
            case "GET", ["subjects", subject, "versions", version]:
                return self._describe(subject, self._version(subject, version))
            case "DELETE", ["subjects", subject, "versions", version]:
                return self._delete_version(subject, version)
        return None

    def _use_others(self, method: str, parts: list[str], body: Json) -> Json:
        match method, parts:
            case "GET", ["schemas", "types"]:
                return list(TYPES)
            case "GET", ["schemas", "ids", id_]:
                return self._schemas[self._schema_id(id_)].json()
            case "GET", ["schemas", "ids", id_, "versions"]:
                return self._places(self._schema_id(id_))
            case "GET", ["schemas", "ids", id_, "subjects"]:
                return [each["subject"] for each in self._places(self._schema_id(id_))]
            case "GET", ["schemas", *rest] if 1 <= len(rest) <= 3:
                path = "/".join(parts)
                raise RegistryError(404, f"kohort's schema registry does not support {path}")
            case "POST", ["compatibility", _, subject, _, *version] if len(version) <= 1:
                Schema.parse(body)
                self._version(subject, *version or ["latest"])
                return {"is_compatible": True}
            case "GET", ["config"] | ["config", _]:
                return {"compatibilityLevel": LEVEL}
            case "PUT", ["config"] | ["config", _]:
                return _set_level(body.get("compatibility"))
            case "GET", ["mode"] | ["mode", _]:
                return {"mode": "READWRITE"}
        return None

    def _shown(self, subject: str) -> dict[int, int]:
        """Return schema ids by version, without soft-deleted versions unless `deleted=true`."""
        return {
            version: id_
            for version, id_ in self._subjects.get(subject, {}).items()
            if self._includes_deleted or (subject, version) not in self._deleted
        }

    def _find(self, subject: str, schema: Schema) -> Json:
        """Describe the latest version under which a schema is registered."""
        versions = self._versions_of(subject)
        found = [version for version, id_ in versions.items() if self._schemas[id_] == schema]
        if not found:
            raise RegistryError(40403, "Schema not found")
        return self._describe(subject, found[-1])

    def _register(self, subject: str, schema: Schema) -> int:
        """Register a schema, and return its id."""
        self._check_references(schema)
        id_ = self._ids.get(schema)
        if id_ is None:
            if len(self._ids) >= SCHEMAS_MAX:
                raise RegistryError(42201, f"At most {SCHEMAS_MAX} schemas can be registered")
            id_ = self._ids[schema] = len(self._ids) + 1
            self._schemas[id_] = schema
        versions = self._subjects.setdefault(subject, {})
        if id_ not in versions.values() or id_ not in self._shown(subject).values():
            versions[next(reversed(versions), 0) + 1] = id_
        return id_

    def _check_references(self, schema: Schema) -> None:
        for subject, version in schema.referenced():
            if version not in self._shown(subject):
                message = f"Invalid schema: its reference to {subject} version {version} is unknown"
                raise RegistryError(42201, message)

    def _delete_subject(self, subject: str) -> list[int]:
        self._includes_deleted = True
        versions = self._versions_of(subject)
        live = [version for version in versions if (subject, version) not in self._deleted]
        if self._is_permanent and live:
            raise RegistryError(
                40405, f"Subject '{subject}' was not deleted first before being permanently deleted"
            )
        if not self._is_permanent and not live:
            raise RegistryError(
                40404,
                f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently",
            )
        deleted = list(versions) if self._is_permanent else live
        self._delete(subject, deleted)
        return deleted

    def _delete_version(self, subject: str, text: str) -> int:
        self._includes_deleted = text.isdecimal()  # `latest` never refers to a deleted version
        version = self._version(subject, text)
        is_deleted = (subject, version) in self._deleted
        if self._is_permanent and not is_deleted:
            raise RegistryError(
                40407,
                f"Subject '{subject}' Version {version} was not deleted first before being "
                "permanently deleted",
            )
        if is_deleted and not self._is_permanent:
            raise RegistryError(
                40406,
                f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to "
                "delete permanently",
            )
        self._delete(subject, [version])
        return version

    def _delete(self, subject: str, versions: list[int]) -> None:
        """Delete versions permanently if `permanent=true`; otherwise, soft-delete them."""
        referenced = {each for schema in self._live_schemas() for each in schema.referenced()}
        for version in versions:
            if (subject, version) in referenced:
                message = f"One or more references exist to the schema {subject} version {version}"
                raise RegistryError(42206, message)
        for version in versions:
            if self._is_permanent:
                self._deleted.remove((subject, version))
                del self._subjects[subject][version]
            else:
                self._deleted.add((subject, version))
        if not self._subjects[subject]:
            del self._subjects[subject]

    def _live_schemas(self) -> Iterator[Schema]:
        for subject, versions in self._subjects.items():
            for version, id_ in versions.items():
                if (subject, version) not in self._deleted:
                    yield self._schemas[id_]

    def _versions_of(self, subject: str) -> dict[int, int]:
        """Return schema ids by version. Raises RegistryError if there are no versions."""
        versions = self._shown(subject)
        if not versions:
            raise RegistryError(40401, f"Subject '{subject}' not found.")
        return versions

    def _version(self, subject: str, text: str) -> int:
        versions = self._versions_of(subject)
        if text in ("latest", "-1"):
            return max(versions)
        if (version := _number(text)) == 0:
            raise RegistryError(42202, f"The specified version '{text}' is not a valid version id.")
        if version not in versions:
            raise RegistryError(40402, f"Version {text} not found.")
        return version

    def _describe(self, subject: str, version: int) -> Json:
        id_ = self._subjects[subject][version]
        place = {"subject": subject, "version": version, "id": id_}
        return {**place, **self._schemas[id_].json()}

    def _schema_id(self, text: str) -> int:
        id_ = _number(text)
        if id_ not in self._schemas:
            raise RegistryError(40403, f"Schema {text} not found")
        return id_

    def _places(self, id_: int) -> list[dict[str, Json]]:
        """Return the subjects and versions under which a schema is registered."""
        return [
            {"subject": subject, "version": version}
            for subject in sorted(self._subjects)
            for version, other in self._shown(subject).items()
            if other == id_
        ]


def _set_level(level: Json) -> Json:
    if level != LEVEL:
        raise RegistryError(
            42203, f"Compatibility level {level} is not supported by kohort, only {LEVEL}"
        )
    return {"compatibility": LEVEL}


def _number(text: str) -> int:
    """Return a version or schema id; 0 for other text and for numbers that are too long."""
    return int(text) if text.isdecimal() and len(text) <= NUMBER_LENGTH_MAX else 0
