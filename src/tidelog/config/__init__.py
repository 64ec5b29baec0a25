"""The settings of a log: Kafka's topic-level names, ranges and defaults, and the values in force for one log."""

from tidelog.config.log_config import SETTINGS, LogConfig
from tidelog.config.setting import LONG_MAX, Setting

__all__ = ["LONG_MAX", "SETTINGS", "LogConfig", "Setting"]
