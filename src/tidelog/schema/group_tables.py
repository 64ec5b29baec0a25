"""Every kind of record in `__consumer_offsets`, as of Kafka 4.2: see `structs` for how to read the table."""

from functools import cache

from tidelog.schema.structs import RecordKind, parse_table


@cache
def group_kinds() -> dict[int, RecordKind]:
    """The kinds, by the number that a key begins with."""
    return parse_table(_TABLE)


_TABLE = """
0 legacy_offset_commit
  key 0
    group, topic string
    partition int32
  value 0
    offset int64
    metadata string
    commit_timestamp int64
1 offset_commit
  key 0
    group, topic string
    partition int32
  value 0-4 flexible 4+
    offset int64
    leader_epoch int32 3+
    metadata string
    commit_timestamp int64
    expire_timestamp int64 1
    topic_id uuid 4+ tag 0
2 group_metadata
  key 0
    group string
  value 0-4 flexible 4+
    protocol_type string
    generation int32
    protocol, leader string?
    current_state_timestamp int64 2+
    members []
      member_id string
      group_instance_id string? 3+
      client_id, client_host string
      rebalance_timeout int32 1+
      session_timeout int32
      subscription, assignment bytes
3 consumer_group_metadata
  key 0
    group_id string
  value 0 flexible 0+
    epoch int32
    metadata_hash int64 tag 0
4 consumer_group_partition_metadata
  key 0
    group_id string
  value 0 flexible 0+
    topics []
      topic_id uuid
      topic_name string
      num_partitions int32
      partition_metadata []
        partition int32
        racks []string
5 consumer_group_member_metadata
  key 0
    group_id, member_id string
  value 0 flexible 0+
    instance_id, rack_id string?
    client_id, client_host string
    subscribed_topic_names []string
    subscribed_topic_regex string?
    rebalance_timeout_ms int32
    server_assignor string?
    classic_member_metadata {}? tag 0
      session_timeout_ms int32
      supported_protocols []
        name string
        metadata bytes
6 consumer_group_target_assignment_metadata
  key 0
    group_id string
  value 0 flexible 0+
    assignment_epoch int32
7 consumer_group_target_assignment_member
  key 0
    group_id, member_id string
  value 0 flexible 0+
    topic_partitions []
      topic_id uuid
      partitions []int32
8 consumer_group_current_member_assignment
  key 0
    group_id, member_id string
  value 0 flexible 0+
    member_epoch, previous_member_epoch int32
    state int8
    assigned_partitions, partitions_pending_revocation []
      topic_id uuid
      partitions []int32
10 share_group_member_metadata
  key 0
    group_id, member_id string
  value 0 flexible 0+
    rack_id string?
    client_id, client_host string
    subscribed_topic_names []string
11 share_group_metadata
  key 0
    group_id string
  value 0 flexible 0+
    epoch int32
    metadata_hash int64
12 share_group_target_assignment_metadata
  key 0
    group_id string
  value 0 flexible 0+
    assignment_epoch int32
13 share_group_target_assignment_member
  key 0
    group_id, member_id string
  value 0 flexible 0+
    topic_partitions []
      topic_id uuid
      partitions []int32
14 share_group_current_member_assignment
  key 0
    group_id, member_id string
  value 0 flexible 0+
    member_epoch, previous_member_epoch int32
    state int8
    assigned_partitions []
      topic_id uuid
      partitions []int32
15 share_group_state_partition_metadata
  key 0
    group_id string
  value 0 flexible 0+
    initializing_topics, initialized_topics []
      topic_id uuid
      topic_name string
      partitions []int32
    deleting_topics []
      topic_id uuid
      topic_name string
16 consumer_group_regular_expression
  key 0
    group_id, regular_expression string
  value 0 flexible 0+
    topics []string
    version, timestamp int64
17 streams_group_metadata
  key 0
    group_id string
  value 0 flexible 0+
    epoch int32
    metadata_hash int64
    validated_topology_epoch int32 tag 0
    last_assignment_configs []? tag 1
      key, value string
19 streams_group_member_metadata
  key 0
    group_id, member_id string
  value 0 flexible 0+
    instance_id, rack_id string?
    client_id, client_host string
    rebalance_timeout_ms, topology_epoch int32
    process_id string
    user_endpoint {}?
      host string
      port uint16
    client_tags []
      key, value string
20 streams_group_target_assignment_metadata
  key 0
    group_id string
  value 0 flexible 0+
    assignment_epoch int32
21 streams_group_target_assignment_member
  key 0
    group_id, member_id string
  value 0 flexible 0+
    active_tasks, standby_tasks, warmup_tasks []
      subtopology_id string
      partitions []int32
22 streams_group_current_member_assignment
  key 0
    group_id, member_id string
  value 0 flexible 0+
    member_epoch, previous_member_epoch int32
    state int8
    active_tasks, standby_tasks, warmup_tasks []
      subtopology_id string
      partitions []int32
      assignment_epochs []int32? tag 0
    active_tasks_pending_revocation, standby_tasks_pending_revocation, warmup_tasks_pending_revocation []
      subtopology_id string
      partitions []int32
      assignment_epochs []int32? tag 0
23 streams_group_topology
  key 0
    group_id string
  value 0 flexible 0+
    epoch int32
    subtopologies []
      subtopology_id string
      source_topics, source_topic_regex []string
      state_changelog_topics []
        name string
        partitions int32
        replication_factor int16
        topic_configs []
          key, value string
      repartition_sink_topics []string
      repartition_source_topics []
        name string
        partitions int32
        replication_factor int16
        topic_configs []
          key, value string
      copartition_groups []
        source_topics, source_topic_regex, repartition_source_topics []int16
"""
