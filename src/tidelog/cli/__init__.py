"""The command line: one module a command, rendering apart from work."""
