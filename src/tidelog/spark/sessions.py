"""A Spark session that suits the data source: started with the right settings, or the one that is there already.

What matters most: the workers run the driver's own interpreter (Spark takes `python3` of the path otherwise, which need not have this
package), filters are pushed down (off unless it is asked for), errors come in one line, times are UTC, and the log is quiet. A session that
runs already is taken as it is, and what it lacks is told.
"""

import atexit
import logging
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.errors import InvalidConfigError, MissingPackageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger("tidelog.spark")

DEFAULT_MASTER, DEFAULT_MEMORY = "local[*]", "3g"
RECOMMENDED = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings of a session that can be changed while it runs."""
ARROW_JAVA_OPTIONS = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Arrow in Java checks the bounds of every single value unless it is told not to, and everything that goes to and from workers goes through
it: a tenth of the work of a read or a write."""
UNIX_SOCKETS = {"spark.python.unix.domain.socket.enabled": "true"}
"""Spark tells a worker what to do in two pieces, and TCP holds back the second until the first is acknowledged, which takes 40 ms: nine
tenths of what an empty task costs. Only with a local master: Spark leaves the sockets behind, and elsewhere nobody would remove them."""
QUIET = Path(__file__).parent / "quiet-log4j2.properties"
"""Of Spark's log on the driver: errors only. Otherwise there are ten lines before anything has begun."""
_LONGEST_PARENT = 45
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\d+)?\])?\Z")
_STATIC_PREFIXES = (
    *("spark.master", "spark.app.", "spark.driver.", "spark.executor", "spark.ui.", "spark.jars", "spark.pyspark.", "spark.log."),
    *("spark.local.", "spark.default."),
)
"""What is fixed when a session starts, though Spark lets some of it be set later, and then says that it is so."""


def session(
    app_name: str = "tidelog",
    master: str = DEFAULT_MASTER,
    config: Mapping[str, object] | None = None,
    *,
    memory: str = DEFAULT_MEMORY,
    remote: str | None = None,
) -> "SparkSession":
    """A Spark session that reads and writes topics: the one that is there, or a new one on `master`.

    `config` has settings of Spark, which count before ours. `memory` is that of the driver, where everything runs with a local master.
    `remote` asks for Spark Connect instead: a server (`sc://…`), or a master to start one on (`local[2]`).
    """
    check_packages()
    from pyspark.sql import SparkSession

    asked = {name: _text(value) for name, value in (config or {}).items()}
    running = _running()
    if running is not None:
        if remote is not None and not is_connect(running):
            raise InvalidConfigError(
                "a session without Spark Connect runs already, and there is one kind in a process",
                expected=f"none, or one of {remote}",
                found=running.conf.get("spark.master", None) or "a session",
                hint="stop() it first, or leave remote away",
            )
        started_with = {"spark.master": (master, DEFAULT_MASTER), "spark.driver.memory": (memory, DEFAULT_MEMORY)}
        other = [
            f"{name}={value}"
            for name, (value, default) in started_with.items()
            if value != default and name not in asked and running.conf.get(name, None) != value
        ]
        return _taken(running, asked, other)
    if remote is None or not remote.startswith("sc://"):
        check_java()
        use_own_interpreter()
    builder = SparkSession.builder.appName(app_name)
    builder = builder.master(master) if remote is None else builder.remote(remote)
    for name, value in {**settings(master, memory=memory, is_connect=remote is not None), **asked}.items():
        builder = builder.config(name, value)
    started = builder.getOrCreate()
    if remote is None:
        started.sparkContext.setLogLevel(asked.get("spark.log.level", "ERROR"))
    register(started)
    return started


