"""A schema registry for tests: the part of Confluent's REST API that serializers use, in memory.

Its URL is `…/schema-registry` on the control port. Schemas are not checked for compatibility (the
level is NONE). Errors have Confluent's codes. A deletion is soft until it is repeated with
`permanent=true`; `deleted=true` includes soft-deleted versions.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

Json: TypeAlias = Any

PREFIX: Final = "/schema-registry"
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
TYPES: Final = ("AVRO", "JSON", "PROTOBUF")
LEVEL: Final = "NONE"
# A test with more schemas probably registers one for each record by mistake.
SCHEMAS_MAX: Final = 10_000
# Python refuses to convert texts of more than 4,300 digits.
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
            raise RegistryError(42201, "Invalid schema: it is empty")
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
        first, *rest = [unquote(part) for part in path.strip("/").split("/")]
        handler = self._handlers.get((method, first, len(rest)))
        with self._lock:
            if handler is None or (len(rest) > 1 and first == "subjects" and rest[1] != "versions"):
                raise RegistryError(404, f"kohort's schema registry has no {method} {path}")
            self._includes_deleted = query.get("deleted") == "true"
            self._is_permanent = query.get("permanent") == "true"
            return handler(self, rest, body)

    # --- subjects

    def _list_subjects(self, _rest: list[str], _body: Json) -> Json:
        return sorted(each for each in self._subjects if self._shown(each))

    def _shown(self, subject: str) -> dict[int, int]:
        """Return schema ids by version, without soft-deleted versions unless `deleted=true`."""
        return {
            version: id_
            for version, id_ in self._subjects.get(subject, {}).items()
            if self._includes_deleted or (subject, version) not in self._deleted
        }

    def _find(self, rest: list[str], body: Json) -> Json:
        """Return the version under which a schema is registered."""
        subject, schema = rest[0], Schema.parse(body)
        versions = self._versions_of(subject)
        found = [version for version, id_ in versions.items() if self._schemas[id_] == schema]
        if not found:
            raise RegistryError(40403, "Schema not found")
        return self._describe(subject, found[-1])

    def _register(self, rest: list[str], body: Json) -> Json:
        subject, schema = rest[0], Schema.parse(body)
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
        return {"id": id_}

    def _check_references(self, schema: Schema) -> None:
        for subject, version in schema.referenced():
            if version not in self._shown(subject):
                message = f"Invalid schema: its reference to {subject} version {version} is unknown"
                raise RegistryError(42201, message)

    def _list_versions(self, rest: list[str], _body: Json) -> Json:
        return list(self._versions_of(rest[0]))

    def _get_version(self, rest: list[str], _body: Json) -> Json:
        subject, _, version = rest
        return self._describe(subject, self._version(subject, version))

    def _delete_subject(self, rest: list[str], _body: Json) -> Json:
        subject = rest[0]
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

    def _delete_version(self, rest: list[str], _body: Json) -> Json:
        subject, _, text = rest
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
        """Delete versions permanently if `permanent=true`, otherwise softly."""
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

    # --- schemas, settings

    def _get_schema(self, rest: list[str], _body: Json) -> Json:
        """Return the schema with this id (`ids/1`), or where it is registered (`ids/1/versions`,
        `ids/1/subjects`)."""
        kind, text, *of = rest
        if kind != "ids" or (of and of[0] not in ("versions", "subjects")):
            raise RegistryError(404, f"kohort's schema registry has no schemas/{'/'.join(rest)}")
        id_ = _number(text)
        if id_ not in self._schemas:
            raise RegistryError(40403, f"Schema {text} not found")
        if not of:
            return self._schemas[id_].json()
        places = [
            {"subject": subject, "version": version}
            for subject in sorted(self._subjects)
            for version, other in self._shown(subject).items()
            if other == id_
        ]
        return places if of[0] == "versions" else [each["subject"] for each in places]

    def _list_types(self, rest: list[str], _body: Json) -> Json:
        if rest != ["types"]:
            raise RegistryError(404, f"kohort's schema registry has no schemas/{rest[0]}")
        return list(TYPES)

    def _check_compatibility(self, rest: list[str], body: Json) -> Json:
        Schema.parse(body)
        self._version(rest[1], rest[3] if len(rest) == 4 else "latest")
        return {"is_compatible": True}

    def _get_level(self, _rest: list[str], _body: Json) -> Json:
        return {"compatibilityLevel": LEVEL}

    def _set_level(self, _rest: list[str], body: Json) -> Json:
        level = body.get("compatibility")
        if level != LEVEL:
            raise RegistryError(
                42203, f"Compatibility level {level} is not supported by kohort, only {LEVEL}"
            )
        return {"compatibility": LEVEL}

    def _get_mode(self, _rest: list[str], _body: Json) -> Json:
        return {"mode": "READWRITE"}

    # Handlers by method, first part of the path, and number of further parts.
    _handlers: Final[dict[tuple[str, str, int], Callable[..., Json]]] = {
        ("GET", "subjects", 0): _list_subjects,
        ("POST", "subjects", 1): _find,
        ("DELETE", "subjects", 1): _delete_subject,
        ("GET", "subjects", 2): _list_versions,
        ("POST", "subjects", 2): _register,
        ("GET", "subjects", 3): _get_version,
        ("DELETE", "subjects", 3): _delete_version,
        ("GET", "schemas", 1): _list_types,
        ("GET", "schemas", 2): _get_schema,
        ("GET", "schemas", 3): _get_schema,
        ("POST", "compatibility", 3): _check_compatibility,
        ("POST", "compatibility", 4): _check_compatibility,
        ("GET", "config", 0): _get_level,
        ("GET", "config", 1): _get_level,
        ("PUT", "config", 0): _set_level,
        ("PUT", "config", 1): _set_level,
        ("GET", "mode", 0): _get_mode,
        ("GET", "mode", 1): _get_mode,
    }


def _number(text: str) -> int:
    """Return a version or schema id; 0 for anything else, and for numbers that none can have."""
    return int(text) if text.isdecimal() and len(text) <= NUMBER_LENGTH_MAX else 0
