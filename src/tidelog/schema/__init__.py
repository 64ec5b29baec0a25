"""Kafka's own records: what lies in `__consumer_offsets`, `__transaction_state` and `__cluster_metadata`, in its schemas."""
