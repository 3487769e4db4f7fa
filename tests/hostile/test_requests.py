"""Small requests that cause much work: long arrays, many repetitions, many topics."""

import contextlib
from contextlib import ExitStack
from struct import pack

import pytest
from kohort.protocol.budgets import AUTO_CREATED_MAX, ITEMS_MAX, RESPONSE_BYTES_MAX
from support.wire import Client

from .conftest import FULL, Target

SHARE = 1 if FULL else 10
MIB = 1024 * 1024


def is_closed(target: Target, api: str, version: int, **values: object) -> bool:
    """Return whether the broker closes the connection instead of responding."""
    with target.client() as client:
        return is_refused(client, client.encode(api, version, **values))


def is_refused(client: Client, frame: bytes) -> bool:
    try:
        client.socket.sendall(frame)
        client.receive_frame()
    except (ConnectionError, EOFError):
        return True
    return False


def create_topics(target: Target, count: int, prefix: str = "topic") -> None:
    with target.client() as client:
        client.create_topics(*(f"{prefix}-{n}" for n in range(count)))


def test_an_array_of_millions_of_names(attack):
    target = attack()
    count = 12_000_000 if FULL else ITEMS_MAX + 1
    with target.client() as client:
        # Encoding millions of names would take longer than the attack.
        size, name = len(pack(">i", 1)), b"\0\1g"
        header = client.encode("DescribeGroups", 0, groups=[])[size:-size]
        request = header + pack(">i", count) + name * count
        assert is_refused(client, pack(">i", len(request)) + request)
    assert target.has_logged(f"has more than {ITEMS_MAX} items")


@pytest.mark.parametrize("times", [1500 // SHARE])
def test_a_large_group_that_is_described_again_and_again(attack, times):
    target = attack()
    with target.client() as client:
        protocols = [{"name": "range", "metadata": b"m" * (MIB - 1024)}]
        joined = client.join("large", protocols=protocols)
        member = {key: joined[key] for key in ("member_id", "generation_id")}
        client.call("SyncGroup", 3, group_id="large", **member, assignments=[])
    assert is_closed(target, "DescribeGroups", 5, groups=["large"] * times)
    assert target.has_logged(f"exceeds the maximum size of a response ({RESPONSE_BYTES_MAX})")


@pytest.mark.parametrize("times", [40_000 // SHARE])
def test_a_wide_consumer_group_that_is_described_again_and_again(attack, times):
    """A response takes 40 KB for the partitions of the group, and 30 KB for its expression."""
    target = attack()
    with target.client() as client:
        client.create_topics("wide", partitions=10_000)
        joined = client.call(
            "ConsumerGroupHeartbeat",
            1,
            group_id="wide",
            member_id="m",
            member_epoch=0,
            rebalance_timeout=60_000,
            subscribed_topic_names=["wide"],
            subscribed_topic_regex="x{1,2}" * 150,
            topic_partitions=[],
        )
        assert joined["error_code"] == "none"
        (group,) = client.call("ConsumerGroupDescribe", 1, group_ids=["wide"])["groups"]
        assert len(group["members"][0]["target_assignment"]["topic_partitions"]) == 1
    assert is_closed(target, "ConsumerGroupDescribe", 1, group_ids=["wide"] * times)
    assert target.has_logged("request less data")


def test_the_configuration_of_a_topic_that_is_described_again_and_again(attack):
    target = attack()
    create_topics(target, 1)
    resources = [{"resource_type": 2, "resource_name": "topic-0"}] * (30_000 // SHARE)
    with target.client() as client, contextlib.suppress(ConnectionError, EOFError):
        client.call(
            "DescribeConfigs",
            4,
            resources=resources,
            include_synonyms=True,
            include_documentation=True,
        )


def test_topics_that_are_created_and_deleted_by_one_request(attack):
    target = attack()
    count = 10_000 // SHARE
    create_topics(target, count)
    with target.client() as client:
        topics = [{"name": f"topic-{n}", "topic_id": None} for n in range(count)]
        deleted = client.call("DeleteTopics", 6, topics=topics, timeout=60_000)
    assert {each["error_code"] for each in deleted["responses"]} == {"none"}


def test_a_topic_of_many_partitions_that_is_created_and_deleted(attack):
    target = attack()
    with target.client() as client:
        client.create_topics("wide", partitions=5000 // SHARE)
        deleted = client.call("DeleteTopics", 5, topic_names=["wide"], timeout=60_000)
        assert deleted["responses"][0]["error_code"] == "none"


def test_topics_that_metadata_creates(attack):
    target = attack()
    topics = [{"name": f"topic-{n}"} for n in range(50_000 // SHARE)]
    with target.client() as client:
        found = client.call("Metadata", 9, topics=topics, allow_auto_topic_creation=True)["topics"]
        assert {each["error_code"] for each in found} == {"unknown_topic_or_partition"}
        found = client.call("Metadata", 9, topics=None)["topics"]
    assert sum(each["name"].startswith("topic-") for each in found) == AUTO_CREATED_MAX


def test_a_group_that_is_too_large_to_be_stored(attack):
    target = attack("-o", "group.initial.rebalance.delay.ms=1000")
    protocols = [{"name": "range", "metadata": bytes(MIB)}]
    with ExitStack() as closing:
        members = [closing.enter_context(target.client()) for _ in range(300 // SHARE)]
        ids = [each.new_member_id("large", protocols=protocols) for each in members]
        for each, member_id in zip(members, ids, strict=True):
            each.send_join("large", member_id, protocols=protocols)
        joined = []
        for each in members:
            with contextlib.suppress(ConnectionError, EOFError):  # the leader, at full size
                joined.append((each, each.receive()))
        followers = [each for each in joined if not each[1]["members"]]
        assert len(followers) == len(members) - 1
        for each, response in joined:
            if response["members"]:
                assigned = [{"member_id": name, "assignment": b""} for name in ids]
                member = {key: response[key] for key in ("member_id", "generation_id")}
                synced = each.call("SyncGroup", 3, group_id="large", **member, assignments=assigned)
                assert synced["error_code"] == "unknown_server_error"
                assert target.has_logged("cannot be stored")
