"""The seven steps of the demo. Each does something real, checks its figures against a plain computation, and says what came out."""

import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tidelog
from demo.changes import CHANGES, Changes
from tidelog import Time
from tidelog.errors import TidelogError
from tidelog.inspection import stats

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent
DATA, EXPORTED, REPORT = ROOT / "data", ROOT / "exported", ROOT / "report.html"
GOLDEN = ROOT.parent / "tests" / "golden" / "broker"
KILL_AFTER, FOLLOWED = 2_000, 1_000


class WrongFigureError(Exception):
    """A figure is not what arithmetic says: the demo fails."""


@dataclass
class Demo:
    """What the steps share."""

    changes: Changes
    spark: "SparkSession | None" = None
    summary: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def session(self) -> "SparkSession":
        """Started when it is first needed."""
        if self.spark is None:
            from tidelog.spark import session

            self.spark = session("tidelog demo", "local[2]", memory="2g")
        return self.spark


def check(what: str, found: object, expected: object) -> None:
    """A figure, and what it has to be."""
    if found != expected:
        raise WrongFigureError(f"{what}: found {found}, and it should be {expected}")


def broker_directory(demo: Demo) -> tuple[str, dict[str, Any]]:
    """A directory that a real Kafka wrote: opened, counted, explained."""
    expected = json.loads((GOLDEN / "expected.json").read_text())
    with tidelog.open(GOLDEN / "data", mode="r") as store:
        names = sorted(topic.name for topic in store.topics())
        counts = {name: sum(1 for _ in store.topic(name).read(isolation="high_watermark")) for name in names}
        why = str(store.explain("emails")).splitlines()[1].strip()
    check("topics", names, sorted(expected["topics"]))
    told = {name: sum(one.records for partition in GOLDEN.glob(f"data/{name}-[0-9]") for one in stats(str(partition))) for name in names}
    check("records, by reading them and by the headers of their batches", counts, told)
    version = expected["kafka_version"]
    line = f"written by Kafka {version}: {len(names)} topics, {sum(counts.values()):,} records. Of emails-0, {why}"
    return line, {"kafka_version": version, "records": counts}


def ingest(demo: Demo) -> tuple[str, dict[str, Any]]:
    """A million changes of e-mail addresses become records, on Spark."""
    from tidelog.spark import jobs

    shutil.rmtree(DATA, ignore_errors=True)
    # The cleaner of an open store would not wait for step 5.
    config = {"cleanup.policy": "compact", "segment.bytes": 8 << 20, "min.cleanable.dirty.ratio": 1}
    rows = demo.changes.rows(demo.session)
    started = time.perf_counter()
    result = jobs.ingest(demo.session, rows, DATA, "emails", partitions=4, config=config, transactional_id="demo")
    seconds = time.perf_counter() - started
    check("records ingested", result.records, CHANGES)
    check("records counted", jobs.stats(demo.session, DATA, "emails").records, CHANGES)
    again = jobs.ingest(demo.session, rows, DATA, "emails", partitions=4, config=config, transactional_id="demo")
    check("a second run, which has to notice the first", again.was_there_already, True)
    line = f"{result.records:,} changes in 4 partitions, durable after {seconds:.1f} s; run again, it notices that they are there"
    return line, {"records": result.records, "seconds": round(seconds, 2)}


def killed_writer(demo: Demo) -> tuple[str, dict[str, Any]]:
    """A writer is killed with -9: what was acknowledged is there."""
    process = subprocess.Popen([sys.executable, "-m", "demo.writer", str(DATA)], stdout=subprocess.PIPE, text=True, cwd=ROOT.parent)
    assert process.stdout is not None
    acknowledged = 0
    for line in process.stdout:
        acknowledged = int(line)
        if acknowledged == KILL_AFTER:
            process.kill()
    process.wait()
    process.stdout.close()
    with tidelog.open(DATA) as store:
        found = [int(record.value or b"") for record in store.topic("acknowledged").read()]
    check("values, in their order", found, list(range(len(found))))
    # One more may have been on the disk while its line was not yet printed.
    check("acknowledged records that are there", found[:acknowledged], list(range(acknowledged)))
    check("records that nobody asked for", len(found) - acknowledged in (0, 1), True)
    line = f"killed with -9: acknowledged {acknowledged:,}, found {acknowledged:,}"
    return line + (" and one more, whose answer was on its way" if len(found) > acknowledged else ""), {
        "acknowledged": acknowledged,
        "found": len(found),
    }


