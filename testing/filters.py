"""Which requests a fault is for, and whether there are any such.

A filter that no request of its API could pass is a mistake of the test, told when the fault is set.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ..protocol.apis import Api
from ..protocol.messages import request_schema
from ..protocol.schema import Field, Schema
from .asked import GROUP, PARTITIONS, TOPICS, Asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """None: any."""

    group: str | None = None
    member: str | None = None
    """A member id, or the client id that member ids begin with."""
    instance_id: str | None = None
    client_id: str | None = None
    topic: str | None = None
    partition: int | None = None
    node: int | None = None

    # --- on the broker's loop

    def misses(self, asked: Asked) -> list[str]:
        """In what this request does not fit, in words."""
        partitions = asked.partitions if self.topic or self.partition is not None else ()
        topics = asked.topics if self.topic else ()
        named = f"partitions {partitions}" if partitions else f"topics {topics}"
        members = ", ".join(str(member_id) for member_id, _ in asked.members)
        instances = [instance_id for _, instance_id in asked.members]
        checks = (
            (self.group, self.group in asked.groups, f"group {asked.group}"),
            (self.member, self._is_of_member(asked), f"member {members}"),
            (self.instance_id, self.instance_id in instances, ", ".join(map(str, instances))),
            (self.client_id, asked.client_id == self.client_id, f"client {asked.client_id}"),
            (self.topic, self.topic in topics, named),
            (self.partition, any(self._is_there(each) for each in partitions), f"{partitions}"),
            (self.node, asked.node_id == self.node, f"node {asked.node_id}"),
        )
        return [said for wanted, fits, said in checks if wanted is not None and not fits]

    def check(self, api: Api, nodes: list[int]) -> None:
        """Raises ValueError for what no request of this API says, of a broker with these nodes."""
        said = set(_said_by(api))
        for name, value in self._given():
            if name not in said:
                raise ValueError(
                    f"this fault could never fire: {api.name} says nothing of a {_WORDS[name]} "
                    f"({name}={value!r})"
                )
        if self.node is not None and self.node not in nodes:
            there = ", ".join(map(str, nodes))
            raise ValueError(
                f"this fault could never fire: there is no node {self.node}; there is: {there}"
            )

    def _given(self) -> Iterator[tuple[str, object]]:
        for name in self.__dataclass_fields__:
            if (value := getattr(self, name)) is not None:
                yield name, value

    def _is_of_member(self, asked: Asked) -> bool:
        wanted = self.member or ""
        ids = [member_id or "" for member_id, _ in asked.members]
        return any(each == wanted or each.startswith(f"{wanted}-") for each in ids)

    def _is_there(self, partition: tuple[str, int]) -> bool:
        return partition[1] == self.partition and self.topic in (None, partition[0])

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self._given())


_WORDS = {
    "group": "group",
    "member": "member",
    "instance_id": "static member",
    "topic": "topic",
    "partition": "partition",
}


def _said_by(api: Api) -> Iterator[str]:
    """Which filters its requests can pass. What any version says, the oldest or the newest does."""
    yield from ("client_id", "node")
    for version in (api.min_version, api.max_version):
        fields = _fields(request_schema(api.key, version))
        if fields.keys() & set(GROUP):
            yield "group"
        for holder in (fields, _inside(fields, "members")):
            if "member_id" in holder:
                yield "member"
            if "group_instance_id" in holder:
                yield "instance_id"
        for holder in (fields, _inside(fields, "groups")):
            for name in holder.keys() & set(TOPICS):
                yield "topic"
                if _inside(holder, name).keys() & set(PARTITIONS):
                    yield "partition"


def _fields(schema: Schema) -> dict[str, Field]:
    return {field.name: field for field in schema.all_fields}


def _inside(fields: dict[str, Field], name: str) -> dict[str, Field]:
    """Of the items of an array; {} where there is none, or of plain ones."""
    field = fields.get(name)
    return {} if field is None or field.struct is None else _fields(field.struct)