def settings(master: str, *, memory: str = DEFAULT_MEMORY, is_connect: bool = False) -> dict[str, str]:
    """What a new session is started with."""
    found = dict(RECOMMENDED)
    if is_connect:
        return found
    found |= {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.pyspark.python": sys.executable}
    found |= {
        # Quoted: a space in the path would end the option, and Java takes what follows for the program to run.
        "spark.driver.extraJavaOptions": f"{shlex.quote(f'-Dlog4j2.configurationFile={QUIET}')} {ARROW_JAVA_OPTIONS}",
        "spark.executor.extraJavaOptions": ARROW_JAVA_OPTIONS,
    }
    local = _LOCAL.match(master)
    if local is not None:
        cores = (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
        found |= {"spark.driver.memory": memory, "spark.sql.shuffle.partitions": str(2 * cores)}
        found |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        found |= {"spark.python.daemon.module": "tidelog.spark.worker_daemon"}
        found |= UNIX_SOCKETS | {"spark.python.unix.domain.socket.dir": socket_directory()}
    return found


@cache
def socket_directory() -> str:
    """Where the sockets of this process lie, until it ends. Their names may have a hundred characters, of which Spark takes 43."""
    parent = tempfile.gettempdir()
    made = tempfile.mkdtemp(prefix="tidelog-", dir=parent if len(parent) <= _LONGEST_PARENT else "/tmp")  # noqa: S108
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def register(running: "SparkSession") -> None:
    """Make the format known to a session. Spark finds it by itself, unless a neighbour that it looks at fails to be imported."""
    from tidelog.spark.source import TidelogDataSource

    running.dataSource.register(TidelogDataSource)


def check_packages() -> None:
    """Raise if PySpark is not installed, or too old."""
    try:
        from pyspark.sql.streaming import datasource  # noqa: F401 - came with 4.2
    except ImportError as error:
        raise MissingPackageError(
            "PySpark is not installed, or too old", expected="pyspark 4.2 or newer", found=str(error), hint="pip install 'tidelog[spark]'"
        ) from None


def check_java(environment: Mapping[str, str] | None = None) -> str:
    """The Java that Spark will run; raises where there is none, which Spark tells in forty lines."""
    variables = os.environ if environment is None else environment
    home = variables.get("JAVA_HOME")
    hint = "install a Java runtime, version 17 (on Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME to where one is"
    if home:
        java = Path(home) / "bin" / "java"
        if not java.exists():
            raise MissingPackageError("JAVA_HOME has no Java", path=home, expected="bin/java", found="nothing", hint=hint)
        return str(java)
    found = shutil.which("java", path=variables.get("PATH"))
    if found is None:
        raise MissingPackageError(
            "Spark needs Java, and there is none", expected="JAVA_HOME, or java on the PATH", found="neither", hint=hint
        )
    return found


def use_own_interpreter() -> None:
    """Let workers run this interpreter, unless somebody has said which. It has to be known before the session starts."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def is_connect(running: "SparkSession") -> bool:
    """Whether a session is a client of Spark Connect."""
    return type(running).__module__.startswith("pyspark.sql.connect.")


def _running() -> "SparkSession | None":
    """The session that there is, also one that another thread has started: that is active only there, and taken by Spark all the same."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    try:
        found = SparkSession.active()
    except PySparkRuntimeError:
        return None
    if is_connect(found):
        return found
    if found.sparkContext._jsc is None:
        return None  # only the context was stopped: the session is still known, and of no use
    found.createDataFrame([], "nothing int")  # which makes it active in this thread too; without that Spark does not find the sink
    return found


def _taken(running: "SparkSession", asked: Mapping[str, str], other: list[str]) -> "SparkSession":
    """The session that is there, with the settings that can still be set; `other` is what it was asked to be started with, and was not."""
    late = other
    for name, value in asked.items():
        if running.conf.get(name, None) == value:
            continue
        if name.startswith(_STATIC_PREFIXES) or not _is_set(running, name, value):
            late.append(name)
    if late:
        logger.warning("tidelog: a session runs already, and these settings are fixed when one starts: %s", ", ".join(late))
    register(running)
    lacking = [f"{name}={value}" for name, value in RECOMMENDED.items() if (running.conf.get(name, None) or "").lower() != value.lower()]
    if lacking:
        logger.warning("tidelog: a session runs already and is taken as it is; it lacks %s", ", ".join(lacking))
    return running


def _is_set(running: "SparkSession", name: str, value: str) -> bool:
    """Set it, unless Spark says that it is fixed."""
    from pyspark.errors import PySparkException

    try:
        running.conf.set(name, value)
    except PySparkException as error:
        if not (error.getCondition() or "").startswith("CANNOT_MODIFY_"):
            raise
        return False
    return True


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
