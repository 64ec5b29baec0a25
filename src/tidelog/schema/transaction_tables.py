"""The one kind of record in `__transaction_state`, as of Kafka 4.2: see `structs` for how to read the table."""

from functools import cache

from tidelog.schema.structs import RecordKind, parse_table


@cache
def transaction_kinds() -> dict[int, RecordKind]:
    """The kinds, by the number that a key begins with."""
    return parse_table(_TABLE)


_TABLE = """
0 transaction_log
  key 0
    transactional_id string
  value 0-1 flexible 1+
    producer_id int64
    previous_producer_id int64 1+ tag 0
    next_producer_id int64 1+ tag 1
    producer_epoch int16
    next_producer_epoch int16 1+ tag 3
    transaction_timeout_ms int32
    transaction_status int8
    transaction_partitions []?
      topic string
      partition_ids []int32
    transaction_last_update_timestamp_ms, transaction_start_timestamp_ms int64
    client_transaction_version int16 1+ tag 2
"""
