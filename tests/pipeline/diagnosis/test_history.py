"""Stories as rules ask them."""

from group_stories import A, Tale
from kohort.pipeline.diagnosis.history import History


def test_commits_add_up_in_the_order_of_the_log_though_the_clock_is_set_back() -> None:
    tale = Tale()
    record = tale.generation(A)
    tale.commits(A, until=20_000, since=10_000)
    tale.commits(A, until=15_000, since=5_000)
    shares = [each._replace(share=n) for n, each in enumerate(tale.activities)]
    for handed_in in (shares, shares[::-1]):
        [sum_] = History(tale.story()._replace(activities=tuple(handed_in))).activity(record)
        assert (sum_.first_offset, sum_.last_offset) == (110, 160)
        assert sum_.last_commit_ms - sum_.first_commit_ms == 15_000
