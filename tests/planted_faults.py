"""What planted.py plants: each fault changes one place, and its name says what is wrong then."""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    name: str
    path: str
    right: str  # occurs once in the file
    wrong: str


FAULTS = (
    Fault(
        "generation not raised",
        "broker/groups/rebalance.py",
        "    group.generation += 1\n",
        "    group.generation = max(group.generation, 1)\n",
    ),
    Fault(
        "generation not checked in heartbeat",
        "broker/groups/heartbeats.py",
        "if generation_id != group.generation:",
        "if generation_id > group.generation:",
    ),
    Fault(
        "generation not checked in commit",
        "broker/groups/commits.py",
        "if generation_id != group.generation:",
        "if generation_id > group.generation:",
    ),
    Fault(
        "generation not checked in sync",
        "broker/groups/syncing.py",
        "if command.generation_id != group.generation:",
        "if command.generation_id > group.generation:",
    ),
    Fault(
        "commit accepted in CompletingRebalance",
        "broker/groups/commits.py",
        "    if group.state is COMPLETING:\n",
        "    if group.state is EMPTY:\n",
    ),
    Fault(
        "no sync deadline",
        "broker/groups/rebalance.py",
        "    turn.arm(group.sync_timer, group.rebalance_timeout_ms)\n",
        "    turn.deadlines.cancel(group.sync_timer)\n",
    ),
    Fault(
        "session not prolonged by heartbeat",
        "broker/groups/heartbeats.py",
        "    shard.deadlines.set(member.session, now + member.session_timeout_ms)\n",
        "    shard.deadlines.pending.get(member.session)\n",
    ),
    Fault(
        "reply before the records are durable",
        "log/rounds.py",
        'if durability == "fsync" or',
        "if",
    ),
    Fault(
        "reply before the records are written",
        "broker/runtime.py",
        "gathered.extend(replies)\n            if misread",
        "self._deliver(replies)\n            if misread",
    ),
    Fault(
        "reader sees what is not yet durable",
        "broker/runtime.py",
        "        elif replies:\n",
        "        elif replies and self._deliver(replies):\n",
    ),
    Fault(
        "written ahead and not synced",
        "log/write_ahead.py",
        "        self._file.sync()\n        self._durable_bytes = self._file.size\n",
        "        self._durable_bytes = self._file.size\n",
    ),
    Fault(
        "written ahead of what is not durable",
        "log/rounds.py",
        "log.synced_offset == gathered.base_offset",
        "log.synced_offset <= gathered.base_offset",
    ),
    Fault(
        "what was written ahead goes before the logs are synced",
        "log/write_ahead.py",
        "            if any(outcomes):\n",
        "            if not outcomes:\n",
    ),
    Fault(
        "a refused record is synced by the way",
        "log/log.py",
        "            self.failed = error\n            self._keep_synced(offset)\n",
        "            self.failed = error\n",
    ),
    Fault(
        "torn tail not cut off",
        "log/recovery.py",
        "        file.truncate(segment.size)\n",
        "        file.truncate(file.size)\n",
    ),
    Fault(
        "refused bytes not cut off after a failure",
        "log/log.py",
        "                self._cut_to(synced_offset)\n                if",
        "                if",
    ),
    Fault(
        "tombstone of an offset ignored",
        "broker/groups/coordinator.py",
        "        self._table.forget(record)\n",
        "        self._table.get(group_id, record.topic, record.partition)\n",
    ),
    Fault(
        "tombstone of a group ignored",
        "broker/groups/coordinator.py",
        "        elif isinstance(record, GroupForgotten):\n            self._forget(",
        "        elif isinstance(record, GroupForgotten):\n            self._shard.groups.get(",
    ),
    Fault(
        "static member dropped at rebalance timeout",
        "broker/groups/rebalance.py",
        "if m.join_ticket is None and not m.is_static]",
        "if m.join_ticket is None]",
    ),
    Fault(
        "fenced instance not noticed",
        "broker/groups/fencing.py",
        "        if holder != member_id:\n",
        "        if holder == member_id + holder:\n",
    ),
    Fault(
        "pending member never expires",
        "broker/groups/joining.py",
        '        turn.arm(DeadlineKey("session", group.group_id, member_id), '
        "command.session_timeout_ms)\n",
        "        group.pending_joins[member_id] = None\n",
    ),
    Fault(
        "leader gets no list of members",
        "broker/groups/rebalance.py",
        "        everybody(group) if is_leader else (),\n",
        "        (),\n",
    ),
    Fault(
        "vote for what not all support",
        "broker/groups/voting.py",
        "for name, count in group.protocol_counts.items() if count == everybody}",
        "for name, count in group.protocol_counts.items() if count <= everybody}",
    ),
    Fault(
        "old offset kept on commit",
        "offsets/table.py",
        "        offsets[name] = value\n",
        "        offsets.setdefault(name, value)\n",
    ),
    Fault(
        "what a failing disk was not to keep read back under durability os",
        "offsets/store.py",
        ".reopened(before.end_offset)",
        ".reopened()",
    ),
    Fault(
        "snapshot tells of more than the log has",
        "offsets/snapshot.py",
        "        if start_offset <= snapshot.begun and ended <= end_offset:\n",
        "        if start_offset <= snapshot.begun:\n",
    ),
    Fault(
        "snapshot finished before its records are durable",
        "broker/snapshots.py",
        "        self._store.then(shard.log, partial(self._finish, shard, writer))\n",
        "        self._finish(shard, writer, None)\n",
    ),
    Fault(
        "evicted group read from where it stood before it changed",
        "offsets/table.py",
        "        self._places.pop(group_id, None)\n",
        "        self._places.get(group_id)\n",
    ),
    Fault(
        "snapshot outlives the tombstones that it does not know",
        "log/cleaner.py",
        "            yield from remove_derived(log.folder, log.files)\n",
        "",
    ),
    Fault(
        "initial delay not extended",
        "broker/groups/rebalance.py",
        "if waited_ms is not None and group.member_added and left_ms:",
        "if waited_ms is not None and group.member_added and left_ms < 0:",
    ),
    Fault(
        "nothing written when a group becomes empty",
        "broker/groups/rebalance.py",
        "        turn.move(group, EMPTY)\n        turn.propose(group)\n",
        "        turn.move(group, EMPTY)\n",
    ),
    Fault(
        "parked join of a lost partition not answered",
        "broker/led.py",
        "        self._deliver(lost.unload().replies)\n\n    def _misread",
        "        lost.unload()\n\n    def _misread",
    ),
    Fault(
        "a node coordinates what another one leads",
        "broker/runtime.py",
        "if shard is None and not self._leads(partition):",
        "if shard is None and partition < 0:",
    ),
    Fault(
        "a moved partition is not let go",
        "broker/cluster.py",
        "            before.groups.resign(partition.index)\n",
        "            before.groups.load([partition.index])\n",
    ),
    Fault(
        "parked join of a resigned partition unanswered",
        "broker/led.py",
        "            self._deliver(shard.coordinator.unload().replies)\n",
        "            shard.coordinator.unload()\n",
    ),
    Fault(
        "the next leader reads before the last one has written",
        "broker/loading.py",
        "        if self._store.is_pending(shard.log):\n",
        "        if self._store.is_pending(shard.log) and shard.failed_ms:\n",
    ),
    Fault(
        "the next leader takes a log that could not be mended",
        "offsets/store.py",
        "            if before.failed is None:\n",
        "            if before.end_offset:\n",
    ),
    Fault(
        "leader epoch not raised",
        "topics/registry.py",
        "        before_id, epoch = partition.leader_id, partition.leader_epoch + 1\n",
        "        before_id, epoch = partition.leader_id, max(partition.leader_epoch, 1)\n",
    ),
    Fault(
        "leaders forgotten at a restart",
        "topics/registry.py",
        "        topic.lead(partition, leader_id, epoch)\n",
        "        topic.lead(partition, self.nodes.elected(partition.index), epoch)\n",
    ),
    Fault(
        "offsets expire that are still read",
        "broker/groups/expiring.py",
        "if topic in rule.kept_topics or not has_expired(",
        "if topic in group_id or not has_expired(",
    ),
    Fault(
        "an empty group ages since its last commit",
        "broker/groups/expiring.py",
        "        return _SINCE_COMMIT if since_ms == -1 else Rule(since_ms)\n",
        "        return _SINCE_COMMIT\n",
    ),
    Fault(
        "an expired group leaves no tombstone",
        "broker/groups/expiring.py",
        "            records += [GroupForgotten(group_id)] if foreign is None"
        " else foreign.tombstones()\n",
        "            shard.groups.pop(group_id, None)\n",
    ),
    Fault(
        "an assignment that is too large opens no round",
        "broker/groups/refusing.py",
        "        prepare(turn, group, Why(Cause.ASSIGNMENT_TOO_LARGE, reason))\n",
        "        assert reason\n",
    ),
    Fault(
        "a deleted topic leaves its offsets at other nodes",
        "broker/cluster.py",
        "        for node in self.nodes.values():\n            node.groups.topics_deleted(",
        "        for node in self.up[:1]:\n            node.groups.topics_deleted(",
    ),
    Fault(
        "an older record outlives a newer one in a compaction",
        "log/filtering.py",
        "offset >= newest.get(key, -1)",
        "offset <= newest.get(key, offset)",
    ),
    Fault(
        "a compaction ends behind an open transaction",
        "log/cleaner.py",
        "if header.base_offset >= self._upper:",
        "if header.base_offset > self._upper:",
    ),
    Fault(
        "tombstones go before their horizon",
        "log/filtering.py",
        "tombstones_stay = horizon_ms is None or self._terms.now_ms < horizon_ms",
        "tombstones_stay = horizon_ms is None",
    ),
    Fault(
        "the end of a run is not told by an empty batch",
        "log/filtering.py",
        "self._is_last_of_producer(header) or header.next_offset == self.upper",
        "self._is_last_of_producer(header)",
    ),
    Fault(
        "a cleaned segment has its name before the old ones have lost theirs for good",
        "log/swapping.py",
        "        yield partial(files.sync_folder, folder)\n        self._check()\n",
        "        self._check()\n",
    ),
    Fault(
        "a damaged batch is compacted and given a new checksum",
        "log/cleaner.py",
        "check_crc(batch, 0, len(batch))",
        "len(batch)",
    ),
    Fault(
        "Kafka: offsets of aborted transactions count",
        "offsets/transactions.py",
        "if kind == _COMMIT and record is not None:",
        "if record is not None:",
    ),
    Fault(
        "Kafka: overtaken commits of transactions come back",
        "offsets/transactions.py",
        "pending[where] = (offset, None)",
        "pending[where] = (offset, pending[where][1])",
    ),
    Fault(
        "Kafka: offsets of open transactions are told as stable",
        "broker/groups/fetches.py",
        "if shard.foreign.pending and command.require_stable:",
        "if shard.foreign.pending and not command.require_stable:",
    ),
    Fault(
        "Kafka: leader epochs begin anew",
        "topics/takeover.py",
        "records.append(LeaderElected(name, id_, index, NO_LEADER, epoch))",
        "records.append(LeaderElected(name, id_, index, NO_LEADER, 0))",
    ),
    Fault(
        "Kafka: it trusts its own files after us",
        "topics/takeover.py",
        "if files.exists(folder / name)]\n    is_new",
        "if not files.exists(folder)]\n    is_new",
    ),
)
