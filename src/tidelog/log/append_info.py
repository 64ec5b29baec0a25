"""What an append answers."""

from typing import NamedTuple


class AppendInfo(NamedTuple):
    """Where a batch, or a call of several, went."""

    first_offset: int
    last_offset: int
    max_timestamp_ms: int
    """Largest timestamp of its records as they are now stored."""
    log_append_time_ms: int
    """When it was appended, if the log stamps that; otherwise -1."""
    size_bytes: int
    """As stored."""
