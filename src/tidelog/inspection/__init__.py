"""What is wrong with a log, and what can be done about it: verify, repair, salvage."""

from tidelog.inspection.finding import Finding, Severity
from tidelog.inspection.reindex import ReindexReport, reindex
from tidelog.inspection.repair import apply_repair, plan_repair
from tidelog.inspection.repair_plan import RepairPlan
from tidelog.inspection.salvage import salvage
from tidelog.inspection.salvage_report import SalvageReport
from tidelog.inspection.segment_stats import SegmentStats
from tidelog.inspection.stats import stats
from tidelog.inspection.verify import Level, verify, verify_files
from tidelog.inspection.verify_log_directory import verify_log_directory

__all__ = [
    "Finding",
    "Level",
    "ReindexReport",
    "RepairPlan",
    "SalvageReport",
    "SegmentStats",
    "Severity",
    "apply_repair",
    "plan_repair",
    "reindex",
    "salvage",
    "stats",
    "verify",
    "verify_files",
    "verify_log_directory",
]
