"""Bank accounts as events: what happened is kept, and what is, is worked out from it.

    python examples/event_sourcing.py data open ann 100
    python examples/event_sourcing.py data open bill 0
    python examples/event_sourcing.py data transfer ann bill 30
    python examples/event_sourcing.py data show
    python examples/event_sourcing.py data show --as-of 2026-01-01T12:00:00Z

A command is checked against the state and becomes one or more events, which are appended in one transaction: a transfer is in both accounts
or in neither, whenever the process dies. The topic keeps every event for ever, so the state of any time can be asked for.
"""

import argparse
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import tidelog
from tidelog import Record, Store

TOPIC = "accounts"


class RefusedError(Exception):
    """A command that the state does not allow. Nothing has happened."""


@dataclass
class Accounts:
    """The state: what the events add up to."""

    balances: dict[str, int] = field(default_factory=dict)

    def apply(self, events: Iterable[Record]) -> "Accounts":
        """The state behind some more events."""
        for event in events:
            assert event.key is not None
            assert event.value is not None
            account, what = event.key.decode(), json.loads(event.value)
            self.balances[account] = self.balances.get(account, 0) + what["amount"]
        return self


class Bank:
    """Takes commands, one at a time: the lock of the store sees to it that there is no other bank."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.topic = store.create_topic(TOPIC, exist_ok=True)
        self.state = Accounts().apply(self.topic.read())

    def open_account(self, account: str, amount: int) -> None:
        """A new account, with what is paid in."""
        if account in self.state.balances:
            raise RefusedError(f"{account} has an account already")
        if amount < 0:
            raise RefusedError(f"nobody pays in {amount}")
        self._happened((account, "opened", amount))

    def transfer(self, source: str, target: str, amount: int) -> None:
        """From one account to another."""
        for account in (source, target):
            if account not in self.state.balances:
                raise RefusedError(f"{account} has no account")
        if not 0 < amount <= self.state.balances[source]:
            raise RefusedError(f"{source} has {self.state.balances[source]}, which is not enough for {amount}")
        self._happened((source, f"to {target}", -amount), (target, f"from {source}", amount))

    def _happened(self, *events: tuple[str, str, int]) -> None:
        """All of them or none. The state follows the log, never the other way round."""
        with self.store.transaction("bank") as transaction:
            for account, what, amount in events:
                transaction.append(self.topic, json.dumps({"what": what, "amount": amount}).encode(), key=account.encode())
        for account, _, amount in events:
            self.state.balances[account] = self.state.balances.get(account, 0) + amount


def state_as_of(directory: Path, time: datetime | None) -> Accounts:
    """The state, now or at a time, for who only looks: beside a bank that is open."""
    with tidelog.open(directory, mode="r") as store:
        return Accounts().apply(store.topic(TOPIC).read(end=tidelog.LATEST if time is None else time))


def main() -> None:
    """One command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    commands = parser.add_subparsers(dest="command", required=True)
    opening = commands.add_parser("open")
    opening.add_argument("account")
    opening.add_argument("amount", type=int)
    transfer = commands.add_parser("transfer")
    transfer.add_argument("source")
    transfer.add_argument("target")
    transfer.add_argument("amount", type=int)
    commands.add_parser("show").add_argument("--as-of", type=datetime.fromisoformat)
    options = parser.parse_args()
    if options.command == "show":
        for account, balance in sorted(state_as_of(options.data, options.as_of).balances.items()):
            print(f"{account} {balance}")
        return
    with tidelog.open(options.data) as store:
        bank = Bank(store)
        try:
            if options.command == "open":
                bank.open_account(options.account, options.amount)
            else:
                bank.transfer(options.source, options.target, options.amount)
        except RefusedError as error:
            raise SystemExit(f"refused: {error}") from None


if __name__ == "__main__":
    main()
