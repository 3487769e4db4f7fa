"""One run: creates the topic, lets the clients work, stops the nemesis, reads everything."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final, TypeVar
from uuid import uuid4

from ..protocol.errors import ErrorCode
from .cluster import FINAL, GROUP, Cluster, UnknownTopic, back_off
from .connection import Disconnected, Fields, Unsupported
from .history import Assigned, Heartbeat, Joined, Left, ReadEnd, TopicMissing
from .members import ClassicMember, ConsumerMember, Member
from .nemesis import disturbed
from .producer import Producer
from .reader import Reader
from .recorder import History
from .targets import Disturb
from .workload import Options, Workload, groups

A = TypeVar("A")

PARTITIONS: Final = 4
FINAL_SECONDS: Final = 60.0
"""Maximum time for the final reads. A broker may have to restart, and to end all transactions."""
STABLE_SECONDS: Final = 10.0
"""Maximum time to wait for the markers of the last transactions, or for the next records of a final
read."""
DELETE_SECONDS: Final = 10.0
"""Maximum time to wait until a group is empty. Members whose ids are not in the history cannot be
removed, so their sessions have to expire."""
_NOT_YET: Final = {ErrorCode.non_empty_group, ErrorCode.coordinator_load_in_progress}
# Records that a broker deletes or compacts by its own defaults would look like lost writes.
KEEP_ALL: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
# KIP-890: with transaction.version 2, the broker adds partitions to transactions by itself.
TRANSACTION_VERSION: Final = 2


class CannotJudge(Exception):
    """There is no verdict; the message says why."""


class _TopicLost(Exception):
    """The broker responds that the topic does not exist. The response is recorded, and nothing is
    left to read."""


async def run(options: Options, nemeses: Mapping[str, Disturb], history: History) -> None:
    """Carry out a run and fill its history. Raises CannotJudge."""
    topic = f"kohort-check-{uuid4().hex[:8]}"
    cluster = Cluster(options.bootstrap, options.security, topic)
    try:
        await _create_topic(cluster, options.start_seconds)
        history.topic = topic
        version = cluster.features.get("transaction.version", 0)
        workload = Workload(
            options,
            topic,
            history,
            has_consumer_protocol="ConsumerGroupHeartbeat" in cluster.versions,
            implicit=version >= TRANSACTION_VERSION,
        )
        with _ended_by_interrupt(workload, history):
            async with disturbed(nemeses, options.seed, options.seconds, history):
                await workload.run()
        history.seconds = min(options.seconds, round(history.now()[1], 1))
        with suppress(_TopicLost):
            await _final_reads(cluster, workload, history)
    except Unsupported as error:
        raise CannotJudge(str(error)) from error
    finally:
        cluster.disconnect()


@contextmanager
def _ended_by_interrupt(workload: Workload, history: History) -> Iterator[None]:
    """Let Ctrl-C end the work; its history is then analyzed. A second Ctrl-C ends the program."""
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        history.is_interrupted = True
        workload.stop()

    # The event loop supports signal handlers neither on Windows nor outside the main thread.
    with suppress(NotImplementedError, RuntimeError, ValueError):
        loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            loop.remove_signal_handler(signal.SIGINT)


async def _create_topic(cluster: Cluster, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    problem = ""
    while time.monotonic() < deadline:
        try:
            connection = await cluster.any_node()
            topic = Fields(
                name=cluster.topic,
                num_partitions=PARTITIONS,
                replication_factor=-1,
                assignments=(),
                configs=[Fields(name=key, value=value) for key, value in KEEP_ALL.items()],
            )
            response = await connection.request(
                "CreateTopics", topics=[topic], timeout=timedelta(seconds=10)
            )
            error = ErrorCode(response.topics[0].error_code)
            problem = f"CreateTopics failed: {error.name.upper()}"
            if error in (ErrorCode.none, ErrorCode.topic_already_exists):
                await cluster.refresh()
                count = len(cluster.partitions)
                if count == PARTITIONS:
                    return
                problem = f"the metadata lists {count} of {PARTITIONS} partitions"
        except Disconnected as error:
            problem = str(error)
        await back_off()
    raise CannotJudge(f"topic {cluster.topic} was not usable within {seconds:g} s: {problem}")


async def _final_reads(cluster: Cluster, workload: Workload, history: History) -> None:
    """End the transactions of crashed clients, then read all partitions and committed offsets."""
    final = _FinalReads(cluster, history)
    for name in sorted(workload.transactional_ids):
        await final.complete(f"InitProducerId for {name}", final.end_transaction, name)
    for partition in range(PARTITIONS):
        await final.wait_until_stable(partition)
        for is_committed in (True, False):
            reader = Reader(cluster, history, FINAL, mode="final", is_committed=is_committed)
            reader.positions = {partition: 0}
            await final.complete(f"reading partition {partition}", final.read, reader)
    for group in groups(cluster.topic).values():
        await final.complete(f"reading the offsets of {group}", final.read_offsets, group)


class _FinalReads:
    """Steps that are retried until they succeed. Together they may take FINAL_SECONDS."""

    def __init__(self, cluster: Cluster, history: History) -> None:
        self._cluster, self._history = cluster, history
        self._deadline = time.monotonic() + FINAL_SECONDS

    async def complete(self, what: str, step: Callable[[A], Awaitable[bool]], argument: A) -> None:
        """Call a step until it returns True. Raises CannotJudge and _TopicLost."""
        problem, missing = "timeout", None
        while time.monotonic() < self._deadline:
            try:
                if await step(argument):
                    return
            except UnknownTopic as error:
                problem = str(error)
                missing = missing or self._history.now()
            except Disconnected as error:
                problem, missing = str(error), None
            self._cluster.forget()
            await back_off()
        if missing is not None:
            self._history.add(TopicMissing(client=FINAL, topic=self._cluster.topic), missing)
            raise _TopicLost
        raise CannotJudge(f"{what} failed for {FINAL_SECONDS:g} s after the run: {problem}")

    async def end_transaction(self, transactional_id: str) -> bool:
        producer = Producer(self._cluster, self._history, FINAL, transactional_id=transactional_id)
        await producer.init()
        return True

    async def wait_until_stable(self, partition: int) -> None:
        """Wait until no transaction of the partition is open. If one stays open, the checks report
        the records after it as missing."""
        deadline = min(time.monotonic() + STABLE_SECONDS, self._deadline)
        readers = [
            Reader(self._cluster, self._history, FINAL, mode="final", is_committed=each)
            for each in (True, False)
        ]
        while time.monotonic() < deadline:
            try:
                stable, end = [await each.end_offset(partition) for each in readers]
                if stable == end:
                    return
            except Disconnected:
                self._cluster.forget()
            await back_off()

    async def read(self, reader: Reader) -> bool:
        """Read a partition to its end, or until no more records arrive. Return False if the time
        ran out first."""
        ((partition, _),) = reader.positions.items()
        began = self._history.now()
        end = await reader.end_offset(partition)
        reached = reader.positions[partition]
        given_up_at = time.monotonic() + STABLE_SECONDS
        while reached < end:
            await reader.poll()
            now = time.monotonic()
            if reader.positions[partition] > reached:
                reached = reader.positions[partition]
                given_up_at = now + STABLE_SECONDS
            elif now > given_up_at:
                break
            else:
                await back_off()  # a rejected fetch gets its response immediately
            if now > self._deadline:
                return False
        read_end = ReadEnd(
            client=reader.name, partition=partition, is_committed=reader.is_committed, offset=end
        )
        self._history.add(read_end, began)
        return True

    async def read_offsets(self, group: str) -> bool:
        member = ClassicMember(self._cluster, self._history, FINAL, group, 0)
        partitions = tuple(range(PARTITIONS))
        return await member.read_committed(partitions, is_final=True) is not None


async def clean_up(options: Options, history: History) -> None:
    """Delete the topic and the groups of a run. Failures are ignored, because they do not change
    the verdict, and the names of remaining groups and topics show their origin."""
    cluster = Cluster(options.bootstrap, options.security, history.topic)
    with suppress(Disconnected, Unsupported):
        classic, consumer = groups(history.topic).values()
        # The operations of the clean-up are not part of the run.
        await _delete_group(cluster, history, ClassicMember(cluster, History(), FINAL, classic, 0))
        await _delete_group(cluster, history, ConsumerMember(cluster, History(), FINAL, consumer))
    with suppress(Disconnected, Unsupported):
        connection = await cluster.any_node()
        await connection.request(
            "DeleteTopics", topic_names=(history.topic,), timeout=timedelta(seconds=10)
        )
    cluster.disconnect()


async def _delete_group(cluster: Cluster, history: History, member: Member) -> None:
    """Delete a group. Its crashed members leave first, because their sessions may last for 45 s."""
    left = {each.member for each in history if isinstance(each, Left) and each.is_ok}
    crashed = {
        each.member
        for each in history
        if isinstance(each, Joined | Assigned | Heartbeat) and each.group == member.group
    }
    for each in sorted(crashed - left):
        member.member = each
        await member.leave()
    deadline, error = time.monotonic() + DELETE_SECONDS, ErrorCode.non_empty_group
    while error in _NOT_YET and time.monotonic() < deadline:
        connection = await cluster.coordinator(GROUP, member.group)
        response = await connection.request("DeleteGroups", groups_names=(member.group,))
        error = ErrorCode(response.results[0].error_code)
        await back_off()
