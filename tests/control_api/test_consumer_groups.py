"""Groups of the consumer protocol (KIP-848) over HTTP."""

from .conftest import ApiClient


def test_consumer_groups_are_controlled_over_http(api: ApiClient) -> None:
    api("POST", "/topics/orders", partitions=2)
    fields = {"topics": ["orders"], "protocol": "consumer"}
    first = api("POST", "/groups/billing/fake-members", client_id="first", **fields).body
    number = first["fake_member"]
    assert len(api("POST", f"/fake-members/{number}/wait", partitions=2).body["owned"]) == 2
    epoch = api("POST", "/groups/billing/wait", until="stable", members=1).body["generation"]
    assert api("POST", "/groups/billing/assignment-hold").body["state"] == "Stable"
    status, why = api.error("POST", "/groups/billing/assignment-hold")
    assert (status, why) == (400, "the assignment of group billing is already held")
    api("POST", "/groups/billing/fake-members", client_id="second", **fields)
    assert api("GET", "/groups/billing").body["state"] == "Assigning"
    assert api("DELETE", "/groups/billing/assignment-hold").status == 200
    assert api.error("DELETE", "/groups/billing/assignment-hold")[0] == 404
    group = api("POST", "/groups/billing/wait", until="epoch", epoch=epoch + 1).body
    assert {each["epoch"] for each in group["members"]} == {epoch + 1}
    place = {"topic": "orders", "partition": 0, "epoch": epoch + 1}
    assert api("POST", "/groups/billing/wait", until="owner", **place).body["owner"]
    api("POST", "/groups/billing/wait", until="stable", members=2)
    fault = api(
        "POST", "/faults", action="delay", api="ConsumerGroupHeartbeat", generation=epoch + 1, ms=1
    ).body
    assert api("POST", "/groups/billing/fence", member="first").status == 200
    api("POST", "/groups/billing/wait", until="stable", members=2)
    assert api("POST", f"/faults/{fault['fault']}/wait").body["fired"] == 1
    (error,) = api("GET", f"/fake-members/{number}").body["errors"]
    assert error == {"api": "ConsumerGroupHeartbeat", "error": "FENCED_MEMBER_EPOCH"}
    assignments = api("GET", "/groups/billing/assignments").body["assignments"]
    current = [each for each in assignments if each["until_ms"] is None]
    assert sorted(len(each["partitions"]) for each in current) == [1, 1]
    changes = api("GET", "/groups/billing/state-changes").body["state_changes"]
    assert [each["after"] for each in changes[:3]] == ["Empty", "Stable", "Assigning"]
    hold = api("POST", "/groups/billing/holds", api="ConsumerGroupHeartbeat").body["hold"]
    assert api("DELETE", f"/holds/{hold}").status == 200
