"""`make demo-kafka`: a real broker gets the topic of the demo, and a real consumer counts it.

As an operator would do it: the broker makes the topic and is stopped, `tidelog copy --into-broker` puts the records into its directory, the
broker is started, and Kafka's own consumer reads every partition from its beginning to its end. What it read is compared with what the
demo wrote down, and record by record with what Tidelog reads. Nothing is left; demo/data is only read.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tidelog
from demo.steps import DATA, ROOT, WrongFigureError, check
from interop.broker.broker import Broker, BrokerError
from interop.broker.clients import Read
from interop.broker.scenarios import NEWER
from interop.java_program import JavaError
from tidelog import TidelogError

TOPIC = "emails"
SUMMARY = ROOT / "summary.json"
COMMITTED = "read_committed"
SETTINGS = {"log.cleaner.enable": "false"}
"""What is compared is what was handed over, not what a cleaner has made of it."""


def main() -> int:
    """Start it, count, compare; one line."""
    started = time.perf_counter()
    if not SUMMARY.exists() or not DATA.is_dir():
        print("there is no demo/data yet: make demo first")
        return 1
    expected = json.loads(SUMMARY.read_text())["follow_verify_export"]["exported"]
    try:
        with tempfile.TemporaryDirectory(prefix="tidelog-demo-") as home, Broker(Path(home), version=NEWER, settings=SETTINGS) as broker:
            partitions = hand_over(broker)
            count = compare(broker, partitions, expected)
    except (WrongFigureError, TidelogError, BrokerError, JavaError) as error:
        print(f"failed: {error}")
        return 1
    seconds = time.perf_counter() - started
    print(
        f"Kafka {NEWER} started on a copy of {TOPIC}: its consumer read {count:,} records of {partitions} partitions, "
        f"the same as Tidelog ({seconds:.1f} s)"
    )
    return 0


def hand_over(broker: Broker) -> int:
    """Put the topic into the directory of a broker, and start it. Gives back how many partitions that are."""
    with tidelog.open(DATA, mode="r") as store:
        partitions = store.topic(TOPIC).partitions
    broker.start()
    broker.clients.create_topics({TOPIC: {"cleanup.policy": "compact"}}, partitions=partitions)
    broker.stop()
    command = [str(Path(sys.executable).with_name("tidelog")), "-q", "copy", str(DATA), TOPIC, "-o", str(broker.data), "--into-broker"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    check("exit code of the copy", (done.returncode, done.stderr), (0, ""))
    broker.start()
    return partitions


def compare(broker: Broker, partitions: int, expected: int) -> int:
    """Read all of it with Kafka's consumer; how many records there are."""
    count = 0
    with tidelog.open(DATA, mode="r") as store:
        topic = store.topic(TOPIC)
        for partition in range(partitions):
            theirs = broker.clients.consume([TOPIC], COMMITTED, partition=partition)[TOPIC].records
            ours = list(topic.read(partition=partition))
            check(f"records of {TOPIC}-{partition} that the consumer counted", len(theirs), len(ours))
            for one, other in zip(theirs, ours, strict=True):
                check(f"a record of {TOPIC}-{partition}", _facts(one), _facts(other))
            count += len(theirs)
    check("records that the consumer counted, and the demo has exported", count, expected)
    return count


def _facts(record: Read | tidelog.Record) -> tuple[int, int, bytes | None, bytes | None]:
    return record.offset, record.timestamp_ms, record.key, record.value


if __name__ == "__main__":
    sys.exit(main())
