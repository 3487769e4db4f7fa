"""What clients see when they use topics that do not exist, and what admin clients may ask."""

from typing import Any

from .scenario import scenario
from .script import Script


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
async def test_a_topic_that_metadata_creates_is_returned_to_the_next_request(s: Script) -> None:
    for version in range(14):
        name = f"{s.group}.new-{version}"
        if version >= 4:  # before, clients cannot choose
            await metadata(s, version, name, creates=False)
        await metadata(s, version, name)
        await s.broker.metadata_applied()
        await metadata(s, version, name)


@scenario("Metadata: several topics, of which some cannot be created")
async def test_metadata_creates_the_topics_that_are_valid(s: Script) -> None:
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
