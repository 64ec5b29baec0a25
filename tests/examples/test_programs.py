"""The example programs, run as a user runs them; killed where they say that this does no harm."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest

import tidelog
from examples import event_sourcing
from examples.change_cache import Cache, change_some, fill, open_database, publish
from examples.event_sourcing import Accounts, Bank, RefusedError, state_as_of

ROOT = Path(__file__).parents[2]


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / program), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def customers(database: sqlite3.Connection) -> dict[int, str]:
    return dict(database.execute("SELECT id, email FROM customers"))


def test_a_cache_has_what_the_database_has(tmp_path: Path) -> None:
    database, cache = open_database(tmp_path / "data.sqlite"), Cache()
    with tidelog.open(tmp_path / "data") as store:
        change_some(database, 0, 300)
        assert publish(database, store) == 300 - 300 // 7 + _deleted(0, 300)
        assert [*fill(tmp_path / "data", cache)]
        assert cache.emails == customers(database)
        following = fill(tmp_path / "data", cache, follow=True)
        assert len([*islice(following, cache.changes)]) == cache.changes // 2  # from the beginning once more
        change_some(database, 300, 20)
        published = publish(database, store)
        assert len([*islice(following, published)]) == published
        assert cache.emails == customers(database)
        store.compact(roll=True)
        anew = Cache()
        assert [*fill(tmp_path / "data", anew)]
        assert anew.emails == customers(database)
        assert anew.changes < cache.changes // 2
    database.close()


def _deleted(first: int, count: int) -> int:
    """Deletions that found somebody: others change nothing, and no trigger fires."""
    there: set[int] = set()
    found = 0
    for number in range(first, first + count):
        if number % 7 == 6:
            found += number % 97 in there
            there.discard(number % 97)
        else:
            there.add(number % 97)
    return found


def test_a_publisher_that_dies_before_it_has_emptied_the_outbox(tmp_path: Path) -> None:
    database = open_database(tmp_path / "data.sqlite")
    change_some(database, 0, 50)
    outbox = database.execute("SELECT n, id, email FROM outbox").fetchall()
    with tidelog.open(tmp_path / "data") as store:
        publish(database, store)
        with database:
            database.executemany("INSERT INTO outbox VALUES (?, ?, ?)", outbox)  # as if it had never been emptied
        publish(database, store)
    cache = Cache()
    assert [*fill(tmp_path / "data", cache)]
    assert cache.emails == customers(database)
    database.close()


def test_the_change_cache_as_a_program(tmp_path: Path) -> None:
    assert run("change_cache.py", "database", tmp_path / "data", 200).stdout.startswith("published ")
    command = [sys.executable, str(ROOT / "examples" / "change_cache.py"), "cache", str(tmp_path / "data")]
    follower = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert follower.stdout is not None
    assert follower.stdout.readline() == "customer 0: customer-0@version-0.example\n"
    follower.send_signal(signal.SIGINT)
    out, errors = follower.communicate(timeout=60)
    assert errors == ""
    assert out.splitlines()[-1].endswith(" changes")


def test_accounts_are_what_has_happened_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def bank(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["event_sourcing.py", str(tmp_path / "data"), *map(str, arguments)])
        event_sourcing.main()
        return capsys.readouterr().out

    bank("open", "ann", 100)
    bank("open", "bill", 0)
    between = datetime.now(UTC) + timedelta(milliseconds=1)
    time.sleep(0.01)
    bank("transfer", "ann", "bill", 30)
    with pytest.raises(SystemExit, match="refused: bill has 30, which is not enough for 31"):
        bank("transfer", "bill", "ann", 31)
    assert bank("show") == "ann 70\nbill 30\n"
    assert bank("show", "--as-of", between.isoformat()) == "ann 100\nbill 0\n"
    assert run("event_sourcing.py", tmp_path / "data", "show").stdout == "ann 70\nbill 30\n"


def test_no_transfer_is_half_done(tmp_path: Path) -> None:
    """A transaction that breaks off behind its first event has never been."""
    with tidelog.open(tmp_path / "data") as store:
        bank = Bank(store)
        bank.open_account("ann", 100)
        bank.open_account("bill", 5)
        with suppress(InterruptedError), store.transaction("bank") as transaction:
            transaction.append(bank.topic, b'{"what": "to bill", "amount": -30}', key=b"ann")
            raise InterruptedError
        bank.transfer("ann", "bill", 1)
        with pytest.raises(RefusedError, match="carol has no account"):
            bank.transfer("ann", "carol", 1)
        assert bank.state == Accounts({"ann": 99, "bill": 6})
        assert Bank(store).state == bank.state
    assert state_as_of(tmp_path / "data", None) == Accounts({"ann": 99, "bill": 6})


def test_a_journal_survives_kills(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "journal.py"), str(tmp_path / "data"), "1000000"]
    resumed: list[str] = []
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert process.stdout is not None
        resumed.append(process.stdout.readline())
        time.sleep(random.uniform(0.05, 0.4))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    steps = [min(map(int, line.split("[")[1].rstrip("]\n").split(","))) for line in resumed]
    assert steps == sorted(steps)
    assert steps[-1] > 0
    done = run("journal.py", tmp_path / "data", steps[-1] + 40_000)
    assert f"sum of {steps[-1] + 40_000} squares: " in done.stdout
    assert done.stdout.endswith("which is right\n")
