"""Two examples of what log compaction does, told as they are told to people who ask what it is for."""

from datetime import timedelta
from pathlib import Path

import pytest

import tidelog
from tests.support.logs import TIME, FakeClock
from tidelog.record.kernel.record import Record

DAY_MS = int(timedelta(days=1).total_seconds() * 1000)
BY_HAND = {"log.cleaner.enable": False}
"""Nothing is compacted but when the story says so."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(TIME)


def as_told(records: list[Record]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in records]


def test_the_user_123_with_three_addresses(tmp_path: Path, clock: FakeClock) -> None:
    # A topic has the current e-mail address of every user: the key is the user, the value the address. Whoever reads it from the
    # beginning has to see the last address of each user, and need not see those before it.
    with tidelog.open(tmp_path / "data", config=BY_HAND, clock=clock) as store:
        emails = store.create_topic("emails", config={"cleanup.policy": "compact", "delete.retention.ms": DAY_MS})

        # The user 123 changes the address twice; another one comes between.
        emails.append(b"bill@microsoft.com", key=b"123")
        emails.append(b"bill@gatesfoundation.org", key=b"123")
        emails.append(b"ann@example.com", key=b"456")
        emails.append(b"bill@gmail.com", key=b"123")

        # A first attempt cleans nothing, and says why: a segment that is still appended to is never touched.
        first = store.compact("emails")
        assert first.compacted == ()
        assert "all 4 records are in the active segment; roll=True" in str(first)
        assert len(list(emails.read())) == 4

        # One may look at what would go before anything does. Nothing does.
        store.log("emails", 0).roll()
        plan = store.compact("emails", dry_run=True)
        assert (plan.dry_run, plan.records_removed) == (True, 2)
        assert len(list(emails.read())) == 4

        # Now only the last address survives, where it was all along.
        result = store.compact("emails")
        assert (result.records_removed, result.failures) == (2, ())
        assert as_told(list(emails.read())) == [(2, b"456", b"ann@example.com"), (3, b"123", b"bill@gmail.com")]
        assert emails.table() == {b"123": b"bill@gmail.com", b"456": b"ann@example.com"}

        # The user leaves. A record with the key and no value says so, a tombstone, and takes the last address with it.
        emails.append(None, key=b"123")
        store.compact("emails", roll=True)
        assert as_told(list(emails.read())) == [(2, b"456", b"ann@example.com"), (4, b"123", None)]
        assert emails.table() == {b"456": b"ann@example.com"}

        # The tombstone itself stays for a day, so that who reads meanwhile learns that the user is gone. Other users come and go, and
        # compaction runs again and again.
        clock.advance(DAY_MS - 1)
        emails.append(b"eve@example.com", key=b"789")
        store.compact("emails", roll=True)
        assert (4, b"123", None) in as_told(list(emails.read()))

        # When the day is over, the next pass takes it away. Of the user 123 nothing is left.
        clock.advance(1)
        emails.append(b"eve@example.org", key=b"789")
        result = store.compact("emails", roll=True)
        assert result.tombstones_removed == 1
        assert as_told(list(emails.read())) == [(2, b"456", b"ann@example.com"), (6, b"789", b"eve@example.org")]
        assert b"123" not in emails.table()

        # What goes on is appended where the log ended, as if nothing had been removed.
        assert emails.append(b"ann@example.org", key=b"456").offset == 7

    # And so it is found by whoever opens the directory next.
    with tidelog.open(tmp_path / "data", "r") as reader:
        assert [record.offset for record in reader.topic("emails").read()] == [2, 6, 7]


def test_a_log_where_36_37_and_38_are_the_same_place(tmp_path: Path, clock: FakeClock) -> None:
    # A log of 42 records: ten keys that take turns, except that 36, 37 and 38 have one key, which comes nowhere else after 38.
    with tidelog.open(tmp_path / "data", config=BY_HAND, clock=clock) as store:
        places = store.create_topic("places", config={"cleanup.policy": "compact"})
        keys = [b"key %d" % (offset % 10) for offset in range(42)]
        keys[36] = keys[37] = keys[38] = b"the same"
        for offset, key in enumerate(keys):
            assert places.append(b"value %d" % offset, key=key).offset == offset
        store.compact("places", roll=True)

        # Of each key the last record is left, at its own offset: 36 and 37 are gone, 38 is not.
        last = sorted({key: offset for offset, key in enumerate(keys)}.values())
        assert [record.offset for record in places.read()] == last
        assert not {36, 37} & set(last)
        assert 38 in last

        # The offsets that are gone are still places in the log. Reading at 36, at 37 or at 38 is the same: it begins with 38.
        for offset in (36, 37, 38):
            assert next(iter(places.read(offset))).offset == 38
            assert as_told(list(places.read(offset))) == as_told(list(places.read(38)))
            assert next(iter(store.log("places", 0).read(offset))).value == b"value 38"

        # That holds wherever a record is gone: who was about to read it goes on with the next one that is there.
        for offset in range(42):
            assert next(iter(places.read(offset))).offset == min(there for there in last if there >= offset)

        # The log ends where it did.
        assert store.log("places", 0).log_end_offset == 42
        assert list(places.read(42)) == []
