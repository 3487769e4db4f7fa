"""The recorder of a script: its connections, its requests, and their transcript.

For each request, the transcript contains the response or says that the request is held back, and
lists the responses to earlier requests that have arrived since.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self

from .broker import STEP_MS, ScriptBroker
from .transcript import OLDER, Normalizer, Transcript, shown
from .wire import AsyncClient

OnResponse = Callable[[Any], None]

TIMEOUT_MS = 20_000
WITHIN = f"within {TIMEOUT_MS} ms"
TRANSACTION = 1  # the key type of FindCoordinator
# Versions of requests that have the same meaning, except in scenarios that are `is_exact`. If the
# broker lacks the version of a request, the request is played in an older version of its range.
SAME_VERSIONS = {
    "DescribeGroups": range(4, 6),
    "Heartbeat": range(3, 5),
    "JoinGroup": range(7, 10),
    "LeaveGroup": range(3, 6),
    "OffsetCommit": range(7, 9),
}
EPOCHS = ("assignment_epoch", "generation_id_or_member_epoch", "group_epoch", "member_epoch")
HELD_BACK = ("Fetch", "JoinGroup", "SyncGroup")  # these may wait for other requests


class ScriptFailed(Exception):
    """The script timed out while it waited, or one of its control requests failed."""


class Diverged(Exception):
    """The last line of the transcript differs from the expected one, so the rest is not played."""


def shifted(value: Any, epochs: int) -> Any:
    """Return a value with a number added to its epochs, at any depth. Epochs of 0 or less have
    special meanings and are left unchanged."""
    if not epochs:
        return value
    if isinstance(value, Mapping):
        return {
            key: each + epochs if key in EPOCHS and each > 0 else shifted(each, epochs)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [shifted(each, epochs) for each in value]
    return value


def has_error(response: Any) -> bool:
    """Return whether the response contains an error code, at any depth."""
    if isinstance(response, dict):
        return response.get("error_code", "none") != "none" or has_error([*response.values()])
    return isinstance(response, list) and any(map(has_error, response))


class Step:
    """A request. `response` is None while the request is held back, and the text of the error if
    the connection is closed."""

    def __init__(
        self, api: str, text: str, on_response: OnResponse | None, epochs_ahead: int
    ) -> None:
        self.api, self.text, self._on_response = api, text, on_response
        self._epochs_ahead = epochs_ahead
        self.response: Any = None
        self.is_recorded = False

    def done(self, future: asyncio.Future[Any]) -> None:
        try:
            self.response = shifted(future.result(), self._epochs_ahead)
        except ConnectionError as error:
            self.response = str(error)
        else:
            if self._on_response is not None:
                self._on_response(self.response)


class Recorder:
    """The requests of one scenario. `keeps_delay`: whether the scenario shows the initial delay of
    a group; `is_exact`: whether no request is played in an older version; `has_diverged`: returns
    whether the transcript so far ends with a difference, which stops the script with Diverged."""

    def __init__(
        self,
        broker: ScriptBroker,
        group: str,
        *,
        keeps_delay: bool = False,
        is_exact: bool = False,
        has_diverged: Callable[["Recorder"], bool] = lambda _script: False,
    ) -> None:
        self.broker, self.group = broker, group
        self._keeps_delay, self._has_diverged = keeps_delay, has_diverged
        self._is_exact = is_exact
        self.transcript: Transcript = []
        self._is_in_older_versions = False
        self.topic_ids = dict(broker.topic_ids)
        self.steps: list[Step] = []
        self._connections: dict[str | None, list[AsyncClient]] = {}  # by client id
        self._control: AsyncClient
        self._has_transactions = False
        self._normalizer = Normalizer(group, broker)

    async def __aenter__(self) -> Self:
        self._control = await self.broker.connect("control")
        return self

    async def __aexit__(self, *_: object) -> None:
        for connections in [[self._control], *self._connections.values()]:
            for connection in connections:
                connection.close()

    # --- requests

    async def send(
        self,
        api: str,
        version: int,
        values: Mapping[str, Any],
        *,
        client_id: str | None = "admin",
        on_response: OnResponse | None = None,
        text: str | None = None,
        has_epochs: bool = False,
    ) -> Any:
        """Send a request, and return `Step.response`. `text`: what the transcript shows instead of
        the values; `has_epochs`: whether the request belongs to a KIP-848 group."""
        fields = text or ", ".join(f"{key} {shown(value)}" for key, value in values.items())
        request = f"{len(self.steps) + 1}. {client_id}: {api} v{version} "
        ahead = self.broker.epochs_ahead if has_epochs else 0
        step = Step(api, request + self._normalizer.text(fields), on_response, ahead)
        self.steps.append(step)
        connection = await self._free_connection(client_id)
        is_delayed = api == "JoinGroup" and await self._is_delayed(values["group_id"])
        played = self._played_version(connection, api, version)
        response = connection.send(api, played, **shifted(values, -ahead))
        response.add_done_callback(step.done)
        if api not in HELD_BACK:
            await asyncio.wait([response], timeout=TIMEOUT_MS / 1000)
        if is_delayed:
            await self._until_delay_ends(response)
        await self._wait_until_idle()
        step.is_recorded = step.response is not None
        recorded: Any = "held back"
        if step.is_recorded:
            names_topics = bool(values.get("topics"))
            recorded = self._normalizer.response(api, step.response, names_topics=names_topics)
        self._record(step.text, recorded)
        return step.response

    def _played_version(self, connection: AsyncClient, api: str, version: int) -> int:
        same = SAME_VERSIONS.get(api, range(0))
        is_exact = self._is_exact or version not in same
        older = () if is_exact else range(version, same.start - 1, -1)
        found = next((each for each in older if connection.supports(api, each)), version)
        self._is_in_older_versions |= found < version
        return found

    async def _is_delayed(self, group: str) -> bool:
        """Return whether the broker delays a join of the group that was recorded without delay."""
        if not self.broker.initial_delay_ms or self._keeps_delay:
            return False
        if not self._control.supports("DescribeGroups", 5):
            return True  # unknown: assume a delay
        described = await self._control.call("DescribeGroups", 5, groups=(group,))
        return described["groups"][0]["group_state"] in ("Dead", "Empty")

    async def _until_delay_ends(self, response: asyncio.Future[Any]) -> None:
        for _ in range(self.broker.initial_delay_ms // STEP_MS + 1):
            await self.broker.round_trip(self._control)
            if response.done():
                return
            await self.broker.advance(STEP_MS)

    async def _free_connection(self, client_id: str | None) -> AsyncClient:
        connections = self._connections.setdefault(client_id, [])
        for connection in connections:
            if connection.is_free:
                return connection
        connections.append(await self.broker.connect(client_id))
        return connections[-1]

    async def _wait_until_idle(self) -> None:
        await self.broker.wait_until_idle(
            self._control, lambda: sum(step.response is None for step in self.steps)
        )

    def _record(self, text: str, response: Any) -> None:
        line = {"step": text, "response": response}
        delayed = [
            step for step in self.steps if step.response is not None and not step.is_recorded
        ]
        if delayed:
            line["delayed"] = {
                step.text.split(" v")[0]: self._normalizer.response(step.api, step.response)
                for step in delayed
            }
        for step in delayed:
            step.is_recorded = True
        if self._is_in_older_versions:
            line[OLDER] = True
        self.transcript.append(line)
        if self._has_diverged(self):
            raise Diverged

    # --- requests that are not in the transcript

    async def call(self, api: str, version: int, **values: Any) -> Any:
        return await self._control.call(api, version, **values)

    async def until(
        self,
        request: Callable[[], Awaitable[Any]],
        condition: Callable[[Any], bool],
        failure: str,
    ) -> None:
        """Let time pass until the response to a request meets the condition. `failure`: the message
        if it never does."""
        for _ in range(TIMEOUT_MS // STEP_MS):
            response = await request()
            if condition(response):
                return
            await self.broker.advance(STEP_MS)
        raise ScriptFailed(f"{failure}: {response}")

    # --- parts of requests

    def topic_partitions(self, owned: Mapping[str, Iterable[int]]) -> Sequence[Mapping[str, Any]]:
        """Return the owned partitions for ConsumerGroupHeartbeat."""
        return [
            {"topic_id": self.topic_ids[name], "partitions": tuple(indexes)}
            for name, indexes in owned.items()
        ]

    def commit_topics(
        self, offset: int, partitions: Iterable[tuple[str, int | None, str | None]] | None
    ) -> Sequence[Mapping[str, Any]]:
        """Return the topics for OffsetCommit. `partitions` are (name, partition, metadata); a topic
        with the partition None has no partitions. If `partitions` is None, the topics are partition
        0 of `orders`."""
        topics: dict[str, Any] = {}
        for name, index, metadata in [("orders", 0, "note")] if partitions is None else partitions:
            topic: Any = {"name": name, "topic_id": self.topic_ids.get(name), "partitions": []}
            partition = {
                "partition_index": index,
                "committed_offset": offset,
                "committed_leader_epoch": -1,
                "committed_metadata": metadata,
                "commit_timestamp": -1,
            }
            topics.setdefault(name, topic)
            if index is not None:
                topics[name]["partitions"].append(partition)
        return list(topics.values())

    def fetch_topics(self, topics: Mapping[str, Iterable[int]]) -> Sequence[Mapping[str, Any]]:
        """Return the topics for OffsetFetch."""
        return [
            {"name": n, "topic_id": self.topic_ids.get(n), "partition_indexes": tuple(p)}
            for n, p in topics.items()
        ]

    # --- time

    async def until_response(self) -> None:
        """Let time pass until a request that is held back has a response."""
        waiting = [step for step in self.steps if not step.is_recorded]
        if not waiting:
            raise ScriptFailed("no request is held back")
        for _ in range(TIMEOUT_MS // STEP_MS):
            if any(step.response is not None for step in waiting):
                break
            await self.broker.advance(STEP_MS)
            await self.broker.round_trip(self._control)
        else:
            raise ScriptFailed(f"no response {WITHIN}: {waiting[0].text}")
        await self._wait_until_idle()
        self._record("time passes", "until a request that is held back gets its response")

    async def until_state(self, state: str) -> None:
        """Let time pass until the group is in this state."""
        await self.until(
            partial(self.call, "DescribeGroups", 5, groups=(self.group,)),
            lambda found: found["groups"][0]["group_state"] == state,
            f"not {state} {WITHIN}",
        )
        await self._wait_until_idle()
        self._record("time passes", f"until the group is {state}")

    async def until_members(self, count: int) -> None:
        """Let time pass until the KIP-848 group has this number of members."""
        text = f"until the group has {count} members"
        await self._until_consumers(lambda group: len(group["members"]) == count, text, self.group)

    async def until_epoch(self, epoch: int, group: str | None = None) -> None:
        """Let time pass until the KIP-848 group has at least this epoch."""
        text = f"until the group epoch is {epoch}"
        name = self.group if group is None else group
        least = epoch - self.broker.epochs_ahead
        await self._until_consumers(lambda group: group["group_epoch"] >= least, text, name)

    async def until_assigned(self, epoch: int) -> None:
        """Let time pass until the KIP-848 group has a target assignment of this epoch."""
        text = f"until the assignment epoch is {epoch}"
        expected = epoch - self.broker.epochs_ahead
        await self._until_consumers(
            lambda group: group["assignment_epoch"] == expected, text, self.group
        )

    async def transactions_ready(self) -> None:
        """Wait until transactional ids have a coordinator, and the clocks are past STARTED_MS. The
        wait is not in the transcript."""
        if self._has_transactions:
            return
        self._has_transactions = True
        await self.broker.advance(STEP_MS)
        find = {"key_type": TRANSACTION, "coordinator_keys": ("any",)}
        for request in (
            partial(self.call, "FindCoordinator", 4, **find),
            partial(self.call, "ListTransactions", 0),
        ):
            failure = "no transaction coordinator"
            await self.until(request, lambda response: not has_error(response), failure)
        # Use up id 0, which is allocated first, because responses also use it for "no producer".
        await self.call("InitProducerId", 4, transactional_id=None)

    async def use_epochs(self, transactional_id: str, until: int) -> None:
        """Initialize producers with unrecorded requests, until one has the epoch `until`."""
        await self.broker.use_epochs(self._control, transactional_id, until)

    async def until_transaction(
        self, transactional_id: str, condition: Callable[[str], bool], text: str | None = None
    ) -> None:
        """Let time pass until the state of the transaction meets the condition. Without `text`, the
        wait is not in the transcript."""
        await self.until(
            partial(self.call, "DescribeTransactions", 0, transactional_ids=(transactional_id,)),
            lambda found: condition(found["transaction_states"][0]["transaction_state"]),
            f"timed out after {TIMEOUT_MS} ms waiting for a transaction",
        )
        if text is not None:
            await self._wait_until_idle()
            self._record("time passes", text)

    async def _until_consumers(
        self, condition: Callable[[Any], bool], text: str, group: str
    ) -> None:
        await self.until(
            partial(self.call, "ConsumerGroupDescribe", 1, group_ids=(group,)),
            lambda found: condition(found["groups"][0]),
            f"timed out after {TIMEOUT_MS} ms waiting {text}",
        )
        await self._wait_until_idle()
        self._record("time passes", text)

    async def pass_ms(self, ms: int) -> None:
        await self.broker.advance(ms)
        await self._wait_until_idle()
        self._record(f"{ms} ms go by", None)
