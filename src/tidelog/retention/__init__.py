"""Which segments are expired, by log start, size or time. Decides, never deletes."""
