"""One partition: its log, opened at first use, its producers, and who waits for its records."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from ..log.checkpoint import PartitionCheckpoints
from ..log.files import Files
from ..log.log import Log, LogConfig
from ..log.producer_state import AbortedTransaction
from ..log.segment import segment_bytes_in
from ..log.write_ahead import WriteAheadLog
from .configs import TopicSettings
from .delayed_fetch import DelayedFetches
from .producers import Producers
from .transaction_index import aborted_in

__all__ = ["UNKNOWN_EPOCH", "Partition"]

UNKNOWN_EPOCH: Final = -1


class Partition:
    """Its log opens lazily: a broker may have many more partitions than anyone looks at.

    Everything that touches the log may raise OSError or LogError.
    """

    __slots__ = (
        "_aborted",
        "_checkpoints",
        "_files",
        "_folder",
        "_hides_undurable",
        "_log",
        "_producers",
        "_settings",
        "_truncate_to",
        "_write_ahead",
        "index",
        "leader_epoch",
        "leader_id",
        "name",
        "sync_is_due",
        "unflushed_records",
        "waiters",
    )

    def __init__(
        self,
        name: str,
        index: int,
        folder: Path,
        files: Files,
        settings: TopicSettings,
        checkpoints: PartitionCheckpoints,
        *,
        leader_id: int,
        hides_undurable: bool,
        write_ahead: WriteAheadLog | None,
    ) -> None:
        self.name = name
        """As in Kafka's messages and folders: `orders-0`."""
        self.index = index
        self.leader_id = leader_id
        """The node that leads it; NO_LEADER while none of the nodes is up."""
        self.leader_epoch = 0
        """How often another node has become its leader."""
        self.waiters = DelayedFetches()
        self.unflushed_records = 0
        self.sync_is_due = False
        """Whether a timer will sync what flush.ms allows to wait."""
        self._folder = folder
        self._files = files
        self._settings = settings
        self._checkpoints = checkpoints
        self._hides_undurable = hides_undurable
        self._write_ahead = write_ahead
        self._log: Log | None = None
        self._truncate_to: int | None = None
        self._producers: Producers | None = None
        self._aborted: tuple[AbortedTransaction, ...] | None = None

    def lead(self, leader_id: int, epoch: int) -> None:
        """From now on this node leads it."""
        self.leader_id, self.leader_epoch = leader_id, epoch
        if self._log is not None:
            self._log.config = self._log_config()

    @property
    def settings(self) -> TopicSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: TopicSettings) -> None:
        self._settings = settings
        if self._log is not None:
            self._log.config = self._log_config()

    @property
    def log(self) -> Log:
        if self._log is None:
            self._log = Log.open(
                self._folder,
                self._files,
                self._log_config(),
                start_offset=self._checkpoints.start_offsets.get(self.name),
                truncate_to=self._truncate_to,
                write_ahead=self._write_ahead,
            )
            self._truncate_to = None
            newest, _ = self._log.leader_epochs()[-1]
            if newest > self.leader_epoch:
                # Written under an election that a crash took back; the next one must not get the
                # same epoch. Or by another broker, whose folder this was.
                self.lead(self.leader_id, newest + 1)
        return self._log

    def reopened(self, end_offset: int | None = None) -> Log:
        """The log, opened anew from what is in its folder. Whoever else has it must let go.

        What lies behind `end_offset` was refused and is cut off. If that fails now, then by whoever
        opens the log next: nobody may see it, and no compaction may count it."""
        if end_offset is not None:
            self._truncate_to = end_offset
        self.close()
        return self.log

    @property
    def opened_log(self) -> Log | None:
        """The log if anyone has looked at it yet."""
        return self._log

    @property
    def size(self) -> int:
        """Bytes of its log. Does not open it: a broker may be asked for all it has."""
        if self._log is not None:
            return self._log.size
        return segment_bytes_in(self._folder, self._files)

    @property
    def start_offset(self) -> int:
        return self.log.start_offset

    @property
    def high_watermark(self) -> int:
        """Where readers stop. Records of ordinary topics are readable as soon as they are
        appended; those of the offsets topic when no crash can take them back."""
        return self.log.synced_offset if self._hides_undurable else self.log.end_offset

    def read(self, offset: int, max_bytes: int, *, minimum_one: bool) -> bytes:
        """Whole stored batches up to the high watermark. Raises OffsetOutOfRange too."""
        if self._hides_undurable:
            up_to = self.log.synced_offset
            return self.log.read(offset, max_bytes, minimum_one=minimum_one, up_to=up_to)
        return self.log.read(offset, max_bytes, minimum_one=minimum_one)

    def aborted_since(self, offset: int) -> tuple[AbortedTransaction, ...]:
        """The transactions that were aborted at this offset or later. Raises OSError."""
        if self._aborted is None:
            self._aborted = aborted_in(self._folder, self._files)
        if not self._aborted:
            return ()  # as nearly always, at every fetch
        return tuple(each for each in self._aborted if each.last_offset >= offset)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """(epoch, offset) where the records of this leader epoch end, both -1 if nobody knows."""
        epochs = self.log.leader_epochs()
        if epoch == epochs[-1][0]:
            return epoch, self.log.end_offset
        later = next((offset for each, offset in epochs if each > epoch), None)
        if epoch == UNKNOWN_EPOCH or later is None:
            return UNKNOWN_EPOCH, UNKNOWN_EPOCH
        return max((each for each, _ in epochs if each <= epoch), default=epoch), later

    def epoch_at(self, offset: int) -> int:
        """The leader epoch that the record at `offset` was written in, or would be."""
        epochs = self.log.leader_epochs()
        return max((epoch for epoch, begin in epochs if begin <= offset), default=UNKNOWN_EPOCH)

    def producers(self, expiration_ms: Callable[[], int], now_ms: int) -> Producers:
        """Who wrote what, read from the log at the first use."""
        if self._producers is None:
            producers = Producers(expiration_ms)
            for header, _ in self.log.batches():
                if header.producer_id >= 0 and header.base_sequence >= 0:
                    producers.note(header, header.base_offset, now_ms)
            self._producers = producers
        return self._producers

    def close(self) -> None:
        """Lets go of the files; the next use opens them again."""
        if self._log is not None:
            self._log.close()
        self._log = None
        self._producers = None

    def delete(self) -> None:
        """Removes the log with its folder."""
        # A log that nobody opened need not be recovered to be thrown away.
        log = self._log or Log(self._folder, self._files, LogConfig(), read_only=True)
        self._log = self._producers = None
        log.delete()
        self._checkpoints.remove(self.name)

    def _log_config(self) -> LogConfig:
        settings = self._settings
        segment_ms = settings.segment_ms
        if settings.compacted:
            # Only closed segments are compacted (upstream: LogConfig.maxSegmentMs).
            segment_ms = min(segment_ms, settings.max_compaction_lag_ms)
        # Ordinary topics are left to the system, as in Kafka: opening need not sync them.
        return LogConfig(
            segment_bytes=settings.segment_bytes,
            segment_ms=segment_ms,
            index_interval_bytes=settings.index_interval_bytes,
            max_message_bytes=settings.max_message_bytes,
            leader_epoch=self.leader_epoch,
            sync_at_open=self._hides_undurable,
        )
