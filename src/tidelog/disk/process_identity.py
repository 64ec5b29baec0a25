"""Who a process is, so that another one, later or in another place, can tell whether it is gone.

A number alone does not say it: numbers are used again, every boot begins anew, every container counts for itself. So an identity is the
host, its boot, the name space of numbers, the number, and when the process began. Only who shares the first three can ask; of others it is
not known whether they live.
"""

import os
import socket
from dataclasses import asdict, dataclass

_PROC = "/proc"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process. Fields that the system does not tell are empty."""

    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    started: str
    """In clock ticks since the boot."""

    @classmethod
    def of(cls, pid: int) -> "ProcessIdentity":
        """A process of this machine, which should be alive."""
        return cls(socket.gethostname(), _boot_id(), _pid_namespace(), pid, _started(pid) or "")

    @classmethod
    def parse(cls, fields: object) -> "ProcessIdentity | None":
        """From what `as_dict` gave; None if it is something else."""
        try:
            return cls(**fields)  # type: ignore[arg-type]
        except TypeError:
            return None

    def as_dict(self) -> dict[str, object]:
        """To be written down."""
        return asdict(self)

    @property
    def is_gone(self) -> bool | None:
        """Whether it has ended; None if that cannot be told from here."""
        if self.host != socket.gethostname() or not self.boot_id or not self.started:
            return None
        if self.boot_id != _boot_id():
            return True
        if self.pid_namespace != _pid_namespace():
            return None
        return _started(self.pid) != self.started


def ancestors() -> list[tuple[int, str]]:
    """The processes above this one, nearest first, with their command's name; as far as the system tells."""
    found = []
    pid = os.getppid()
    while pid > 1:
        try:
            with open(f"{_PROC}/{pid}/stat", encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            break
        found.append((pid, text[text.index("(") + 1 : text.rindex(")")]))
        pid = int(text[text.rindex(")") + 1 :].split()[1])
    return found


def _started(pid: int) -> str | None:
    """None if there is no such process, or only what is left of one until its parent asks."""
    try:
        with open(f"{_PROC}/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]


def _boot_id() -> str:
    try:
        with open(f"{_PROC}/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _pid_namespace() -> str:
    try:
        return os.readlink(f"{_PROC}/self/ns/pid")
    except OSError:
        return ""
