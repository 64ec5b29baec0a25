"""The only code that calls the operating system: file names, open, write, sync, rename, lock, checkpoint files."""
