"""Which log to clean, the offset map, keep-this-record, the rewrite of segments and their crash-safe swap."""
