"""Fetch from several partitions in one call, as a broker answers a consumer: each has its own answer, or its own error.

The limits are Kafka's. Each partition has a limit, and all together have one. As long as nothing was found, the first batch comes whole
even if it is larger, so that whoever reads gets on; from then on what is left of the total applies strictly, and a batch that does not fit
is left for the next call. So ask in another order the next time, or the last partitions starve.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.errors import TidelogError
from tidelog.log.fetched import Fetched
from tidelog.log.log_reading import Isolation, LogReading

DEFAULT_MAX_BYTES = 50 << 20
DEFAULT_PARTITION_MAX_BYTES = 1 << 20
"""The defaults of Kafka's consumer: `fetch.max.bytes` and `max.partition.fetch.bytes`."""


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """What to fetch from one partition."""

    log: LogReading
    offset: int
    max_bytes: int = DEFAULT_PARTITION_MAX_BYTES


def multi_fetch(
    requests: Iterable[FetchRequest],
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
    isolation: Isolation = "high_watermark",
    min_one: bool = True,
) -> list[Fetched | TidelogError]:
    """An answer or an error for each request, in their order; the error of one partition is not that of another."""
    answers: list[Fetched | TidelogError] = []
    left = max_bytes
    needs_one = min_one
    for request in requests:
        try:
            fetched = request.log.fetch(request.offset, min(request.max_bytes, left), isolation=isolation, min_one=needs_one)
        except TidelogError as error:
            answers.append(error)
            continue
        if fetched.is_first_incomplete:
            fetched = fetched.without_data()  # part of one batch is of no use to anyone
        if fetched.data:
            needs_one = False
            left = max(0, left - len(fetched.data))
        answers.append(fetched)
    return answers
