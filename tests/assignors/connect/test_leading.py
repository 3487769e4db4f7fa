"""What the leader makes of what its workers say."""

from kohort.assignors.connect.assignor import ConnectAssignor
from kohort.assignors.connect.leading import answers
from kohort.assignors.connect.model import LeaderMemory
from kohort.assignors.connect.protocol import CONFIG_MISMATCH, WorkerAssignment, WorkerState

TIMES = {"now_ms": 5, "generation": 1, "last_completed_generation": -1}


def test_each_worker_is_told_who_leads_and_what_to_start() -> None:
    workers = {"w1": WorkerState("http://w1", 3), "w2": WorkerState("http://w2", 4)}
    told = answers(ConnectAssignor(), "w2", workers, {"c": 2}, config_offset=4, **TIMES)
    assert told == {
        "w1": WorkerAssignment("w2", "http://w2", 4, (("c", -1), ("c", 0))),
        "w2": WorkerAssignment("w2", "http://w2", 4, (("c", 1),)),
    }


def test_a_worker_that_says_what_it_runs_is_told_only_what_is_new() -> None:
    runs = WorkerAssignment("w1", "u", 3, (("c", -1), ("c", 0)))
    workers = {"w1": WorkerState("u", 3, runs)}
    told = answers(ConnectAssignor(), "w1", workers, {"c": 2}, config_offset=3, **TIMES)
    assert told["w1"].assigned == (("c", 1),)


def test_a_leader_that_knows_less_than_a_worker_gives_nothing_and_learns_nothing() -> None:
    assignor = ConnectAssignor()
    workers = {"w1": WorkerState("u", 3), "w2": WorkerState("v", 8)}
    told = answers(assignor, "w1", workers, {"c": 2}, config_offset=7, **TIMES)
    assert told == dict.fromkeys(workers, WorkerAssignment("w1", "u", 8, error=CONFIG_MISMATCH))
    assert assignor.memory == LeaderMemory()
