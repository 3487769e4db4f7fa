"""Mutants: one-line faults and the code that they change (support/mutation_testing.py)."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """The replacement of one passage of a file."""

    name: str
    path: str
    original: str  # must occur exactly once in the file
    mutated: str


MUTANTS = (
    Mutant(
        "reply before the records are durable",
        "log/group_commit.py",
        'if durability == "fsync" or',
        "if",
    ),
    Mutant(
        "write-ahead log not synced",
        "log/write_ahead.py",
        "        self._file.sync()\n        self._durable_bytes = self._file.size\n",
        "        self._durable_bytes = self._file.size\n",
    ),
    Mutant(
        "write-ahead log used without fsync",
        "log/group_commit.py",
        "log.synced_offset == pending.base_offset",
        "log.synced_offset <= pending.base_offset",
    ),
    Mutant(
        "write-ahead files removed before the logs are synced",
        "log/write_ahead.py",
        "            if any(results):\n",
        "            if not results:\n",
    ),
    Mutant(
        "record of a failed append is synced later",
        "log/log.py",
        "            self.failed = error\n            self._limit_synced(offset)\n",
        "            self.failed = error\n",
    ),
    Mutant(
        "log not synced at open after an unclean shutdown",
        "log/recovery.py",
        "    file.rewrite(durable_bytes)\n",
        "",
    ),
    Mutant(
        "torn tail not truncated",
        "log/recovery.py",
        "        file.truncate(segment.size)\n",
        "        file.truncate(file.size)\n",
    ),
    Mutant(
        "bytes of a failed append not truncated",
        "log/log.py",
        "                self._truncate_durably(synced_offset)\n                if",
        "                if",
    ),
    Mutant(
        "old offset kept on commit",
        "offsets/table.py",
        "        offsets[name] = value\n",
        "        offsets.setdefault(name, value)\n",
    ),
    Mutant(
        "records of a failed append loaded again under durability os",
        "offsets/store.py",
        ".reopen(failed.end_offset)",
        ".reopen()",
    ),
    Mutant(
        "snapshot beyond the end of the log accepted",
        "offsets/snapshot.py",
        "            if start_offset <= snapshot.start_offset and snapshot_end <= end_offset:\n",
        "            if start_offset <= snapshot.start_offset:\n",
    ),
    Mutant(
        "snapshot finished before its records are durable",
        "broker/snapshots.py",
        "        self._store.on_durable(context.log, partial(self._finish, context, writer))\n",
        "        self._finish(context, writer, None)\n",
    ),
    Mutant(
        "evicted group read from its old position",
        "offsets/table.py",
        "        self._extents.pop(group_id, None)\n",
        "        self._extents.get(group_id)\n",
    ),
    Mutant(
        "snapshot kept after compaction removed later tombstones",
        "log/cleaner.py",
        "            yield from remove_cache_files(log.folder, log.files)\n",
        "",
    ),
    Mutant(
        "new leader accepts a log that could not be repaired",
        "offsets/store.py",
        "            if log.failed is None:\n",
        "            if log.end_offset:\n",
    ),
    Mutant(
        "compaction keeps an older record instead of a newer one",
        "log/cleaner.py",
        "offset >= newest.get(key, -1)",
        "offset <= newest.get(key, offset)",
    ),
    Mutant(
        "compaction passes an open transaction",
        "log/cleaner.py",
        "if header.base_offset >= self._end:",
        "if header.base_offset > self._end:",
    ),
    Mutant(
        "tombstones removed before their delete horizon",
        "log/cleaner.py",
        "keep_tombstones = horizon_ms is None or self._config.now_ms < horizon_ms",
        "keep_tombstones = horizon_ms is None",
    ),
    Mutant(
        "no empty batch marks the end of a cleaned range",
        "log/cleaner.py",
        "self._is_last_of_producer(header) or header.next_offset == self.end",
        "self._is_last_of_producer(header)",
    ),
    Mutant(
        "cleaned segment renamed before the removal of the old ones is durable",
        "log/segment_swap.py",
        "        yield partial(files.sync_folder, folder)\n        self._check()\n",
        "        self._check()\n",
    ),
    Mutant(
        "corrupt batch compacted with a new checksum",
        "log/cleaner.py",
        "check_crc(batch, 0, len(batch))",
        "len(batch)",
    ),
    Mutant(
        "Kafka: offsets of aborted transactions applied",
        "offsets/transactions.py",
        "if marker == COMMIT and record is not None:",
        "if record is not None:",
    ),
    Mutant(
        "Kafka: transactional commit overwrites a later plain commit",
        "offsets/transactions.py",
        "pending[key] = (offset, None)",
        "pending[key] = (offset, pending[key][1])",
    ),
    Mutant(
        "generation not incremented",
        "coordinator/classic/rebalance.py",
        "    group.generation = (group.generation + 1 + 2**31) % 2**32 - 2**31\n",
        "    group.generation = max(group.generation, 1)\n",
    ),
    Mutant(
        "generation not checked in heartbeat",
        "coordinator/classic/members.py",
        "if generation_id != group.generation:",
        "if generation_id > group.generation:",
    ),
    Mutant(
        "generation not checked in commit",
        "coordinator/offsets.py",
        "if generation_id != group.generation:",
        "if generation_id > group.generation:",
    ),
    Mutant(
        "generation not checked in sync",
        "coordinator/classic/rebalance.py",
        "if command.generation_id != group.generation:",
        "if command.generation_id > group.generation:",
    ),
    Mutant(
        "commit accepted in CompletingRebalance",
        "coordinator/offsets.py",
        "    if group.state is COMPLETING:\n",
        "    if group.state is EMPTY:\n",
    ),
    Mutant(
        "no sync deadline",
        "coordinator/classic/rebalance.py",
        "    decision.schedule(group.sync_timer, group.rebalance_timeout_ms)\n",
        "    decision.deadlines.cancel(group.sync_timer)\n",
    ),
    Mutant(
        "heartbeat does not extend the session",
        "coordinator/classic/members.py",
        "    partition.deadlines.set(member.session, now + member.session_timeout_ms)\n",
        "    partition.deadlines.pending.get(member.session)\n",
    ),
    Mutant(
        "reply before the records are written",
        "broker/runtime.py",
        "            waiting.extend(replies)\n",
        "            self._deliver(replies)\n",
    ),
    Mutant(
        "reader sees what is not yet durable",
        "broker/runtime.py",
        "        elif replies:\n",
        "        elif replies and self._deliver(replies):\n",
    ),
    Mutant(
        "tombstone of an offset ignored",
        "coordinator/coordinator.py",
        "        offsets.remove(record)\n",
        "        offsets.get(group_id, record.topic, record.partition)\n",
    ),
    Mutant(
        "tombstone of a group ignored",
        "coordinator/coordinator.py",
        "        elif isinstance(record, GroupTombstone):\n            self._remove_group(",
        "        elif isinstance(record, GroupTombstone):\n            self._partition.groups.get(",
    ),
    Mutant(
        "static member dropped at rebalance timeout",
        "coordinator/classic/rebalance.py",
        "if m.join_ticket is None and not m.is_static]",
        "if m.join_ticket is None]",
    ),
    Mutant(
        "fenced instance id accepted",
        "coordinator/classic/group.py",
        "            if holder != member_id:\n",
        "            if holder == member_id + holder:\n",
    ),
    Mutant(
        "pending member never expires",
        "coordinator/classic/join.py",
        "        decision.schedule(session, command.session_timeout_ms)\n",
        "        group.pending_joins[member_id] = None\n",
    ),
    Mutant(
        "leader receives no list of members",
        "coordinator/classic/rebalance.py",
        "members = all_members(group) if member.member_id == group.leader else ()",
        "members = ()",
    ),
    Mutant(
        "protocol selected that a member does not support",
        "coordinator/classic/group.py",
        "for name, count in self.protocol_counts.items() if count == members]",
        "for name, count in self.protocol_counts.items() if count <= members]",
    ),
    Mutant(
        "initial delay not extended",
        "coordinator/classic/rebalance.py",
        "if delay_ms is not None and group.member_added and left_ms:",
        "if delay_ms is not None and group.member_added and left_ms < 0:",
    ),
    Mutant(
        "nothing written when a group becomes empty",
        "coordinator/classic/rebalance.py",
        "        decision.transition(group, EMPTY)\n        decision.write(group)\n",
        "        decision.transition(group, EMPTY)\n",
    ),
    Mutant(
        "waiting join of a lost partition gets no response",
        "broker/runtime.py",
        "            self._loader.begin(context)\n"
        "        self._unload(context, lost)\n"
        "\n"
        "    def _invalidate",
        "            self._loader.begin(context)\n\n    def _invalidate",
    ),
    Mutant(
        "node coordinates a partition that another node leads",
        "broker/runtime.py",
        "if context is None and not self._leads(partition):",
        "if context is None and partition < 0:",
    ),
    Mutant(
        "moved partition not unloaded",
        "broker/cluster.py",
        "            old.coordinators.unload(partition.index)\n",
        "            old.coordinators.load([partition.index])\n",
    ),
    Mutant(
        "waiting join of a resigned partition gets no response",
        "broker/runtime.py",
        "            self._unload(context, context.coordinator)\n",
        "            context.coordinator.unload()\n",
    ),
    Mutant(
        "new leader reads before the old one has written",
        "broker/loader.py",
        "        self._store.on_durable(context.log, "
        "partial(self._begin_replay, context, is_requested))\n",
        "        self._begin_replay(context, is_requested, None)\n",
    ),
    Mutant(
        "leader epoch not incremented",
        "topics/registry.py",
        "        before_id, epoch = partition.leader_id, partition.leader_epoch + 1\n",
        "        before_id, epoch = partition.leader_id, max(partition.leader_epoch, 1)\n",
    ),
    Mutant(
        "leaders lost at a restart",
        "topics/registry.py",
        "        topic.set_leader(partition, leader_id, epoch)\n",
        "        topic.set_leader(partition, self.nodes.elect(partition.index), epoch)\n",
    ),
    Mutant(
        "offsets of subscribed topics expire",
        "coordinator/offsets.py",
        "        if record.topic in expiration.subscribed_topics:\n",
        "        if record.topic in record.group_id:\n",
    ),
    Mutant(
        "retention of an empty group starts at its last commit",
        "coordinator/offsets.py",
        "        return _SINCE_COMMIT if since_ms == -1 else _ExpirationRule(since_ms)\n",
        "        return _SINCE_COMMIT\n",
    ),
    Mutant(
        "no tombstone for an expired group",
        "coordinator/offsets.py",
        "        records += [GroupTombstone(group_id)] if other is None else other.tombstones()\n"
        "        events.append(",
        "        partition.groups.pop(group_id, None)\n        events.append(",
    ),
    Mutant(
        "too large assignment starts no rebalance",
        "coordinator/coordinator.py",
        "        prepare_rebalance(decision, group, Cause.ASSIGNMENT_TOO_LARGE, reason)\n",
        "        assert reason\n",
    ),
    Mutant(
        "offsets of a deleted topic stay on other nodes",
        "broker/cluster.py",
        "        for node in self.nodes.values():\n            node.coordinators.topics_deleted(",
        "        for node in self.up[:1]:\n            node.coordinators.topics_deleted(",
    ),
    Mutant(
        "Kafka: offsets of open transactions reported as stable",
        "coordinator/offsets.py",
        "if partition.other_groups.pending_offsets and command.require_stable:",
        "if partition.other_groups.pending_offsets and not command.require_stable:",
    ),
    Mutant(
        "Kafka: leader epochs start again at 0",
        "topics/kafka_import.py",
        "imported.append(LeaderRecord(name, id_, index, NO_LEADER, epoch))",
        "imported.append(LeaderRecord(name, id_, index, NO_LEADER, 0))",
    ),
    Mutant(
        "Kafka: recovery checkpoints of Kafka kept",
        "topics/kafka_import.py",
        "if files.exists(folder / name)]\n    is_new",
        "if not files.exists(folder)]\n    is_new",
    ),
)
