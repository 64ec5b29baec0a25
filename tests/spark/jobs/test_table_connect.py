"""The jobs on Spark Connect, which has no `sparkContext`: in a process of its own, since one cannot have sessions of both kinds."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.keyed_topics import alive, make_keyed, state

SCRIPT = """
import json, sys
from tidelog.spark import jobs, session
store, out, into = sys.argv[1:]
spark = session("tidelog connect", remote="local[2]", config={"spark.sql.shuffle.partitions": 2})
found = {
    "table": jobs.table(spark, store, "tide").table.count(),
    "history": jobs.history(spark, store, "tide", include_tombstones=True).history.count(),
    "export": jobs.export(spark, store, "tide", out).records,
    "ingest": jobs.ingest(spark, out, into, "again", format="parquet", partitions=2).records,
    "client": type(spark).__module__,
}
print(json.dumps(found), flush=True)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("connect_port")
def test_table_history_export_and_ingest(tmp_path: Path) -> None:
    versions = make_keyed(tmp_path / "store")
    command = [sys.executable, "-c", SCRIPT, *(str(tmp_path / name) for name in ("store", "out", "into"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    count = len(versions)
    expected = {"table": len(alive(state(versions))), "history": count, "export": count, "ingest": count}
    assert json.loads(done.stdout.splitlines()[-1]) == expected | {"client": "pyspark.sql.connect.session"}
