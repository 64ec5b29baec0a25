"""What somebody else has checkpointed about a log, in the directory above it."""

from tidelog.disk.checkpoints import parse_offsets
from tidelog.disk.file_pool import FilePool
from tidelog.disk.names import TopicPartition
from tidelog.disk.published_end import UNREADABLE
from tidelog.errors import CorruptFileError
from tidelog.log.read_only_files import Watch, open_plain

_MAX_CHECKPOINT_BYTES = 256 << 20


class Checkpoint:
    """The entry of one partition in a checkpoint file of the directory above."""

    def __init__(self, pool: FilePool, path: str, partition: TopicPartition) -> None:
        self._pool = pool
        self._path = path
        self._partition = partition
        self._watch = Watch(pool.disk, path)
        self._offset: int | None = None

    def read(self) -> int | None:
        """What it says now; None if nothing. A file that does not parse counts as empty, as for Kafka."""
        if self._watch.has_changed():
            self._offset = self._read()
        return self._offset

    @property
    def written_ns(self) -> int:
        """When the file was last written, as of the last `read`."""
        return self._watch.mtime_ns

    def _read(self) -> int | None:
        try:
            opened = open_plain(self._pool, self._path)
            if (size := self._pool.disk.size(opened.fd)) > _MAX_CHECKPOINT_BYTES:
                return None
            return parse_offsets(self._pool.disk.read(opened.fd, size, 0), self._path).get(self._partition)
        except OSError as error:
            if error.errno in UNREADABLE:
                self._watch.forget()  # it was not read
                raise
            return None
        except CorruptFileError:
            return None
