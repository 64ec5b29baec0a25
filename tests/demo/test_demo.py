"""The demo: its arithmetic is right, and a wrong figure fails it. What it shows is `make demo`'s."""

from typing import Any

import pytest

from demo import __main__ as program
from demo.changes import CHANGES, DAY_MS, EVERY_MS, GONE_EVERY, USERS, Changes
from demo.steps import Demo, WrongFigureError, broker_directory, check


def test_the_last_change_of_each_user() -> None:
    count = 5_000
    last: dict[int, int] = {}
    for number in range(count):
        last[number * 7919 % (number // (CHANGES // USERS) + 1)] = number
    found = Changes(0).last_of_each_user(count)
    assert {user: int(number) for user, number in enumerate(found) if number >= 0} == last
    there = [number for number in last.values() if number % GONE_EVERY != GONE_EVERY - 1]
    assert Changes(0).addresses(count) == (len(there), sum(there))
    assert len(there) < len(last)


def test_yesterday_begins_between_two_changes() -> None:
    changes = Changes.of_two_days()
    last = changes.first_ms + (changes.before_yesterday - 1) * EVERY_MS
    assert last <= changes.yesterday_ms < last + EVERY_MS
    assert changes.first_ms + CHANGES * EVERY_MS <= changes.first_ms + 2 * DAY_MS


def test_the_step_that_needs_no_spark() -> None:
    line, figures = broker_directory(Demo(Changes(0)))
    assert line.startswith(f"written by Kafka {figures['kafka_version']}: 4 topics, ")


def test_a_wrong_figure_fails_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def wrong(_: Demo) -> tuple[str, dict[str, Any]]:
        """A step."""
        check("two and two", 2 + 2, 5)
        return "", {}

    monkeypatch.setattr(program, "STEPS", (wrong,))
    assert program.main() == 1
    assert "failed: two and two: found 4, and it should be 5" in capsys.readouterr().out
    with pytest.raises(WrongFigureError):
        wrong(Demo(Changes(0)))
