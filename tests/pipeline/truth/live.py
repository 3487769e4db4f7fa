"""The scripted actions with real consumers in real time, against any broker.

After each action the coordinator's log is read until it shows that the group is stable; the oracle
therefore receives generations from the log itself.
"""

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from clients.adapter import ConsumerSettings
from clients.member_process import MemberProcess
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import NewPartitions, NewTopic
from kohort.log.errors import CorruptBatch
from kohort.offsets.causes import Cause
from kohort.pipeline.diagnosis.group_history import Generation
from kohort.testing.deadline import poll
from support import running_broker
from truth.histories import group_histories, read_log
from truth.oracle import Oracle, Place

# The adapters' assignors: librdkafka's is cooperative, and aiokafka has its default.
ASSIGNORS = {"kafka-python": ("range",), "librdkafka": ("cooperative-sticky",), "aiokafka": ()}
# Enough for a Spark session and its batches on a busy machine.
RUN_SECONDS = 300


def kohort(*args: str | Path) -> str:
    """Run a kohort command, which must succeed; return its output."""
    done = running_broker.kohort(*args, seconds=RUN_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


SETTLE_TIMEOUT_SECONDS = 40
# A stable group writes commits but no GroupMetadata record for this long.
REST_SECONDS = 1.5
WRITE_SECONDS = 0.1


class Writer:
    """`with Writer(bootstrap, "orders"):` writes a record to each partition ten times a second."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer = KafkaProducer(bootstrap_servers=bootstrap)
        self._topic = topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._producer.close()

    def _write(self) -> None:
        while not self._is_over.wait(WRITE_SECONDS):
            for partition in self._producer.partitions_for(self._topic):
                self._producer.send(self._topic, b"v", partition=partition)


def make_topic(bootstrap: str, topic: str, partitions: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, partitions, 1)])
    admin.close()


class LiveGroup:
    """A group of real consumers of `topic-GROUP`. `data`: the broker's data folder. With
    `is_static` each consumer has an instance id."""

    def __init__(
        self,
        data: Path,
        bootstrap: str,
        group_id: str,
        library: str,
        *,
        is_static: bool = False,
        session_ms: int,
        max_poll_ms: int,
        commit_ms: int,
    ) -> None:
        self.data, self.group_id, self.library = data, group_id, library
        self._is_static = is_static
        self.oracle = Oracle()
        self._bootstrap, self._topic = bootstrap, f"topic-{group_id}"
        self._settings = ConsumerSettings(
            group_id,
            auto_commit=True,
            auto_commit_interval_ms=commit_ms,
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // 5,
            max_poll_interval_ms=max_poll_ms,
            metadata_max_age_ms=1_000,
            assignors=ASSIGNORS[library],
            # kafka-python 3.0.12 drops a rebalance that completes between two polls. If added
            # partitions caused the rebalance, the consumer then neither sends heartbeats nor
            # rejoins. This is also the rebalance timeout, so a rebalance completes within one poll.
            poll_ms=max_poll_ms,
        )
        self._running: dict[str, MemberProcess] = {}
        self._echo_causes: set[Cause] = set()
        self.last_offset = -1  # log offset of the newest record passed to the oracle

    def close(self) -> None:
        for process in self._running.values():
            process.kill()

    # --- actions

    def start(self, *names: str) -> None:
        for name in names:
            self.oracle.expect_join(self._place(name))
            client_id = f"{self.group_id}-{name}"
            settings = replace(
                self._settings,
                client_id=client_id,
                group_instance_id=client_id if self._is_static else None,
            )
            self._running[name] = MemberProcess(
                self.library, self._bootstrap, self._topic, settings
            )
        self.settle()

    def slow(self, name: str, seconds: float) -> None:
        """Process records for longer than max.poll.interval.ms; the member then rejoins."""
        self._expect_exit(name, {Cause.SLOW_POLL, Cause.REBALANCE_TIMEOUT})
        self.oracle.expect_join(self._place(name))
        self._running[name].slow(seconds)
        self._wait_for(lambda last: self._member(last, name) is None, f"{name} to be removed")
        self.settle()

    def crash(self, name: str) -> None:
        self._expect_exit(name, {Cause.SESSION_TIMEOUT})
        self._running.pop(name).kill()
        self.settle()

    def leave(self, name: str) -> None:
        self._expect_exit(name, {Cause.LEFT_CLEANLY})
        self._running.pop(name).stop()
        self.settle()

    def restart(self, name: str) -> None:
        """Close a consumer and restart it immediately."""
        self._expect_exit(name, {Cause.LEFT_CLEANLY}, {Cause.RESTARTED})
        self._running.pop(name).stop()
        self.start(name)

    def grow(self, partitions: int) -> None:
        self.oracle.expect_rebalance(Cause.PARTITIONS_ADDED)
        # Each librdkafka member watches the partitions and may rejoin after the group has adapted.
        self._echo_causes = {Cause.LEADER_REJOINED, Cause.METADATA_CHANGED}
        admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)
        admin.create_partitions({self._topic: NewPartitions(partitions)})
        admin.close()
        self._wait_for(
            lambda last: _assigned(last) == partitions, "the new partitions to be assigned"
        )
        self.settle()
        self._echo_causes = set()

    # --- state according to the log

    def settle(self) -> None:
        """Wait until all actions have taken effect, the members are exactly the running consumers,
        and no record has been written for REST_SECONDS."""
        self._wait_for(self._is_settled, "the group to settle")

    def _record_generation(self, record: Generation) -> None:
        members = [(each.member_id, (each.client_host, each.client_id)) for each in record.members]
        number = record.generation or 0
        self.oracle.complete_rebalance(number, record.protocol, members)
        truth = self.oracle.generations[0, number]
        if not truth.causes and record.protocol == "cooperative-sticky":
            # No other action is pending: revoked partitions waited for their new owner.
            causes = frozenset({Cause.COOPERATIVE_FOLLOWUP} | self._echo_causes)
            self.oracle.generations[0, number] = truth._replace(causes=causes)
        self.last_offset = record.log_offset

    def _is_settled(self, last: Generation | None) -> bool:
        if last is None or self.oracle.pending is not None:
            return False
        members = {each.client_id for each in last.members}
        is_quiet = time.time() - (last.append_ms or 0) / 1_000 > REST_SECONDS
        return is_quiet and members == {each.client_id for each in self._running.values()}

    def _wait_for(self, condition: Callable[[Generation | None], bool], what: str) -> None:
        def is_met() -> bool:
            records = self._records()
            for record in records:
                if record.log_offset > self.last_offset and record.generation:
                    self._record_generation(record)
            for process in self._running.values():
                process.check_running()
            return condition(records[-1] if records else None)

        assert poll(is_met, SETTLE_TIMEOUT_SECONDS, pause=0.3), (
            f"timed out waiting for {what}; "
            f"pending: {self.oracle.pending}; last record: {self._records()[-1:]}"
        )

    def _records(self) -> list[Generation]:
        found = None
        while found is None:
            with contextlib.suppress(CorruptBatch):  # the last batch is incomplete
                found = group_histories(read_log(self.data))
        of_group = (each.generations for each in found if each.group == self.group_id)
        return [record for generations in of_group for record in generations]

    def _member(self, record: Generation | None, name: str) -> str | None:
        members = () if record is None else record.members
        wanted = self._place(name)[1]
        return next((each.member_id for each in members if each.client_id == wanted), None)

    def _expect_exit(self, name: str, causes: set[Cause], back: set[Cause] | None = None) -> None:
        member_id = self._member(self._records()[-1], name)
        assert member_id is not None, f"{name} is not a member"
        self.oracle.expect_exit(member_id, self._place(name), causes, back)

    def _place(self, name: str) -> Place:
        return "/127.0.0.1", f"{self.group_id}-{name}"


def _assigned(record: Generation | None) -> int:
    members = () if record is None else record.members
    return sum(len(each.assigned or ()) for each in members)
