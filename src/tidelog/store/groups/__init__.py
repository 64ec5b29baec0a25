"""Named consumers: groups, their positions in `__consumer_offsets`, and what they read."""
