"""A million changes of the e-mail addresses of a hundred thousand users, over two days; and what plain arithmetic says about them.

There are more users all the time. Who changes when is a formula, written down twice: as columns of Spark, for what is ingested, and as an
array of numpy, for what has to come out of it. Nobody but this file knows it.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGES = 1_000_000
USERS = 100_000
EVERY_MS = 172
"""A change so often: two days of them, nearly."""
DAY_MS = 86_400_000
GONE_EVERY = 37
"""Each such change is the last of its user for some time: the address is removed."""


@dataclass(frozen=True)
class Changes:
    """The changes up to today."""

    first_ms: int

    @classmethod
    def of_two_days(cls) -> "Changes":
        """Until midnight."""
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return cls(int(midnight.timestamp() * 1000) - 2 * DAY_MS)

    @property
    def yesterday_ms(self) -> int:
        """When the second of the two days began."""
        return self.first_ms + DAY_MS

    @property
    def before_yesterday(self) -> int:
        """How many changes were made until then."""
        return DAY_MS // EVERY_MS + 1

    def rows(self, spark: "SparkSession") -> "DataFrame":
        """As a DataFrame: key, value, timestamp. A removed address is null."""
        from pyspark.sql import functions as F  # noqa: N812 - as Spark's documentation has it

        number = F.col("id")
        user = F.pmod(number * 7919, F.expr(f"id div {CHANGES // USERS}") + 1)
        address = F.concat(F.lit("user"), user.cast("string"), F.lit("."), number.cast("string"), F.lit("@tide.example"))
        return spark.range(CHANGES, numPartitions=4).select(
            F.format_string("user-%06d", user).alias("key"),
            F.when(F.pmod(number, F.lit(GONE_EVERY)) != GONE_EVERY - 1, address).alias("value"),
            F.timestamp_millis(F.lit(self.first_ms) + number * EVERY_MS).alias("timestamp"),
        )

    def last_of_each_user(self, count: int = CHANGES) -> NDArray[np.int64]:
        """Of each user the number of the last of the first `count` changes; -1 for who has none."""
        number = np.arange(count, dtype=np.int64)
        user = number * 7919 % (number // (CHANGES // USERS) + 1)
        last = np.full(USERS, -1, np.int64)
        last[user] = number  # of equal places the last one stays
        return last

    def addresses(self, count: int = CHANGES) -> tuple[int, int]:
        """How many users have an address behind the first `count` changes; and the sum of the numbers of the changes that gave it."""
        last = self.last_of_each_user(count)
        there = last[(last >= 0) & (last % GONE_EVERY != GONE_EVERY - 1)]
        return len(there), int(there.sum())
