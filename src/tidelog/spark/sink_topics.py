"""What a task has to know about the topics that it writes to: read from the store's file, which nobody has to own for that."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.errors import InvalidConfigError, NotAStoreError, UnknownTopicError

if TYPE_CHECKING:
    from uuid import UUID

    from tidelog.config import LogConfig
    from tidelog.disk.disk import Disk
    from tidelog.spark.write_options import WriteOptions
    from tidelog.store.store_file import StoreFile, TopicEntry


@dataclass(frozen=True, slots=True)
class SinkTopic:
    """A topic to write to."""

    name: str
    topic_id: "UUID | None"
    """None: it is to be made."""
    partitions: int
    here: tuple[int, ...]
    """Those that records can go to."""
    config: "LogConfig"


class SinkTopics:
    """The topics of a store as they are when they are first asked for."""

    def __init__(self, disk: "Disk", paths: list[str], options: "WriteOptions") -> None:
        self._disk = disk
        self._paths = paths
        self._options = options
        self._file: StoreFile | None = None
        self._is_read = False

    def find(self, name: str) -> SinkTopic:
        """A topic that is there, or that may be made; any other raises."""
        from tidelog.store.topic_names import INTERNAL_TOPICS

        file = self._read()
        entry = None if file is None else file.topics.get(name)
        if name in INTERNAL_TOPICS:
            raise UnknownTopicError(f"{name} takes no records from outside", path=self._paths[0])
        if entry is not None:
            return _existing(name, entry)
        if not self._options.create_topics:
            there = sorted(topic for topic in file.topics if topic not in INTERNAL_TOPICS) if file is not None else []
            listed = f"there are: {', '.join(there[:10])}{' …' if len(there) > 10 else ''}" if there else "there are none yet"
            raise UnknownTopicError(f"no topic {name!r}", path=self._paths[0], hint=f"{listed}; createTopics=true makes it")
        return self._new(name)

    def _read(self) -> "StoreFile | None":
        from tidelog.store.directories import check_directories

        if not self._is_read:
            self._file, self._is_read = check_directories(self._disk, self._paths, adopt=False), True
        return self._file

    def check_store(self) -> None:
        """Raise unless this is a store, or may become one."""
        if self._read() is None and not self._options.create_topics:
            raise NotAStoreError(
                "no store is here", path=self._paths[0], hint="createTopics=true makes one, with the topics; or tidelog.open"
            )

    def _new(self, name: str) -> SinkTopic:
        from tidelog.config import LogConfig
        from tidelog.store.topic_names import check_new_name

        check_new_name(name, self._file.topics if self._file is not None else ())
        try:
            config = LogConfig.of(dict(self._options.topic_config))
        except InvalidConfigError as error:
            error.what = f"option topicConfig: {error.what}"
            raise
        return SinkTopic(name, None, self._options.partitions, tuple(range(self._options.partitions)), config)


def _existing(name: str, entry: "TopicEntry") -> SinkTopic:
    from tidelog.config import LogConfig

    return SinkTopic(name, entry.topic_id, entry.partitions, tuple(entry.partition_ids()), LogConfig.of(dict(entry.config or {})))
