"""Transactions across topics and partitions: all of one is seen by readers of committed records, or nothing."""
