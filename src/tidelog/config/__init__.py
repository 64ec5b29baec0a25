"""The settings of a log: Kafka's topic-level names, ranges and defaults, the values in force for one log, and those of a store."""

from tidelog.config.log_config import SETTINGS, LogConfig
from tidelog.config.setting import LONG_MAX, Setting
from tidelog.config.store_config import STORE_SETTINGS, StoreConfig

__all__ = ["LONG_MAX", "SETTINGS", "STORE_SETTINGS", "LogConfig", "Setting", "StoreConfig"]
