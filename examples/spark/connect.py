"""Spark Connect: the same source and sink through a client that has no JVM of its own: `python examples/spark/connect.py data`.

`remote="local[2]"` starts a server on this machine; `sc://host:15002` takes one that runs, whose Python has this package.
"""

import json
import sys
from pathlib import Path

import tidelog
from tidelog.spark import session

RECORDS = 5000


def main(directory: Path) -> None:
    """Write a topic, read it, stream it into another."""
    with tidelog.open(directory) as store:
        store.create_topic("emails", 2)
        store.create_topic("copies", 2)
    spark = session("tidelog connect", remote="local[2]")
    place = str(directory)

    rows = spark.range(RECORDS).selectExpr("cast(id % 100 as string) as key", "concat(id, '@tide.example') as value")
    rows.write.format("tidelog").mode("append").option("topic", "emails").save(place)

    emails = spark.read.format("tidelog").options(subscribe="emails", columns="key,value,offset").load(place)
    latest = emails.where("key = '7'").selectExpr("max_by(cast(value as string), offset) as email").first()

    stream = (
        spark.readStream.format("tidelog").options(subscribe="emails", startingOffsets="earliest", maxOffsetsPerTrigger="2000").load(place)
    )
    writer = stream.select("key", "value").writeStream.format("tidelog").option("topic", "copies")
    writer = writer.option("checkpointLocation", str(directory.with_name("checkpoint"))).trigger(availableNow=True)
    writer.start(place).awaitTermination()

    copies = spark.read.format("tidelog").options(subscribe="copies").load(place)
    found = {"emails": emails.count(), "latest": latest and latest.email, "copies": copies.count(), "client": type(spark).__module__}
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
