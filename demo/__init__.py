"""What `make demo` shows."""
