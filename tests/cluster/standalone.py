"""A real standalone cluster of Spark, from the pip package: a master and two workers, each a JVM of its own, on loopback and free ports.

The workers listen on 127.0.0.1 and 127.0.0.2: Spark starts no speculative copy of a task on the host name that runs it already, so two
workers of one name would never show one. Who starts a cluster ends it, process by process; none outlives the `with` block.

    folder/conf            what they log, and how
    folder/master.txt      what each of them says
    folder/worker-1.txt …
    folder/work-1 …        what executors say and keep
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
SPARK_CLASS = SPARK_HOME / "bin" / "spark-class"
HOSTS = ("127.0.0.1", "127.0.0.2")
MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
EXECUTOR = "CoarseGrainedExecutorBackend"
DAEMON_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""They start faster when they do not compile as well as they can."""
START_S = 60.0
LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""


class ClusterError(Exception):
    """The cluster does not start; what it said is in the text."""


class StandaloneCluster:
    """Started by `with`, and ready when that returns. Its workers have `cores` and memory for each of so many applications at a time."""

    def __init__(self, folder: Path, *, cores: int = 1, memory_mib: int = 1024, applications: int = 1) -> None:
        self.folder = folder
        self._cores = cores
        self._memory_mib = memory_mib
        self._applications = applications
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.port, self._web_port = free_ports(2)

    @property
    def url(self) -> str:
        """What a session takes as its master."""
        return f"spark://{HOSTS[0]}:{self.port}"

    @property
    def settings(self) -> dict[str, str]:
        """What a session on this cluster needs: an executor on each worker, the driver's own interpreter there, loopback only."""
        return {
            "spark.driver.host": HOSTS[0],
            "spark.driver.bindAddress": HOSTS[0],
            "spark.cores.max": str(self._cores * len(HOSTS)),
            "spark.executor.cores": str(self._cores),
            "spark.executor.memory": "600m",
            "spark.pyspark.python": sys.executable,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # so that no job begins on one of them alone
            "spark.local.dir": str(self.folder / "local"),
        }

    def __enter__(self) -> Self:
        conf = self.folder / "conf"
        conf.mkdir(parents=True)
        (conf / "log4j2.properties").write_text(LOGGING)
        ports = ("--port", str(self.port), "--webui-port", str(self._web_port))
        try:
            self._launch("master", HOSTS[0], MASTER, "--host", HOSTS[0], *ports)
            self._wait("master", lambda: self._state() is not None)
            for number, host in enumerate(HOSTS, 1):
                cores, memory = self._cores * self._applications, f"{self._memory_mib * self._applications}m"
                resources = ("--cores", str(cores), "--memory", memory, "--work-dir", str(self.folder / f"work-{number}"))
                self._launch(f"worker-{number}", host, WORKER, "--host", host, "--webui-port", "0", *resources, self.url)
            self._wait("workers", lambda: (self._state() or {}).get("aliveworkers") == len(HOSTS))
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """End its processes, and wait for each; executors end with their worker."""
        for process in reversed(self._processes.values()):
            process.terminate()
        for process in self._processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    @property
    def processes(self) -> list[int]:
        """Of master and workers, those that were started and not ended."""
        return [process.pid for process in self._processes.values()]

    def applications(self) -> list[str]:
        """The names of those that the master has not given up."""
        return [one["name"] for one in (self._state() or {}).get("activeapps", ())]

    def executors(self) -> list[int]:
        """The processes of executor JVMs, of all applications."""
        workers = [process.pid for name, process in self._processes.items() if name.startswith("worker")]
        return [pid for worker in workers for pid in children(worker) if EXECUTOR in command_line(pid)]

    def python_daemons(self) -> list[int]:
        """Each executor that was given a task in Python has one, which forks the workers."""
        return [pid for executor in self.executors() for pid in children(executor) if "pyspark.daemon" in command_line(pid)]

    def python_workers(self) -> list[int]:
        """The processes that run Python for executors."""
        return [pid for daemon in self.python_daemons() for pid in children(daemon)]

    def _launch(self, name: str, host: str, *command: str) -> None:
        environment = os.environ | {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": DAEMON_OPTIONS,
            "PYSPARK_PYTHON": sys.executable,
        }
        with (self.folder / f"{name}.txt").open("wb") as messages:
            self._processes[name] = subprocess.Popen([SPARK_CLASS, *command], stdout=messages, stderr=messages, env=environment)

    def _wait(self, who: str, is_there: Any) -> None:
        deadline = time.monotonic() + START_S
        while not is_there():
            gone = [name for name, process in self._processes.items() if process.poll() is not None]
            if gone or time.monotonic() > deadline:
                said = "\n".join(f"{path.name}: {path.read_text(errors='replace')[-2000:]}" for path in sorted(self.folder.glob("*.txt")))
                raise ClusterError(f"{who} not there after {START_S:.0f} s, or gone: {gone}\n{said}")
            time.sleep(0.1)

    def _state(self) -> dict[str, Any] | None:
        """What the master says of itself, if it listens yet."""
        try:
            with urllib.request.urlopen(f"http://{HOSTS[0]}:{self._web_port}/json/", timeout=5) as answer:
                state: dict[str, Any] = json.load(answer)
                return state
        except OSError:
            return None


def children(pid: int) -> list[int]:
    """Processes that a process started, through any of its threads."""
    found: list[int] = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, path.read_text().split())
        except OSError:  # the thread has ended meanwhile
            continue
    return found


def command_line(pid: int) -> str:
    """How a process was started; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on, all of them different."""
    sockets = [socket.create_server((HOSTS[0], 0)) for _ in range(count)]
    try:
        return [held.getsockname()[1] for held in sockets]
    finally:
        for held in sockets:
            held.close()
