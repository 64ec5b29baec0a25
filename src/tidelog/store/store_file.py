"""Read and write `tidelog.json`. What it says, and how, is told in `tidelog.disk.store_content`."""

from tidelog.disk.disk import Disk
from tidelog.disk.store_content import (
    MAX_PARTITIONS,
    STORE_FILE,
    VERSION,
    DeletedTopic,
    StoreFile,
    TopicEntry,
    format_store_file,
    parse_store_file,
)
from tidelog.log.storage_errors import storage_error

__all__ = [
    "MAX_PARTITIONS",
    "STORE_FILE",
    "VERSION",
    "DeletedTopic",
    "StoreFile",
    "TopicEntry",
    "format_store_file",
    "parse_store_file",
    "read_store_file",
    "write_store_file",
]


def read_store_file(disk: Disk, directory: str) -> StoreFile | None:
    """The file of a log directory; None if there is none."""
    path = f"{directory}/{STORE_FILE}"
    try:
        text = disk.read_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(error, path, "reading the store's file failed") from error
    return parse_store_file(text, path)


def write_store_file(disk: Disk, directory: str, content: StoreFile) -> None:
    """Replace the file, durably."""
    try:
        disk.replace_file(directory, STORE_FILE, format_store_file(content))
    except OSError as error:
        raise storage_error(error, f"{directory}/{STORE_FILE}", "writing the store's file failed") from error
