"""One partition: segments, indexes, append, read, roll, flush, recovery."""

from tidelog.log.append_info import AppendInfo
from tidelog.log.fetched import Fetched
from tidelog.log.load_report import Cut, LoadReport, Progress
from tidelog.log.log import Log
from tidelog.log.multi_fetch import FetchRequest, multi_fetch
from tidelog.log.positions import EARLIEST, LATEST, Time
from tidelog.log.read_only import ReadOnlyLog
from tidelog.log.roll import RollReason
from tidelog.log.segment import Segment
from tidelog.log.time_lookup import OffsetAndTimestamp

__all__ = [
    "EARLIEST",
    "LATEST",
    "AppendInfo",
    "Cut",
    "FetchRequest",
    "Fetched",
    "LoadReport",
    "Log",
    "OffsetAndTimestamp",
    "Progress",
    "ReadOnlyLog",
    "RollReason",
    "Segment",
    "Time",
    "multi_fetch",
]
