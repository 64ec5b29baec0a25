"""One Spark session that has both: Spark's own Kafka connector, from its jars, and our data source.

There is one JVM in a process, hence one session for a referee and for what it judges. The jars come from Maven (`interop/resolve-jars`);
PySpark from PyPI brings the rest of Spark.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tidelog.spark.sessions import ARROW_JAVA_OPTIONS, QUIET, UNIX_SOCKETS, socket_directory

RESOLVE_JARS = Path(__file__).parents[1] / "resolve-jars"
JARS = Path(__file__).parents[1] / ".jars" / "spark-connector"

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.pyspark.udf.hideTraceback.enabled": "true",
    "spark.python.daemon.module": "tidelog.spark.worker_daemon",
    **UNIX_SOCKETS,
}


def connector_jars() -> list[Path]:
    """The four jars; fetched if they are not there."""
    subprocess.run([RESOLVE_JARS, "spark-connector"], check=True)
    return sorted(JARS.glob("*.jar"))


def connector_version() -> str:
    """Who the referee, or the rival, is."""
    import pyspark

    (jar,) = JARS.glob("spark-sql-kafka-*.jar")
    return f"{jar.stem} with PySpark {pyspark.__version__}"


def java_options(folder: Path) -> str:
    """What the driver's Java is told. Quoted, as in `tidelog.spark.sessions`: a space in a path would end the option."""
    return shlex.join([f"-Dlog4j2.configurationFile={QUIET}", f"-Djava.io.tmpdir={folder}"]) + f" {ARROW_JAVA_OPTIONS}"


@contextmanager
def connector_session(folder: Path, *, master: str = "local[2]", settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A session that ends with the block, and its JVM with it. What Spark keeps on disk goes into the folder."""
    os.environ["PYSPARK_PYTHON"] = sys.executable  # otherwise workers run whatever python3 is on the path
    builder = SparkSession.builder.master(master).appName("tidelog-interop")
    places = {
        "spark.jars": ",".join(map(str, connector_jars())),
        "spark.local.dir": str(folder / "spark"),
        "spark.python.unix.domain.socket.dir": socket_directory(),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": java_options(folder),
    }
    for name, value in (SETTINGS | places | dict(settings or {})).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        end_session(session)


def end_session(session: SparkSession) -> None:
    """Stop it, and the JVM behind it: another session in this process may need other settings of that."""
    gateway = session.sparkContext._gateway
    session.stop()
    if gateway is not None:
        gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            process.wait(60)
    from pyspark import SparkContext

    SparkContext._gateway = None
    SparkContext._jvm = None
