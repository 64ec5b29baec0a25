"""Which segments need not be kept, by log start, size, time or a policy of one's own: pure decisions, and a round that deletes."""

from tidelog.retention.decision import Removal, decide
from tidelog.retention.free_space import FreeSpaceFloor
from tidelog.retention.outlook import SegmentOutlook, WayOut, outlook
from tidelog.retention.policy import (
    KAFKA_POLICIES,
    AnyPolicy,
    DirectoryFacts,
    Expired,
    PartitionFacts,
    RetentionPolicy,
    StoreFacts,
    StoreRetentionPolicy,
    policies_for,
)
from tidelog.retention.round import Deleted, delete, delete_old_segments, facts_of
from tidelog.retention.rules import LogFacts, Rule, SegmentFacts, deletable

__all__ = [
    "KAFKA_POLICIES",
    "AnyPolicy",
    "Deleted",
    "DirectoryFacts",
    "Expired",
    "FreeSpaceFloor",
    "LogFacts",
    "PartitionFacts",
    "Removal",
    "RetentionPolicy",
    "Rule",
    "SegmentFacts",
    "SegmentOutlook",
    "StoreFacts",
    "StoreRetentionPolicy",
    "WayOut",
    "decide",
    "deletable",
    "delete",
    "delete_old_segments",
    "facts_of",
    "outlook",
    "policies_for",
]
