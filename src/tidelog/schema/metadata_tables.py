"""Every kind of record in `__cluster_metadata`, as of Kafka 4.2: see `structs` for how to read the tables.

A record has no key. Its value begins with three unsigned varints: the version of this frame (1, in old logs 0), the kind, and its version.
What Raft itself writes there are control records: a key of two int16, a version and a type, and a value that begins with its version.
"""

from functools import cache

from tidelog.schema.structs import RecordKind, parse_table

TOPIC, PARTITION, CONFIG, PARTITION_CHANGE, REMOVE_TOPIC, BEGIN, END, ABORT = 2, 3, 4, 5, 9, 23, 24, 25


@cache
def metadata_kinds() -> dict[int, RecordKind]:
    """The kinds, by their number."""
    return parse_table(_RECORDS)


@cache
def raft_kinds() -> dict[int, RecordKind]:
    """The kinds of control record, by their type."""
    return parse_table(_CONTROL_RECORDS)


_RECORDS = """
0 register_broker_record
  value 0-3 flexible 0+
    broker_id int32
    is_migrating_zk_broker bool 2+
    incarnation_id uuid
    broker_epoch int64
    end_points []
      name, host string
      port uint16
      security_protocol int16
    features []
      name string
      min_supported_version, max_supported_version int16
    rack string?
    fenced bool
    in_controlled_shutdown bool 1+
    log_dirs []uuid 3+ tag 0
1 unregister_broker_record
  value 0 flexible 0+
    broker_id int32
    broker_epoch int64
2 topic_record
  value 0 flexible 0+
    name string
    topic_id uuid
3 partition_record
  value 0-2 flexible 0+
    partition_id int32
    topic_id uuid
    replicas, isr, removing_replicas, adding_replicas []int32
    leader int32
    leader_recovery_state int8 tag 0
    leader_epoch, partition_epoch int32
    directories []uuid 1+
    eligible_leader_replicas []int32? 2+ tag 1
    last_known_elr []int32? 2+ tag 2
4 config_record
  value 0 flexible 0+
    resource_type int8
    resource_name, name string
    value string?
5 partition_change_record
  value 0-2 flexible 0+
    partition_id int32
    topic_id uuid
    isr []int32? tag 0
    leader int32 tag 1
    replicas []int32? tag 2
    removing_replicas []int32? tag 3
    adding_replicas []int32? tag 4
    leader_recovery_state int8 tag 5
    directories []uuid? 1+ tag 8
    eligible_leader_replicas []int32? 2+ tag 6
    last_known_elr []int32? 2+ tag 7
7 fence_broker_record
  value 0 flexible 0+
    id int32
    epoch int64
8 unfence_broker_record
  value 0 flexible 0+
    id int32
    epoch int64
9 remove_topic_record
  value 0 flexible 0+
    topic_id uuid
10 delegation_token_record
  value 0 flexible 0+
    owner, requester string
    renewers []string
    issue_timestamp, max_timestamp, expiration_timestamp int64
    token_id string
11 user_scram_credential_record
  value 0 flexible 0+
    name string
    mechanism int8
    salt, stored_key, server_key bytes
    iterations int32
12 feature_level_record
  value 0 flexible 0+
    name string
    feature_level int16
14 client_quota_record
  value 0 flexible 0+
    entity []
      entity_type string
      entity_name string?
    key string
    value float64
    remove bool
15 producer_ids_record
  value 0 flexible 0+
    broker_id int32
    broker_epoch, next_producer_id int64
17 broker_registration_change_record
  value 0-2 flexible 0+
    broker_id int32
    broker_epoch int64
    fenced int8 tag 0
    in_controlled_shutdown int8 1+ tag 1
    log_dirs []uuid 2+ tag 2
18 access_control_entry_record
  value 0 flexible 0+
    id uuid
    resource_type int8
    resource_name string
    pattern_type int8
    principal, host string
    operation, permission_type int8
19 remove_access_control_entry_record
  value 0 flexible 0+
    id uuid
20 no_op_record
  value 0 flexible 0+
21 zk_migration_state_record
  value 0 flexible 0+
    zk_migration_state int8
22 remove_user_scram_credential_record
  value 0 flexible 0+
    name string
    mechanism int8
23 begin_transaction_record
  value 0 flexible 0+
    name string? tag 0
24 end_transaction_record
  value 0 flexible 0+
25 abort_transaction_record
  value 0 flexible 0+
    reason string? tag 0
26 remove_delegation_token_record
  value 0 flexible 0+
    token_id string
27 register_controller_record
  value 0 flexible 0+
    controller_id int32
    incarnation_id uuid
    zk_migration_ready bool
    end_points []
      name, host string
      port uint16
      security_protocol int16
    features []
      name string
      min_supported_version, max_supported_version int16
28 clear_elr_record
  value 0 flexible 0+
    topic_name string
"""

_CONTROL_RECORDS = """
2 leader_change
  value 0-1 flexible 0+
    version int16
    leader_id int32
    voters, granting_voters []
      voter_id int32
      voter_directory_id uuid 1+
3 snapshot_header
  value 0 flexible 0+
    version int16
    last_contained_log_timestamp int64
4 snapshot_footer
  value 0 flexible 0+
    version int16
5 kraft_version
  value 0 flexible 0+
    version, kraft_version int16
6 kraft_voters
  value 0 flexible 0+
    version int16
    voters []
      voter_id int32
      voter_directory_id uuid
      endpoints []
        name, host string
        port uint16
      kraft_version_feature {}
        min_supported_version, max_supported_version int16
"""
