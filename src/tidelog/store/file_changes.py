"""Write down a change of the store's file, in all of its directories.

If that fails, or is interrupted, the new file may be there all the same: the sync of a directory may be what has failed. Then the old one
is written again, with a higher revision, before the error is told: a topic whose deletion has failed must not be gone after a crash, with
all that was appended to it since. If that fails too, the store is in doubt until the next change is written.
"""

from dataclasses import replace

from tidelog.errors import LogFailedError, StorageError, TidelogError
from tidelog.store.state import StoreState
from tidelog.store.store_file import StoreFile, read_store_file, write_store_file


def write(state: StoreState, content: StoreFile) -> None:
    """Write down a change. What was not written in all directories is not done."""
    try:
        write_next(state, content)
    except BaseException:  # an interrupt too: memory and disk must not tell two things
        try:
            if not _is_as_before(state):
                write_next(state, state.file)
        except StorageError:
            state.is_in_doubt = True
        except BaseException:  # the next interrupt
            state.is_in_doubt = True
            raise
        raise


def _is_as_before(state: StoreState) -> bool:
    """Whether no directory has another file than before: then none was replaced, as on a disk that is full."""
    try:
        return not state.is_in_doubt and all(read_store_file(state.disk, path) == state.file for path in state.paths)
    except TidelogError:
        return False


def write_next(state: StoreState, content: StoreFile) -> None:
    """Write the file with the next revision."""
    state.revision += 1
    content = replace(content, revision=state.revision)
    for path in state.paths:
        write_store_file(state.disk, path, content)
    state.file = content
    if state.is_in_doubt:
        state.is_in_doubt = False
        for partition in [partition for partition, failure in state.failures.items() if isinstance(failure, LogFailedError)]:
            del state.failures[partition]
