"""Make the store that the pipeline reads, or let more records land in it: `python make_data.py /tmp/tides/data`."""

import sys
from pathlib import Path

import tidelog

RECORDS = 1000
KEYS = 50


def main(directory: Path) -> None:
    """Each call appends as many records."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tidelog.open(directory) as store:
        topic = store.create_topic("emails", 2, exist_ok=True)
        first = sum(topic.log(number).log_end_offset for number in topic.partition_ids())
        topic.append_many((b"%d" % (n % KEYS), b"%d@tide.example" % n) for n in range(first, first + RECORDS))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
