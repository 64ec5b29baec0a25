"""Kafka's own classes as a judge of files and partition directories, in a JVM of its own (`interop/java/Judge.java`), without a broker."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from interop.java_program import AskedProgram

Answer = dict[str, Any]


class Judge(AskedProgram):
    """A context manager, for any number of questions. What Kafka refuses is an answer with an "error"; the jobs say what else is in one."""

    def __init__(self, *, version: str, messages: Path) -> None:
        super().__init__("Judge", version=version, messages=messages, log_level="off", timeout_s=300)

    def describe(self, files: Iterable[Path]) -> list[Answer]:
        """What Kafka reads from files of batches."""
        return [self.ask("describe", file=str(file)) for file in files]

    def open_logs(self, requests: Iterable[Mapping[str, Any]]) -> list[Answer]:
        """What Kafka makes of partition directories; what a request has is told in `OpenLogJob.java`."""
        return [self.ask("open_log", **request) for request in requests]

    def dump(self, directories: Iterable[Path]) -> list[Answer]:
        """What Kafka's dump tool prints about partition directories."""
        return [self.ask("dump_log", directory=str(directory)) for directory in directories]

    def decode(self, directory: Path, decoder: str) -> Answer:
        """What Kafka's dump tool prints about a partition of an internal topic with one of its decoders."""
        answer: Answer = self.ask("dump_log", directory=str(directory), decoder=decoder)
        return answer

    def play(self, folder: Path) -> None:
        """Let Kafka answer all cases in a folder."""
        for case in sorted(folder.iterdir()):
            self.ask("play_steps", folder=str(case))

    def write_golden(self, folder: Path) -> None:
        """Write the golden files."""
        self.ask("golden", into=str(folder))
