"""`--apply`: a plan is printed, and done only when somebody says so; what was assumed decides nothing; changes are one line each."""

import io
import logging
import re
import sys

import pytest

from tests.support.golden import GOLDEN
from tidelog.cli.applying import Plan, change_log, is_to_be_applied
from tidelog.cli.provenance import SettingFact, refuse_assumed, settings_of
from tidelog.errors import InvalidConfigError
from tidelog.store.read_only_store import ReadOnlyStore

PLAN = Plan("retain", "1 segment, 12 B", ({"what": "delete emails-0 00.log\x1b[0m", "base_offset": 0},))


def terminal(text: str, *, is_one: bool = True) -> io.StringIO:
    stream = io.StringIO(text)
    stream.isatty = lambda: is_one  # type: ignore[method-assign]
    return stream


def ask(
    monkeypatch: pytest.MonkeyPatch, answer: str | None, *, apply: bool = False, as_json: bool = False, plan: Plan = PLAN
) -> tuple[bool, str]:
    out = terminal("", is_one=answer is not None)
    monkeypatch.setattr(sys, "stdin", terminal(answer or "", is_one=answer is not None))
    monkeypatch.setattr(sys, "stdout", out)
    return is_to_be_applied(plan, apply=apply, as_json=as_json), out.getvalue()


def test_nobody_there_means_no(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(monkeypatch, None) == (False, "  delete emails-0 00.log\\x1b[0m\nretain: 1 segment, 12 B\n")
    assert capsys.readouterr().err == "nothing was changed; --apply does it\n"


def test_a_person_is_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(monkeypatch, "y\n")[0] is True
    assert capsys.readouterr().err == "retain: do it? [y/N] "
    assert ask(monkeypatch, "yes\n")[0] is True
    for answer in ("\n", "n\n", "yess\n", ""):
        assert ask(monkeypatch, answer)[0] is False
    assert capsys.readouterr().err.endswith("nothing was changed\n")


def test_apply_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(monkeypatch, None, apply=True)[0] is True
    assert ask(monkeypatch, "n\n", apply=True)[0] is True
    assert ask(monkeypatch, None, apply=True, plan=Plan("retain", "")) == (False, "retain: nothing to do\n")


def test_json_is_never_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    line = '{"type": "step", "command": "retain", "is_applied": false, "what": "delete emails-0 00.log\\u001b[0m", "base_offset": 0}\n'
    assert ask(monkeypatch, "y\n", as_json=True) == (False, line)


def test_what_was_assumed_decides_nothing() -> None:
    with ReadOnlyStore.open(GOLDEN / "broker" / "data") as store:
        facts = settings_of(store, "emails")
    refuse_assumed(facts, ["retention.ms"])
    with pytest.raises(InvalidConfigError, match=r"nothing says what cleanup\.policy, retention\.bytes are here") as caught:
        refuse_assumed(facts, ["retention.ms", "cleanup.policy", "retention.bytes"])
    assert caught.value.hint == "--config cleanup.policy=… --config retention.bytes=…"
    with ReadOnlyStore.open(GOLDEN / "broker" / "data", config={"log.cleanup.policy": "delete"}) as store:
        given = {fact.name: fact for fact in settings_of(store, "emails")}
    assert given["cleanup.policy"] == SettingFact("cleanup.policy", "delete", "given", is_assumed=False)


def test_changes_are_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    with change_log() as logger:
        logging.getLogger("tidelog.log.deleting").info("deleted %s\nreason: %s", "emails-0", "age")
        logger.info("done\x1b")
    logging.getLogger("tidelog.log.deleting").info("not any more")
    lines = capsys.readouterr().err.splitlines()
    assert [re.sub(r"^[\d :,-]+", "", line) for line in lines] == [
        "tidelog.log.deleting: deleted emails-0 reason: age",
        "tidelog.cli: done\\x1b",
    ]
