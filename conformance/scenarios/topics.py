"""Topics that do not exist yet, and offsets of topics."""

from collections.abc import Iterable
from typing import Any

from ..scenario import scenario
from ..script import Script

LATEST = -1


async def metadata(s: Script, version: int, *names: str, creates: bool = True) -> Any:
    values = {
        "topics": [{"name": name, "topic_id": None} for name in names],
        "allow_auto_topic_creation": creates,
        "include_topic_authorized_operations": True,
    }
    return await s.send("Metadata", version, values)


@scenario(
    "Metadata that creates a topic does not return it; the next request does",
    excuse="the id of the new topic",
    hides=("topic_id",),
)
async def a_topic_that_metadata_creates_is_returned_to_the_next_request(s: Script) -> None:
    for version in range(14):
        name = f"{s.group}.new-{version}"
        if version >= 4:  # before, clients cannot choose
            await metadata(s, version, name, creates=False)
        await metadata(s, version, name)
        await s.broker.metadata_applied()
        await metadata(s, version, name)


@scenario("Metadata: several topics, of which some cannot be created")
async def metadata_creates_the_topics_that_are_valid(s: Script) -> None:
    names = ("", ".", "no topic!", "a" * 250)
    for version in (0, 1, 4, 8, 9, 12, 13):
        for name in names:
            await metadata(s, version, name)
            await metadata(s, version, name, creates=False)
    await metadata(s, 12, f"{s.group}.one")
    await s.broker.metadata_applied()
    # A name that collides is never created.
    for _ in range(3):
        await metadata(s, 12, f"{s.group}_one")
        await s.broker.metadata_applied()


async def list_offsets(s: Script, version: int, *topics: tuple[str, Iterable[int]]) -> None:
    values = [
        {
            "name": name,
            "partitions": [
                {"partition_index": index, "timestamp": LATEST, "current_leader_epoch": -1}
                for index in indexes
            ],
        }
        for name, indexes in topics
    ]
    await s.send("ListOffsets", version, {"replica_id": -1, "topics": values})


@scenario("ListOffsets: a topic without partitions is omitted, one that is listed twice is merged")
async def offsets_of_topics_listed_twice(s: Script) -> None:
    for version in (1, 5, 7, 10):
        await list_offsets(s, version, ("orders", ()))
        await list_offsets(s, version, ("orders", (0,)), ("payments", ()))
        await list_offsets(s, version, ("orders", (0,)), ("orders", (1,)))
        await list_offsets(s, version, ("orders", (0,)), ("orders", (0,)))
        await list_offsets(s, version, ("orders", (0, 0)))
        await list_offsets(s, version, ("nothing", (0, 0)))
        await list_offsets(s, version)
