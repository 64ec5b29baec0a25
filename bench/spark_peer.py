"""The rivals of our data source, in one session with it: Spark's own Kafka connector with a broker on this machine, and Parquet.

There is one JVM for Spark in a process, so one session has the connector's jars and our source both, on two cores, and stays for all
promises. The broker is a second JVM, as it is for anybody who uses the connector, with the collector and the heap of Kafka's own launch
script. It serves the directory that ours reads.

Reproduce: `.venv/bin/python -m bench --only 8-`
"""

import atexit
import contextlib
import functools
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.spark_data import PARTITIONS, TOPIC, made_once, rows_to_write
from interop.broker.broker import Broker
from interop.broker.scenarios import NEWER
from interop.spark.connector_session import connector_session, connector_version

BROKER_JVM = "-XX:-UseSerialGC -XX:+UseG1GC -Xms1g -Xmx1g -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35"
"""As Kafka's launch script has it."""
BROKER_SETTINGS = {
    "log.index.size.max.bytes": "10485760",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "log.retention.check.interval.ms": "300000",
    "group.initial.rebalance.delay.ms": "0",
}
"""Kafka's own defaults where those of the interop tests are for small directories."""
SESSION = {
    "spark.driver.memory": "4g",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.parquet.compression.codec": "uncompressed",
}
CHECKPOINTED_S = 6.0
"""A broker notes its high watermarks every five seconds; a reader beside it does not look beyond."""


@dataclass(frozen=True)
class Rivals:
    """The session, and what it reads from."""

    session: SparkSession
    broker: Broker

    def connector(self, topic: str = TOPIC, broker: Broker | None = None) -> DataFrame:
        """Through Spark's own Kafka connector, committed records only, as ours by default."""
        bootstrap = (broker or self.broker).bootstrap
        options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "kafka.isolation.level": "read_committed"}
        return self.session.read.format("kafka").options(**options).load()

    def ours(self, directory: Path | None = None, options: Mapping[str, str] | None = None) -> DataFrame:
        """Through our source, from the broker's directory or another."""
        return self.session.read.format("tidelog").options(subscribe=TOPIC, **(options or {})).load(str(directory or self.broker.data))

    def parquet(self) -> DataFrame:
        """The same rows."""
        return self.session.read.parquet(str(made_once("spark-rows", self._write_parquet)))

    @property
    def connector_version(self) -> str:
        """Who the connector is, and what it reads from."""
        return f"{connector_version()}, Apache Kafka {NEWER}"

    @property
    def parquet_version(self) -> str:
        """Who wrote and reads the Parquet."""
        return f"Parquet, uncompressed, PySpark {self.session.version}"

    def _write_parquet(self, path: Path) -> None:
        self.connector().write.parquet(str(path))


@functools.cache
def rivals() -> Rivals:
    """Started when they are first asked for; they end with the process."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tidelog-bench-")))
    session = stack.enter_context(connector_session(folder, settings=SESSION))
    home = made_once("spark-broker", lambda path: _fill(path, session))
    broker = stack.enter_context(a_broker(home))
    broker.start()
    stack.callback(broker.stop)  # in order, so that the next start has nothing to recover
    return Rivals(session, broker)


def a_broker(home: Path) -> Broker:
    """As it is compared with us. A context manager that does not start it."""
    return Broker(home, version=NEWER, settings=BROKER_SETTINGS, jvm=BROKER_JVM)


def new_topic(broker: Broker, name: str) -> None:
    """A topic like the one that is read, for what is written."""
    broker.clients.create_topics({name: {}}, partitions=PARTITIONS)


def write_with_connector(frame: DataFrame, broker: Broker, topic: str) -> None:
    """Through Spark's own Kafka sink, with its defaults: the producer's acks=all."""
    frame.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("topic", topic).save()


def _fill(home: Path, session: SparkSession) -> None:
    """Let Spark's Kafka sink write the rows, and the broker note how far they are readable."""
    with a_broker(home) as broker:
        broker.start()
        new_topic(broker, TOPIC)
        write_with_connector(rows_to_write(session), broker, TOPIC)
        time.sleep(CHECKPOINTED_S)
        broker.stop()
    # Where it lies now is in its settings, which are written anew for each start.
    (home / "server.properties").unlink()
    (home / "made.json").write_text(json.dumps({"topic": TOPIC, "by": connector_version()}) + "\n")
