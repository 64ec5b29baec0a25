"""Which settings are in force for a topic: its own, the store's for the rest, and nothing that throws data away unasked.

What a store is opened with is not written down. So a topic that has no `retention.ms` of its own, be it that its store had one when it was
made or that it was taken back, keeps everything where this store has none either: Kafka's seven days are nobody's word.
"""

from collections.abc import Mapping

from tidelog.config import LogConfig

KEEP_FOR_EVER = {"retention.ms": "-1"}
"""What a topic gets about whose retention nobody has said a word: nothing is thrown away unasked."""


def keep_for_ever(given: Mapping[str, str], defaults: LogConfig) -> dict[str, str]:
    """The settings that a topic gets from those that were given, where the store has `defaults`."""
    has_retention = "retention.ms" in given or "retention.ms" in defaults.given
    return dict(given) if has_retention else {**given, **KEEP_FOR_EVER}


def in_force(own: Mapping[str, str] | None, defaults: LogConfig) -> LogConfig:
    """What holds for a topic with these settings; of one that was adopted nobody has said any yet."""
    return defaults.with_changes(keep_for_ever(own or {}, defaults))
