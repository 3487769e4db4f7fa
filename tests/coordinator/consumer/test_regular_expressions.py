"""Subscriptions by regular expression. A timer that is due at once resolves them together."""

from kohort.coordinator.outcome import NOTHING, EventType
from kohort.log.tasks import run_synchronously
from kohort.offsets.causes import Cause
from kohort.protocol.errors import ErrorCode
from support.coordinator import CoordinatorHarness, consumer_heartbeat

E = ErrorCode
ALL = {"orders": (0, 1, 2, 3)}


def test_a_regular_expression_is_resolved_after_the_join(harness: CoordinatorHarness) -> None:
    joined = harness.consumer_join("a", regex="ord.*")
    assert (joined.member_epoch, joined.assignment) == (1, ())
    harness.advance(0)
    assert (harness.consumers.epoch, harness.consumers.assignment_epoch) == (2, 1)
    assert harness.causes() == [Cause.TOPICS_MATCHED.value]
    resolved = harness.consumer("a", 1)
    assert (resolved.member_epoch, harness.assigned(resolved)) == (2, ALL)


def test_an_invalid_expression_is_rejected(harness: CoordinatorHarness) -> None:
    rejected = harness.consumer_join("a", regex="(")
    assert rejected.error_code is E.invalid_regular_expression
    assert (rejected.error_message or "").startswith(
        "SubscribedTopicRegex `(` is not a valid regular expression: "
    )
    assert not harness.coordinator.consumer_groups
    assert [event.type for event in harness.events] == ["join_rejected"]


