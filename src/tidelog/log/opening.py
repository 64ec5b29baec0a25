"""Open a partition directory to write to it: own it, load it, settle in."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from uuid import UUID

from tidelog.config import LogConfig
from tidelog.disk.file_pool import FilePool
from tidelog.disk.log_directory import LogDirectory, make_durable_directory
from tidelog.disk.names import TopicPartition, parse_partition
from tidelog.disk.partition_metadata import check_topic_id
from tidelog.errors import CorruptFileError, DamagedLogError, InconsistentTopicIdError, LogNotFoundError, TidelogError
from tidelog.log.load_report import LoadReport, Progress
from tidelog.log.loader import Loader
from tidelog.log.maintenance import Maintenance
from tidelog.log.storage_errors import storage_error


@dataclass
class Opening:
    """What `Log.open` was asked for; what is None is read from the checkpoints."""

    directory: str | os.PathLike[str]
    config: LogConfig
    clock: Callable[[], int]
    pool: FilePool
    is_kafka_mode: bool
    was_clean: bool | None
    recovery_point: int | None
    log_start_offset: int | None
    topic_id: UUID | None
    producer_expiration_ms: int
    workers: int
    progress: Callable[[Progress], None] | None
    random: Random
    held: LogDirectory | None = None
    """The log directory, where a store has it as a whole."""

    def open(self) -> tuple[Maintenance, LoadReport, UUID | None]:
        """The log's writing side, what loading did, and the id of its topic. If something fails, the directory is let go."""
        resolved = Path(self.directory).resolve()
        path = str(resolved)
        partition = parse_partition(resolved.name)
        if partition is None:
            raise LogNotFoundError(
                "not the name of a partition directory", path=path, expected="topic-partition, as in emails-0", found=resolved.name
            )
        try:
            home = LogDirectory.claim(str(resolved.parent), partition, disk=self.pool.disk, held=self.held)
        except OSError as error:
            if isinstance(error, TidelogError):
                raise
            raise storage_error(error, str(resolved.parent), "taking over the log directory failed") from error
        report = LoadReport()
        try:
            return self._load(home, partition, path, report)
        except BaseException as error:
            with suppress(OSError):  # the first reason is the one to tell
                if isinstance(error, (DamagedLogError, CorruptFileError, InconsistentTopicIdError)) and not report.has_changed:
                    home.abandon(partition)  # the clean shutdown marker comes back
                else:
                    home.release(partition, clean=False)
            if isinstance(error, OSError) and not isinstance(error, TidelogError):
                hint = "make room, and open it again; to read it needs none"
                raise storage_error(error, path, "opening the log failed", hint=hint) from error
            raise

    def _load(
        self, home: LogDirectory, partition: TopicPartition, path: str, report: LoadReport
    ) -> tuple[Maintenance, LoadReport, UUID | None]:
        disk, config = self.pool.disk, self.config
        is_new = not disk.exists(path)
        if is_new:
            make_durable_directory(disk, path)
        start = self.log_start_offset
        if start is None:
            # What a checkpoint says of a directory that was not there is about one that is gone.
            start = 0 if is_new else home.log_start_offset(partition) or 0
        loader = Loader(
            self.pool,
            path,
            config,
            is_kafka_mode=self.is_kafka_mode,
            drops_behind_damage=self.is_kafka_mode or not config.is_durable,
            is_clean=is_new or (home.was_clean(partition) if self.was_clean is None else self.was_clean),
            recovery_point=self.recovery_point if self.recovery_point is not None else home.recovery_point(partition) or 0,
            log_start_offset=start,
            report=report,
            now_ms=self.clock(),
            producer_expiration_ms=self.producer_expiration_ms,
            workers=self.workers,
            progress=self.progress,
        )
        topic_id = check_topic_id(disk, path, self.topic_id)
        writing = Maintenance(home, partition, path, config, self.clock, self.pool, loader.load(), self.random)
        writing.settle_in(was_clean=report.was_clean)
        return writing, report, topic_id
