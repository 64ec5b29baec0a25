"""A database tells what changes, and a cache in another process follows: a compacted topic is between them, and no broker.

    python examples/change_cache.py database data 1000      a thousand changes of an SQLite database, in the topic `customers`
    python examples/change_cache.py cache data              print them, and those that come, until Ctrl-C

Triggers note each change of the table in an outbox, in the transaction of the change itself; the publisher moves the outbox to the topic
and then empties it. Killed in between, it publishes some changes again: the topic is keyed, so the last one counts, and it is the same. The
topic is compacted: a new cache reads the latest state of each customer, not every change that ever was.
"""

import argparse
import json
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import tidelog
from tidelog import Store

TOPIC = "customers"
SCHEMA = """
CREATE TABLE IF NOT EXISTS customers (id INTEGER PRIMARY KEY, email TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (n INTEGER PRIMARY KEY AUTOINCREMENT, id INTEGER NOT NULL, email TEXT);
CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON customers BEGIN INSERT INTO outbox (id, email) VALUES (new.id, new.email); END;
CREATE TRIGGER IF NOT EXISTS changed AFTER UPDATE ON customers BEGIN INSERT INTO outbox (id, email) VALUES (new.id, new.email); END;
CREATE TRIGGER IF NOT EXISTS removed AFTER DELETE ON customers BEGIN INSERT INTO outbox (id, email) VALUES (old.id, NULL); END;
"""


def open_database(path: Path) -> sqlite3.Connection:
    """The customers, and the triggers that note what happens to them."""
    database = sqlite3.connect(path)
    database.executescript(SCHEMA)
    return database


def change_some(database: sqlite3.Connection, first: int, count: int) -> None:
    """What an application does all day. One of seven customers goes again."""
    for number in range(first, first + count):
        customer = number % 97
        with database:
            if number % 7 == 6:
                database.execute("DELETE FROM customers WHERE id = ?", (customer,))
            else:
                email = f"customer-{customer}@version-{number}.example"
                database.execute(
                    "INSERT INTO customers VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET email = excluded.email", (customer, email)
                )


def publish(database: sqlite3.Connection, store: Store) -> int:
    """Move the outbox to the topic, in its order: how many changes that were. They are durable there before they go here."""
    topic = store.create_topic(TOPIC, config={"cleanup.policy": "compact"}, exist_ok=True)
    rows = database.execute("SELECT n, id, email FROM outbox ORDER BY n").fetchall()
    if rows:
        topic.append_many(
            (b"%d" % customer, None if email is None else json.dumps({"email": email}).encode()) for _, customer, email in rows
        )
        with database:
            database.execute("DELETE FROM outbox WHERE n <= ?", (rows[-1][0],))
    return len(rows)


class Cache:
    """The latest e-mail of each customer, in memory. It is never asked to forget: a tombstone is a change like any other."""

    def __init__(self) -> None:
        self.emails: dict[int, str] = {}
        self.changes = 0

    def apply(self, key: bytes, value: bytes | None) -> None:
        """One change."""
        self.changes += 1
        if value is None:
            self.emails.pop(int(key), None)
        else:
            self.emails[int(key)] = json.loads(value)["email"]


def fill(directory: Path, cache: Cache, *, follow: bool = False) -> Iterator[int]:
    """Apply what is there, and with `follow` what comes, beside the process that writes: nothing is locked, nothing is written.

    Gives back which customer has changed, one after the other.
    """
    with tidelog.open(directory, mode="r") as store:
        for record in store.topic(TOPIC).read(follow=follow):
            assert record.key is not None  # a compacted topic takes no others
            cache.apply(record.key, record.value)
            yield int(record.key)


def main() -> None:
    """One of the two sides."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("side", choices=["database", "cache"])
    parser.add_argument("data", type=Path)
    parser.add_argument("changes", type=int, nargs="?", default=1000)
    options = parser.parse_args()
    if options.side == "database":
        database = open_database(options.data.with_suffix(".sqlite"))
        with tidelog.open(options.data) as store:
            change_some(database, 0, options.changes)
            print(f"published {publish(database, store)} changes")
    else:
        cache = Cache()
        with suppress(KeyboardInterrupt):
            for customer in fill(options.data, cache, follow=True):
                print(f"customer {customer}: {cache.emails.get(customer, 'gone')}", flush=True)
        print(f"{len(cache.emails)} customers after {cache.changes} changes")


if __name__ == "__main__":
    main()
