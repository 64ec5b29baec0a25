"""What stopped a stage, from the text that comes back: as the error that it was, whoever has raised it."""

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from tidelog.errors import ChecksumError, DiskFullError, JobFailedError, StorageError, TidelogError
from tidelog.spark.jobs.running import SparkTasks
from tidelog.spark.jobs.task_errors import typed_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STACK = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: Lost task \
0.0 in stage 1.0 (TID 1) (localhost executor driver): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/lib/pyspark/worker.py", line 3301, in main
    process()
  File "/lib/tidelog/disk/disk.py", line 99, in write
    except OSError: pass
{line}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: java.io.IOException: something of Java's
"""


def told(line: str) -> TidelogError:
    return typed_error(RuntimeError(STACK.format(line=line)), "tidelog compact emails: hash keys")


@pytest.mark.parametrize(
    ("line", "kind", "number", "path"),
    [
        ("OSError: [Errno 28] No space left on device", DiskFullError, errno.ENOSPC, None),
        ("OSError: [Errno 28] No space left on device: '/data/a: b'", DiskFullError, errno.ENOSPC, "/data/a: b"),
        ("OSError: [Errno 122] Disk quota exceeded: '/data/x'", DiskFullError, errno.EDQUOT, "/data/x"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/data/x' -> '/data/y'", StorageError, errno.ENOENT, "/data/x"),
        ("PermissionError: [Errno 13] Permission denied: '/data/x'", StorageError, errno.EACCES, "/data/x"),
        ("OSError: /data/x is shorter than it was written", StorageError, None, None),
    ],
)
def test_what_the_operating_system_refuses_is_a_storage_error(line: str, kind: type[StorageError], number: int, path: str | None) -> None:
    error = told(line)
    assert type(error) is kind
    assert isinstance(error, StorageError)
    assert (error.errno, error.path) == (number, path)
    assert "hash keys" in str(error)
    assert "running it again is safe" in str(error)
    assert "java" not in str(error)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("KeyError: 'x'", "hash keys: KeyError: 'x' ("),
        ("MemoryError", "hash keys: MemoryError ("),
        ("some.module.StrangeError: yes", "hash keys: StrangeError: yes ("),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", "hash keys: ConnectionResetError: [Errno 104]"),
    ],
)
def test_anything_else_is_told_in_one_line(line: str, text: str) -> None:
    error = told(line)
    assert type(error) is JobFailedError
    assert text in str(error)


def test_errors_of_ours_stay_what_they_are() -> None:
    error = told("tidelog.errors.ChecksumError: /data/emails-0/0.log: a batch whose CRC does not match at byte 7")
    assert type(error) is ChecksumError
    assert "at byte 7" in str(error)


def test_without_such_a_line_spark_has_the_word() -> None:
    assert "ended unexpectedly" in str(typed_error(RuntimeError("x\nPython worker exited unexpectedly (crashed)"), "a stage"))
    assert str(typed_error(RuntimeError("first\nsecond"), "a stage")).startswith("a stage: first (")
    java = (
        "An error occurred while calling o7.save.\n: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed\n\tat x"
    )
    assert str(typed_error(RuntimeError(java), "a stage")).startswith("a stage: org.apache.spark.SparkClassNotFoundException: [DATA_SOURCE")
    assert type(told("")) is JobFailedError  # the line of code with OSError in it is none of them


def test_a_full_disk_of_an_executor(spark: "SparkSession") -> None:
    def is_full(task: Any, name: str) -> None:  # in here, so that it goes to executors by value
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"/data/{task}")

    with pytest.raises(DiskFullError, match="/data/7") as raised:
        SparkTasks(spark, "compact emails").run("hash keys", is_full, [7])
    assert "Traceback" not in str(raised.value)
