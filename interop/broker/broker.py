"""A broker: Kafka in KRaft mode, broker and controller in one process, on loopback and free ports.

    home/data                  its log directory, formatted when it first starts
    home/server.properties     its settings
    home/broker.txt            what it logs
    home/clients.txt           what its clients log

It can be stopped and killed and started again, on the same ports. It ends with the `with` block, and with this process.
"""

import socket
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from interop.broker.clients import Clients
from interop.java_program import SMALL_JVM, JavaError, JavaProgram
from tidelog.disk.names import CLEAN_SHUTDOWN

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"

INDEX_BYTES = 8192
"""Of an active segment: preallocated, so that the default would be copied around by the tens of mebibytes."""

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    # One replica, and one partition of what Kafka keeps for itself.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # Small, and soon.
    "log.index.size.max.bytes": str(INDEX_BYTES),
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.cleaner.backoff.ms": "100",
    "log.initial.task.delay.ms": "0",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "broker.session.timeout.ms": "3000",  # after a crash, the next one is let in when this is over
    "broker.heartbeat.interval.ms": "500",
    "num.network.threads": "1",
    "num.io.threads": "2",
    # Timestamps of records are of no concern to anybody here.
    "log.retention.ms": "-1",
}


class BrokerError(Exception):
    """A broker does not start; what it said is in the text."""


class Broker:
    """A context manager that does not start it: `start` does."""

    def __init__(self, home: Path, *, version: str, settings: Mapping[str, str] | None = None, jvm: str = SMALL_JVM) -> None:
        self.version = version
        self._jvm = jvm
        self.home = home
        self.data = home / "data"
        self._program: JavaProgram | None = None
        self._clients: Clients | None = None
        home.mkdir(parents=True, exist_ok=True)
        broker, controller = free_ports(2)
        self.bootstrap = f"127.0.0.1:{broker}"
        listeners = f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}"
        places = {
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.data),
        }
        lines = [f"{name}={value}\n" for name, value in (SETTINGS | places | dict(settings or {})).items()]
        (home / "server.properties").write_text("".join(lines))

    def __enter__(self) -> "Broker":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._clients is not None:
            self._clients.kill()
        if self._program is not None:
            self.kill()

    @property
    def is_running(self) -> bool:
        return self._program is not None and self._program.is_running

    @property
    def pid(self) -> int:
        """The process that holds the log directory."""
        return self._running.pid

    @property
    def _running(self) -> JavaProgram:
        assert self._program is not None, "the broker was not started"
        return self._program

    @property
    def clients(self) -> Clients:
        """Clients of this broker. They stay when it is stopped, and find it again."""
        if self._clients is None:
            self._clients = Clients(self.bootstrap, version=self.version, messages=self.home / "clients.txt")
        return self._clients

    def launch(self) -> None:
        """Start it, and wait for nothing."""
        assert not self.is_running
        settings, messages = self.home / "server.properties", self.home / "broker.txt"
        self._program = JavaProgram("RunBroker", settings, CLUSTER_ID, version=self.version, messages=messages, jvm=self._jvm)

    def start(self) -> None:
        """Start it, and wait until a client gets an answer. `BrokerError` if it ends before."""
        self.launch()
        try:
            self.clients.ask("topics", topics={}, partitions=0, is_alive=lambda: self.is_running)
        except JavaError as error:
            self.kill()
            raise BrokerError(f"{error}\n{self._running.last_words()}") from error

    def stop(self) -> None:
        """A clean stop."""
        self._running.terminate()
        assert (self.data / CLEAN_SHUTDOWN).exists(), self._running.last_words()

    def kill(self) -> None:
        """A crash."""
        self._running.kill()

    def partition(self, topic: str, number: int = 0) -> Path:
        """The directory of a partition."""
        return self.data / f"{topic}-{number}"


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on, all of them different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [held.getsockname()[1] for held in sockets]
    finally:
        for held in sockets:
            held.close()
