"""Every log that a test of this folder leaves closed is verified; who damages one on purpose says so with a mark."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.verified import assert_verified
from tidelog.log.maintenance import Maintenance

ANY = "*"


@pytest.fixture(autouse=True)
def leaves_logs_in_order(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Verify the directories of all logs that were closed without an error.

    `@pytest.mark.leaves(code, …)` allows findings by their code, without a code any.
    """
    allowed = {code for mark in request.node.iter_markers("leaves") for code in mark.args or (ANY,)}
    closed: set[str] = set()
    close = Maintenance.close

    def close_and_note(state: Maintenance, *args: Any) -> None:
        close(state, *args)
        if state.failure is None:
            closed.add(state.directory)

    monkeypatch.setattr(Maintenance, "close", close_and_note)
    yield
    if ANY not in allowed:
        for directory in sorted(closed):
            assert_verified(directory, allowed)
