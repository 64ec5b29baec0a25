"""A process that journals its state, and goes on where it was when it is killed with -9.

    python examples/journal.py data 10000        ten thousand steps; kill it whenever you like, and start it again

The work here is a sum over many small steps, of four workers. Each step appends the worker's new state to a compacted topic before the
next one begins: the latest value of each key is the state, and compaction sees to it that starting again does not take longer with every
step that was ever made. A step that was acknowledged is never done twice, and none is left out.
"""

import argparse
import json
from pathlib import Path

import tidelog
from tidelog import Store, Topic

TOPIC = "journal"
WORKERS = 4
CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.5, "segment.bytes": 1 << 20}


class Worker:
    """Adds up the squares of its own numbers: every fourth one."""

    def __init__(self, name: str, number: int, journal: Topic, state: dict[str, int] | None) -> None:
        self.name = name
        self.next = number if state is None else state["next"]
        self.total = 0 if state is None else state["total"]
        self._journal = journal

    def step(self) -> None:
        """One step: it has happened when the journal has it."""
        following, total = self.next + WORKERS, self.total + self.next * self.next
        self._journal.append(json.dumps({"next": following, "total": total}).encode(), key=self.name.encode())
        self.next, self.total = following, total


def resume(store: Store) -> list[Worker]:
    """The workers as the journal has them, or new ones."""
    journal = store.create_topic(TOPIC, config=CONFIG, exist_ok=True)
    states = {key.decode(): json.loads(value) for key, value in journal.table().items()}
    return [Worker(name, number, journal, states.get(name)) for number, name in enumerate(f"worker-{n}" for n in range(WORKERS))]


def run(directory: Path, steps: int) -> int:
    """Go on until so many steps were made in all; the sum of all totals."""
    with tidelog.open(directory) as store:
        workers = resume(store)
        print(f"resumed at {[worker.next for worker in workers]}", flush=True)
        while True:
            worker = min(workers, key=lambda one: one.next)
            if worker.next >= steps:
                return sum(one.total for one in workers)
            worker.step()


def main() -> None:
    """Run to the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("steps", type=int, nargs="?", default=10_000)
    options = parser.parse_args()
    total = run(options.data, options.steps)
    expected = sum(number * number for number in range(options.steps))
    print(f"sum of {options.steps} squares: {total}, which is {'right' if total == expected else f'wrong: {expected}'}")


if __name__ == "__main__":
    main()