def time_travel(demo: Demo) -> tuple[str, dict[str, Any]]:
    """The latest state; and that of yesterday."""
    now, yesterday = _addresses(demo, None), _addresses(demo, demo.changes.yesterday_ms)
    check("addresses now", now, demo.changes.addresses())
    check("addresses yesterday", yesterday, demo.changes.addresses(demo.changes.before_yesterday))
    line = f"{now[0]:,} users have an address now, {yesterday[0]:,} had one when yesterday began"
    return line, {"now": now[0], "yesterday": yesterday[0]}


def _addresses(demo: Demo, at_ms: int | None) -> tuple[int, int]:
    """How many there are, and the sum of the numbers in them."""
    from pyspark.sql import functions as F  # noqa: N812 - as Spark's documentation has it

    from tidelog.spark import jobs

    table = jobs.table(demo.session, DATA, "emails", as_of=None if at_ms is None else Time(at_ms)).table
    number = F.regexp_extract(F.col("value").cast("string"), r"\.(\d+)@", 1).cast("long")
    row = table.agg(F.count("*"), F.sum(number)).first()
    assert row is not None
    return int(row[0]), int(row[1])


def compaction(demo: Demo) -> tuple[str, dict[str, Any]]:
    """Compaction on Spark: the same table of fewer records; and time travel that is honest about it."""
    from tidelog.spark import jobs

    before = jobs.stats(demo.session, DATA, "emails")
    result = jobs.compact(demo.session, DATA, ["emails"], roll=True)
    check("failures", result.failures, ())
    after = jobs.stats(demo.session, DATA, "emails")
    last = demo.changes.last_of_each_user()
    check("records left: the last of each user, also where that is a removal", after.records, int((last >= 0).sum()))
    check("addresses now, as before", _addresses(demo, None), demo.changes.addresses())
    try:
        _addresses(demo, demo.changes.yesterday_ms)
    except TidelogError as error:
        refusal = str(error)
    else:
        raise WrongFigureError("the state of yesterday was told from a log that has forgotten it")
    figures = {
        "records": [before.records, after.records],
        "bytes": [before.total.size_bytes, after.total.size_bytes],
        "refused": refusal,
    }
    sizes = f"{before.total.size_bytes / 1e6:.1f} MB to {after.total.size_bytes / 1e6:.1f} MB"
    return f"{before.records:,} records to {after.records:,}, {sizes}, the table is the same; yesterday is refused: {refusal}", figures


def follow_verify_export(demo: Demo) -> tuple[str, dict[str, Any]]:
    """A stream that follows while records are added; verification; Parquet."""
    import pyarrow.parquet as pq

    from tidelog.spark import jobs

    spark = demo.session
    stream = spark.readStream.format("tidelog").options(subscribe="emails", startingOffsets="latest").load(str(DATA))
    query = stream.writeStream.format("memory").queryName("followed").start()
    try:
        query.processAllAvailable()
        with tidelog.open(DATA) as store:
            store.topic("emails").append_many((b"user-new-%d" % number, b"new%d@tide.example" % number) for number in range(FOLLOWED))
        query.processAllAvailable()
    finally:
        query.stop()
    check("records that the stream saw", spark.table("followed").count(), FOLLOWED)
    verified = jobs.verify(spark, DATA)
    check("findings", [str(finding) for finding in verified.findings if finding.severity != "note"], [])
    shutil.rmtree(EXPORTED, ignore_errors=True)
    exported = jobs.export(spark, DATA, "emails", EXPORTED)
    expected = int((demo.changes.last_of_each_user() >= 0).sum()) + FOLLOWED
    check("records exported", exported.records, expected)
    check("rows in the files", sum(pq.read_metadata(path).num_rows for path in EXPORTED.rglob("*.parquet")), expected)
    line = f"{FOLLOWED:,} new records followed; {verified.partitions} partitions are sound; {exported.records:,} rows as Parquet"
    return line, {"followed": FOLLOWED, "partitions": verified.partitions, "exported": exported.records}


def report(demo: Demo) -> tuple[str, dict[str, Any]]:
    """The page about all of it."""
    REPORT.unlink(missing_ok=True)
    command = [str(Path(sys.executable).with_name("tidelog")), "-q", "report", str(DATA), "-o", str(REPORT), "--records"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    check("exit code of the report", (done.returncode, done.stderr), (0, ""))
    facts = json.loads(REPORT.read_text().split('<script id="facts" type="application/json">')[1].split("</script>")[0])
    with tidelog.open(DATA, mode="r") as store:
        records = sum(1 for topic in store.topics() for _ in topic.read(isolation="high_watermark"))
    check("records in the page", facts["totals"]["records"], records)
    return f"demo/report.html: {records:,} records, {facts['totals']['segments']} segments", {
        "records": records,
        "bytes": REPORT.stat().st_size,
    }
