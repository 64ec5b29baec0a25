"""Where to read from, and up to where: an offset, a time, or one of the ends."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum

_EPOCH, _MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)


class End(Enum):
    """The ends of a log."""

    EARLIEST = "earliest"
    """From the beginning: the log start offset."""
    LATEST = "latest"
    """From now on: behind the last record that readers may see."""

    def __repr__(self) -> str:
        return self.name


EARLIEST, LATEST = End.EARLIEST, End.LATEST


@dataclass(frozen=True, slots=True)
class Time:
    """A time in epoch milliseconds."""

    ms: int


Position = int | Time | datetime | End


def epoch_ms(position: Time | datetime) -> int:
    """A time in epoch milliseconds. One without a zone is ambiguous and raises."""
    if isinstance(position, Time):
        return position.ms
    if position.utcoffset() is None:
        raise ValueError(f"{position!r} has no time zone; give it one, as in datetime(…, tzinfo=UTC)")
    return (position - _EPOCH) // _MILLISECOND  # whole numbers: a float of seconds does not have every millisecond
