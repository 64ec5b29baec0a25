"""A data directory: topics, settings, lock, scheduler, writer, consumers. Owns the clock."""
