"""The options of a write, batch or stream, checked and put into one value."""

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelog.disk.store_content import MAX_PARTITIONS
from tidelog.errors import InvalidConfigError
from tidelog.spark.option_values import OptionValues, check_names, refuse

DEFAULT_LOCK_TIMEOUT_MS = 30_000
DEFAULT_BATCH_BYTES = 65536
STREAM_ONLY = ("queryId",)
BATCH_ONLY = ("transactionalId", "batchId", "commitReport")
NEW_TOPICS = ("partitions", "topicConfig")
OPTIONS = (
    *("path", "paths", "topic", "createTopics", *NEW_TOPICS, *STREAM_ONLY, *BATCH_ONLY),
    *("lockTimeout", "compression", "batchBytes", "stagingDirectory"),
)
"""Every option that means something to a write, as it is spelled."""
_OF_SPARK = ("checkpointLocation", "includeHeaders", "queryName")
"""What Spark passes on, or its Kafka sink knows, and that needs no word here: headers are written if there is a column of them."""
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

logger = logging.getLogger("tidelog.spark")
_told: set[tuple[str, ...]] = set()


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """A write as it was asked for. Small, and pickled to wherever it is needed."""

    paths: str
    """The directories of the store as they were given."""
    topic: str | None
    """For all records; None: there is a column."""
    create_topics: bool
    partitions: int
    """Of topics that are made."""
    topic_config: Mapping[str, str] = field(default_factory=dict)
    transactional_id: str | None = None
    """Of a batch job that may be run again."""
    batch_id: int = 0
    query_id: str | None = None
    """Of a stream, instead of the one in its checkpoint."""
    lock_timeout_s: float = DEFAULT_LOCK_TIMEOUT_MS / 1000
    compression: str | None = None
    batch_bytes: int = DEFAULT_BATCH_BYTES
    staging_directory: str | None = None
    commit_report: str | None = None
    """A file in which the commit of a batch says what it has done."""
    label: str | None = None
    """By which the staging directories of a stream are known to belong together; None where nothing tells streams apart."""
    ignored: tuple[str, ...] = ()
    """Options that were given and mean nothing here."""

    @classmethod
    def of(cls, options: Mapping[str, str], is_stream: bool, *, others: tuple[str, ...] = ()) -> "WriteOptions":
        """Read and check what was given. `others` are names that mean something elsewhere: a view has one set of options for all."""
        values = OptionValues(options)
        foreign = sorted(name for name in options if name.lower().startswith("kafka."))
        check_names((name for name in options if name not in foreign), tuple(dict.fromkeys((*OPTIONS, *_OF_SPARK, *others))))
        _check_kind(values, is_stream=is_stream)
        paths = values.text("path") or values.text("paths")
        if not paths:
            raise InvalidConfigError("no directory was given", hint='save("data") or start("data") does, or option path')
        create_topics = values.flag("createTopics", default=False)
        for name in NEW_TOPICS:
            if name in values and not create_topics:
                raise InvalidConfigError(
                    f"option {name} is for topics that are made", hint="createTopics=true makes those that are missing"
                )
        lock_timeout_ms = values.duration_ms("lockTimeout")
        query_id = _some_text(values, "queryId")
        # Where the checkpoint lies by a setting of the session, Spark passes on no more than the query's name.
        checkpoint = values.text("checkpointLocation") or query_id or values.text("queryName")
        return cls(
            paths=paths,
            topic=_some_text(values, "topic"),
            create_topics=create_topics,
            partitions=values.integer("partitions", maximum=MAX_PARTITIONS) or 1,
            topic_config=_topic_config(values),
            transactional_id=_some_text(values, "transactionalId"),
            batch_id=values.integer("batchId", minimum=0) or 0,
            query_id=query_id,
            lock_timeout_s=(DEFAULT_LOCK_TIMEOUT_MS if lock_timeout_ms is None else lock_timeout_ms) / 1000,
            compression=values.one_of("compression", {codec: codec for codec in _CODECS}, "") or None,
            batch_bytes=values.size("batchBytes") or DEFAULT_BATCH_BYTES,
            staging_directory=_some_text(values, "stagingDirectory"),
            commit_report=_some_text(values, "commitReport"),
            label=hashlib.sha256(checkpoint.encode()).hexdigest()[:12] if is_stream and checkpoint else None,
            ignored=tuple(foreign),
        )

    def tell_ignored(self) -> None:
        """Say in one line what was given for nothing, once in a process."""
        if self.ignored and self.ignored not in _told:
            _told.add(self.ignored)
            logger.warning("tidelog: these options mean nothing here and are ignored: %s", ", ".join(self.ignored))


def _check_kind(values: OptionValues, *, is_stream: bool) -> None:
    for name in BATCH_ONLY if is_stream else STREAM_ONLY:
        if name in values:
            instead = "a stream counts its batches itself; queryId names it" if is_stream else "transactionalId names a batch job"
            instead = "a stream commits again and again" if name == "commitReport" else instead
            raise InvalidConfigError(f"option {name} is not for {'streams' if is_stream else 'batches'}", hint=instead)
    if "batchId" in values and "transactionalId" not in values:
        raise InvalidConfigError("option batchId says which run of a job it is", hint="transactionalId names the job")


def _some_text(values: OptionValues, name: str) -> str | None:
    text = values.text(name)
    if text == "":
        raise refuse(name, "a name", text)
    return text


def _topic_config(values: OptionValues) -> dict[str, str]:
    text = values.text("topicConfig")
    if text is None:
        return {}
    expected = 'JSON with settings of a topic, as in {"cleanup.policy": "compact"}'
    try:
        found = json.loads(text)
    except ValueError:
        raise refuse("topicConfig", expected, text) from None
    if not isinstance(found, dict) or any(isinstance(value, (dict, list)) or value is None for value in found.values()):
        raise refuse("topicConfig", expected, text)
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in found.items()}
