"""Which segments are expired, by log start, size or time: pure rules, and a round that asks them and deletes."""

from tidelog.retention.round import Deleted, delete_old_segments, facts_of
from tidelog.retention.rules import RULES, LogFacts, Rule, SegmentFacts, deletable, rules_for

__all__ = ["RULES", "Deleted", "LogFacts", "Rule", "SegmentFacts", "deletable", "delete_old_segments", "facts_of", "rules_for"]
