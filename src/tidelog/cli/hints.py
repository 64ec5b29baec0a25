"""What to do about an error that does not say so itself: the second line on stderr, which there always is."""

import errno
from collections.abc import Sequence

from tidelog.errors import CorruptError, DiskFullError, LockedError, RepairError, TidelogError, UnsupportedError

_WITH_COMMANDS = ("topics", "config", "groups")
"""Commands that have commands of their own."""
_OF_SYSTEM = {
    errno.ENOENT: "look at the name; nothing is made but where --create says so",
    errno.EACCES: "be a user who may do that, or have its rights changed",
    errno.EPERM: "be a user who may do that, or have its rights changed",
    errno.EISDIR: "name a file, not a directory",
    errno.ENOTDIR: "name a directory, not a file",
    errno.EEXIST: "name one that is not there yet",
    errno.EROFS: "name a place that can be written to",
    errno.ENOSPC: "make room, and do it again",
    errno.EDQUOT: "make room, and do it again",
    errno.EIO: "the disk does not give it back: salvage copies what can still be read",
    errno.ENAMETOOLONG: "give it a shorter name",
    errno.EMFILE: "let a process have more open files: ulimit -n",
}
_DEBUG = "--debug shows where in the program it was met"


def hint_for(error: BaseException, arguments: Sequence[str], *, is_wrong_use: bool) -> str:
    """The hint of an error, or one by its kind; `arguments` are those of the command."""
    said = getattr(error, "hint", None)
    if said:
        return str(said)
    number = getattr(error, "errno", None)
    if isinstance(error, OSError) and number in _OF_SYSTEM:
        return _OF_SYSTEM[number]
    if isinstance(error, DiskFullError):
        return _OF_SYSTEM[errno.ENOSPC]
    if isinstance(error, RepairError):
        return "tidelog verify names segments and bytes between which a log can be cut"
    if isinstance(error, LockedError):
        return "close it there, or wait until it is closed"
    if isinstance(error, UnsupportedError):
        return "a later release of Tidelog may know it; tidelog dump shows what can be read"
    if isinstance(error, CorruptError):
        return "tidelog verify says all that is wrong; repair and salvage keep what is sound"
    if is_wrong_use:
        return f"tidelog {' '.join([*command_in(arguments), '--help'])}"
    if isinstance(error, TidelogError | OSError):
        return _DEBUG
    return "a fault of the program; --debug shows where"


def command_in(arguments: Sequence[str]) -> list[str]:
    """The command that was asked for, with its own one if it has some; nothing if there is none."""
    names = [argument for argument in arguments if not argument.startswith("-")]
    return names[: 2 if names[:1] and names[0] in _WITH_COMMANDS else 1]
