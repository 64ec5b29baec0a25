"""Staging: where the tasks of a pipeline put encoded batches until the commit appends them.

    .data.tidelog-staging-6f1c…/            beside the data directory `data`, where no broker looks for topics
        owner.json                          a token of this job, and the process that it ends with
        00003-17.batches                    what task attempt 17 has encoded of the third part
        commit-0.json                       what the commit of a compaction has decided (`tidelog.compaction.commit_decision`)

The driver makes the directory, and nobody else does: a task that comes late, when the job was given up, fails when it opens its file. Each
task looks for the token before its first byte, so that one whose machine sees another directory by that name says so. Batches are never
synced: only what the commit has appended counts, and it checks every batch first. New segments are, and so is a decision about them.

    done or given up     renamed away, then removed: who opens a file afterwards fails
    the job was killed   the next job, or whoever opens the store, removes what belongs to a process that is gone
    nobody can tell      as of a job of another machine: removed when it has not changed for a week
    a decision is there  kept as long, unless the next owner of the store has finished what was decided (`tidelog.store.finishing`)
"""

import json
import logging
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidelog.compaction.commit_decision import DECISION_END, DECISION_START
from tidelog.disk.disk import Disk
from tidelog.disk.process_identity import ProcessIdentity
from tidelog.errors import StagingError
from tidelog.log.storage_errors import storage_error