def test_an_expression_may_have_no_subscribers_when_it_has_been_matched(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("a", regex="ord.*")
    coordinator = harness.coordinator
    (query,) = coordinator.tick(harness.now).queries
    harness.consumer("a", 1, topics=("orders",), regex="")
    answer = coordinator.regexes_matched(query, run_synchronously(query.match()), harness.now)
    assert answer.records == ()


def test_expressions_are_not_matched_twice_at_the_same_time(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a", regex="ord.*")
    coordinator = harness.coordinator
    (query,) = coordinator.tick(harness.now).queries
    harness.consumer_join("b", regex="o.*")
    assert coordinator.tick(harness.now).queries == ()
    answer = coordinator.regexes_matched(query, run_synchronously(query.match()), harness.now)
    assert {record.name: record.value.topics for record in answer.records if record.name} == {
        "ord.*": ("orders",)
    }
    harness._apply_outcome(answer)
    harness.advance(10_001)
    harness.consumer("b", harness.consumers.members["b"].epoch)
    (query,) = coordinator.tick(harness.now).queries
    assert run_synchronously(query.match())["o.*"] == ("orders",)


def test_the_group_may_be_gone_when_its_expressions_have_been_matched(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("a", regex="ord.*")
    coordinator = harness.coordinator
    (query,) = coordinator.tick(harness.now).queries
    harness.consumer("a", -1)
    harness.delete()
    answer = coordinator.regexes_matched(query, run_synchronously(query.match()), harness.now)
    assert answer is NOTHING


def test_new_topics_are_matched_again_after_ten_seconds(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a", regex="ord.*")
    harness.advance(0)
    harness.consumer("a", 1)
    harness.topics.put("ordinary", 1)
    harness.advance(10_000)
    harness.consumer("a", 2)
    harness.advance(0)
    assert harness.consumers.epoch == 2  # ten seconds have not passed since the last match
    harness.advance(1)
    harness.consumer("a", 2)
    harness.advance(0)
    assert harness.consumers.epoch == 3
    harness.consumer("a", 2)
    assert set(harness.owned_by("a")) == {"orders", "ordinary"}


def test_new_topics_are_matched_if_the_topics_version_went_back(
    harness: CoordinatorHarness,
) -> None:
    """This happens with a folder of Kafka, which stores metadata offsets as versions."""
    harness.consumer_join("a", regex="ord.*")
    harness.advance(0)
    harness.consumer("a", 1)
    harness.topics.version = 0
    harness.topics.put("ordinary", 1)
    harness.advance(10_001)
    harness.consumer("a", 2)
    harness.advance(0)
    assert harness.consumers.epoch == 3


def test_added_partitions_are_reported_as_changed_topics(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a", regex="ord.*")
    harness.advance(0)
    harness.consumer("a", 1)
    harness.advance(10_001)
    harness.topics.put("other", 1)
    harness.consumer("a", 2)  # schedules the match
    harness.topics.put("orders", 5)
    harness.advance(0)
    started = harness.events_of(EventType.REBALANCE_STARTED)[-1]
    assert (started.generation, started.cause) == (3, Cause.TOPICS_CHANGED)
    assert started.reason == "the topics of the subscriptions have changed"


def test_expressions_are_refreshed_periodically(harness: CoordinatorHarness) -> None:
    refresh_ms = harness.config.regex_refresh_interval_ms
    harness.consumer_join("a", regex="ord.*", rebalance_ms=10 * refresh_ms)
    harness.advance(0)
    harness.consumer("a", 1)
    resolved_ms = harness.consumers.regexes["ord.*"].timestamp
    while harness.now <= resolved_ms + refresh_ms:
        harness.advance(40_000)
        assert harness.consumer("a", 2).error_code is E.none
    harness.advance(0)
    assert harness.consumers.regexes["ord.*"].timestamp == harness.now
    assert harness.consumers.epoch == 2


def test_the_topics_of_a_changed_expression_are_released_at_once(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("a", regex="ord.*")
    harness.advance(0)
    harness.consumer("a", 1)
    changed = harness.consumer("a", 2, ALL, regex="o.*")
    assert harness.assigned(changed) == {}
    assert "ord.*" not in harness.consumers.regexes
    harness.consumer("a", 2, {})
    harness.advance(0)
    assert harness.consumers.regexes.keys() == {"o.*"}
    harness.consumer("a", 2, {})
    harness.consumer("a", 3)
    assert {t: tuple(p) for t, p in harness.owned_by("a").items()} == ALL


def test_a_new_expression_waits_while_another_member_keeps_the_old_one(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("a", regex="ord.*")
    harness.consumer_join("b", regex="ord.*")
    harness.advance(0)
    harness.consumer("b", 1, {}, regex="x")
    assert set(harness.consumers.regexes) == {"ord.*"}
    harness.advance(0)
    assert set(harness.consumers.regexes) == {"ord.*"}  # the new one waits for ten seconds
    harness.advance(10_001)
    harness.consumer("a", 1)
    harness.advance(0)
    assert set(harness.consumers.regexes) == {"ord.*", "x"}


def test_an_expression_that_was_not_stored_does_not_hide_a_deleted_topic(
    harness: CoordinatorHarness,
) -> None:
    harness.topics.put("ship", 1)
    harness.consumer_join("a", topics=("orders",), regex="ship.*")
    harness.advance(0)
    epoch = harness.consumer("a", 2).member_epoch
    changed = consumer_heartbeat("a", epoch, topics=("orders",), regex="x")
    assert harness.fail_append(changed).error_code is E.unknown_server_error
    harness.topics.delete("ship")
    harness.consumer("a", epoch)
    assert harness.consumers.epoch == epoch + 1


def test_an_expression_is_removed_with_its_last_subscriber(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a", regex="ord.*")
    harness.consumer_join("b", regex="ord.*")
    harness.advance(0)
    harness.consumer("a", -1)
    assert set(harness.consumers.regexes) == {"ord.*"}
    harness.consumer("b", -1)
    assert not harness.consumers.regexes


def test_a_deleted_group_resolves_nothing(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a", regex="ord.*")
    harness.consumer("a", -1)
    assert harness.delete() is E.none
    assert not harness.coordinator.deadlines


def test_a_group_whose_creation_was_not_stored_resolves_nothing(
    harness: CoordinatorHarness,
) -> None:
    harness.is_checking = False  # a deadline remains
    harness.fail_append(consumer_heartbeat("a", 0, (), regex="ord.*", rebalance_ms=1))
    harness.advance(0)
    assert not harness.coordinator.consumer_groups
    assert not harness.log


def test_names_and_expressions_are_not_homogeneous(harness: CoordinatorHarness) -> None:
    harness.topics.put("refunds", 1)
    harness.consumer_join("a", regex="r.*")
    harness.advance(0)
    harness.consumer_join("b")
    harness.consumer("a", 1)
    assert harness.owned_by("a") == {"refunds": [0]}
    assert harness.owned_by("b") == {"orders": [0, 1, 2, 3]}
