"""One partition: segments, indexes, roll, read, recovery, producer state, leader epochs."""