OWNER_FILE = "owner.json"
STAGED_SUFFIX = ".batches"
GIVEN_UP = ".gone"
ABANDONED_MS = 7 * 86_400_000
"""After so long without a change a directory is nobody's whose owner cannot be asked about."""
_MARK = ".tidelog-staging-"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Staging:
    """A staging directory. Small: it travels to the tasks."""

    path: str
    token: str

    @classmethod
    def make(
        cls, disk: Disk, data_directory: str, owner: ProcessIdentity, *, label: str | None = None, within: str | None = None
    ) -> "Staging":
        """A new one, beside a data directory or `within` another; it lasts as long as its owner. By its label it is found again."""
        token = secrets.token_hex(16)
        path = f"{_place(data_directory, within)}{'' if label is None else label + '-'}{token[:12]}"
        content = json.dumps({"token": token, "owner": owner.as_dict()}).encode()
        try:
            disk.make_directory(path)
            _write(disk, f"{path}/{OWNER_FILE}", content)
        except OSError as error:
            raise storage_error(error, path, "making a staging directory failed") from error
        return cls(path, token)

    def check(self, disk: Disk) -> None:
        """Raise unless this is the directory that was made: not one by the same name on another machine, nor one that was given up."""
        try:
            found = json.loads(disk.read_file(f"{self.path}/{OWNER_FILE}"))["token"]
        except FileNotFoundError as error:
            raise StagingError(
                "the staging directory is not here",
                path=self.path,
                hint="either the job was given up meanwhile, or this executor does not share the directory with the driver",
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise StagingError("a staging directory without its token", path=self.path) from error
        if found != self.token:
            raise StagingError(
                "another staging directory than the driver's", path=self.path, hint="executors have to share it with the driver"
            )

    def file(self, name: str) -> str:
        """The path of a file in it."""
        return f"{self.path}/{name}"

    def discard(self, disk: Disk) -> None:
        """Remove it with all that is there: first its name, so that nobody who comes late finds it. Nothing if it is gone."""
        _discard(disk, self.path)


def check_place(data_directory: str, within: str | None) -> None:
    """Raise if no staging directory could be made there: told before a job begins."""
    parent, _, _ = _place(data_directory, within).rpartition("/")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise StagingError(
            "staging needs a directory that can be written",
            path=parent,
            expected="one that the driver and all executors share",
            found="no such directory" if not Path(parent).is_dir() else "no permission",
            hint="the option stagingDirectory names another",
        )


def sweep_staging(disk: Disk, data_directories: Sequence[str], now_ms: int, *, within: str | None = None) -> list[str]:
    """Remove the staging directories whose owners are gone: which. What cannot be removed is left, and said."""
    removed = []
    for data_directory in data_directories:
        for path in find_staging(disk, data_directory, within=within):
            try:
                if _is_abandoned(disk, path, now_ms):
                    _discard(disk, path)
                    removed.append(path)
            except OSError as error:
                _logger.warning("a staging directory could not be removed: %s: %s", path, error)
    if removed:
        _logger.info("removed what jobs that were cut off have left: %s", ", ".join(removed))
    return removed


def discard_labelled(disk: Disk, data_directory: str, label: str, owner: ProcessIdentity, *, within: str | None = None) -> None:
    """Remove what a pipeline has left, of which its owner has no more than one attempt under way at a time.

    What belongs to another process that may live is left alone: its pipeline may have come by the same label.
    """
    for path in find_staging(disk, data_directory, within=within):
        if path.startswith(f"{_place(data_directory, within)}{label}-"):
            try:
                found = _owner(disk, path)
                if path.endswith(GIVEN_UP) or (found is not None and (found == owner or found.is_gone)):
                    _discard(disk, path)
            except OSError as error:
                _logger.warning("a staging directory could not be removed: %s: %s", path, error)


def left_decisions(disk: Disk, data_directory: str, *, within: str | None = None) -> list[tuple[str, str, bool]]:
    """The decisions of jobs that are not known to live, each by staging directory and name, and whether the job is known to be gone.

    A job that was given up, by itself or by others, has none. Nor has a directory of somebody who may not change the store: what is decided
    is carried out, and in a place that many share anybody may make one.
    """
    found = []
    for path in find_staging(disk, data_directory, within=within):
        with suppress(FileNotFoundError):  # its owner may remove it meanwhile, without the lock
            if not disk.is_trusted(path, (data_directory, path.rpartition("/")[0] or "/")):
                _logger.warning("what lies in %s is left alone: it is of a user who may not change the store", path)
                continue
            names = sorted(filter(_is_decision, disk.names(path))) if not path.endswith(GIVEN_UP) else []
            if names and (is_gone := _is_gone(disk, path)) is not False:
                found += [(path, name, bool(is_gone)) for name in names]
    return found


def remove_decision(disk: Disk, path: str) -> None:
    """Of a commit that is done: nobody has to do it again, though that would do no harm."""
    with suppress(FileNotFoundError):
        disk.remove(path)


def remove_left_decision(disk: Disk, path: str) -> None:
    """Of a commit that was cut off and is done now. With the last one its staging directory goes: the job that made it is gone too."""
    remove_decision(disk, path)
    staging = path.rpartition("/")[0]
    if not any(map(_is_decision, disk.names(staging))):
        _discard(disk, staging)


def find_staging(disk: Disk, data_directory: str, *, within: str | None = None) -> list[str]:
    """The staging directories that there are. A link is none: what it leads to would be removed."""
    parent, _, start = _place(data_directory, within).rpartition("/")
    try:
        names = [name for name in disk.names(parent or "/") if name.startswith(start)]
        return sorted(path for name in names if not disk.is_link(path := f"{parent}/{name}"))
    except OSError:
        return []  # not ours to read


def _place(data_directory: str, within: str | None) -> str:
    parent, name = os.path.split(os.path.realpath(data_directory))
    return f"{os.path.realpath(within) if within is not None else parent.rstrip('/')}/.{name}{_MARK}"


def _is_abandoned(disk: Disk, path: str, now_ms: int) -> bool:
    if path.endswith(GIVEN_UP):
        return True
    is_gone = _is_gone(disk, path)
    if is_gone is False:
        return False
    entries = list(disk.entries(path))
    if is_gone and not any(_is_decision(entry.name) for entry in entries):
        return True
    newest_ns = max([disk.mtime_ns(path), *(entry.mtime_ns for entry in entries)])
    return now_ms - newest_ns // 1_000_000 > ABANDONED_MS


def _is_decision(name: str) -> bool:
    return name.startswith(DECISION_START) and name.endswith(DECISION_END)


def _is_gone(disk: Disk, path: str) -> bool | None:
    owner = _owner(disk, path)
    return None if owner is None else owner.is_gone


def _owner(disk: Disk, path: str) -> ProcessIdentity | None:
    """The process that a staging directory ends with; None of one that is half made, of which nobody can tell."""
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        return ProcessIdentity.parse(json.loads(disk.read_file(f"{path}/{OWNER_FILE}"))["owner"])
    return None


def _discard(disk: Disk, path: str) -> None:
    gone = path if path.endswith(GIVEN_UP) else path + GIVEN_UP
    with suppress(FileNotFoundError):  # somebody else was first
        if gone != path:
            disk.rename(path, gone)
        _remove_all(disk, gone)


def _remove_all(disk: Disk, path: str) -> None:
    """With the folders in it: a job may have been about to put one in its place. Links are not followed."""
    for seen in list(disk.look(path)):
        if seen.kind == "directory":
            _remove_all(disk, f"{path}/{seen.name}")
        else:
            disk.remove(f"{path}/{seen.name}")
    disk.remove_directory(path)


def _write(disk: Disk, path: str, content: bytes) -> None:
    fd = disk.create(path)
    try:
        disk.write(fd, [content], 0)
    finally:
        disk.close(fd)
