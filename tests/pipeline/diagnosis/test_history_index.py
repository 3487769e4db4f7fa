"""The index of a group's history."""

from history_builder import A, HistoryBuilder
from kohort.pipeline.diagnosis.history_index import HistoryIndex


def test_commits_are_merged_in_log_order_although_the_clock_was_set_back() -> None:
    history = HistoryBuilder()
    record = history.generation(A)
    history.commits(A, until=20_000, since=10_000)
    history.commits(A, until=15_000, since=5_000)
    parts = [each._replace(sequence=n) for n, each in enumerate(history.activities)]
    for activities in (parts, parts[::-1]):
        [sum_] = HistoryIndex(history.build()._replace(activities=tuple(activities))).activity(
            record
        )
        assert (sum_.first_offset, sum_.last_offset) == (110, 160)
        assert sum_.last_commit_ms - sum_.first_commit_ms == 15_000
