"""The process that forks Spark's Python workers on this machine: PySpark's own, with the habits of `worker_habits`.

Spark runs this file by its name (`spark.python.daemon.module`), where the master is local: elsewhere the package may come to executors in
ways that are not there yet when the daemon starts.
"""

from pyspark import daemon

from tidelog.spark.worker_habits import collect_once, hush

if __name__ == "__main__":
    hush(daemon)
    collect_once(daemon)
    daemon.manager()
