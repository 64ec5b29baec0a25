"""What stays, gathered into writes of about a mebibyte."""

import crc32c
import numpy as np

from tidelog.compaction.cleaned_segment import Target
from tidelog.compaction.hooks import Hooks
from tidelog.compaction.stats import Counts
from tidelog.record.kernel import compact as kernel
from tidelog.record.outcomes import RetainAnswer
from tidelog.record.views import view

WRITE_BYTES = 1 << 20
_FIRST_BYTES = 2 * WRITE_BYTES + 65536
_POSITIONS = 65536


class Output:
    """Batches on their way to the new segment. The kernel writes into `buffer` from OUTPUT_END of `answers` on, as does `append`."""

    def __init__(self, counts: Counts, hooks: Hooks) -> None:
        self._counts = counts
        self._hooks = hooks
        self.buffer = np.empty(_FIRST_BYTES, np.uint8)
        self.positions = np.empty(_POSITIONS, np.int64)
        """Where the batches start that still need a CRC."""
        self.answers = np.zeros(len(RetainAnswer), np.int64)
        self.target: Target | None = None

    def append(self, batch: bytes) -> None:
        """A batch that is complete."""
        end = int(self.answers[RetainAnswer.OUTPUT_END])
        if len(batch) > len(self.buffer) - end:
            self.flush()
            self.make_room(len(batch))
            end = 0
        self.buffer[end : end + len(batch)] = np.frombuffer(batch, np.uint8)
        self.answers[RetainAnswer.OUTPUT_END] = end + len(batch)

    def make_room(self, size_bytes: int) -> None:
        """For a batch that is larger than what there is; after `flush`."""
        if len(self.buffer) < size_bytes:
            self.buffer = np.empty(size_bytes, np.uint8)

    def flush_if_large(self) -> None:
        """Write what has come together, if it is worth a write."""
        if self.answers[RetainAnswer.OUTPUT_END] >= WRITE_BYTES or self.answers[RetainAnswer.CHECKSUMS] >= _POSITIONS // 2:
            self.flush()

    def flush(self) -> None:
        """Write what has come together."""
        answers = self.answers
        end = int(answers[RetainAnswer.OUTPUT_END])
        if end == 0:
            return
        assert self.target is not None, "there is nowhere to write to"
        written = view(self.buffer)[:end]
        kernel.write_checksums(crc32c.crc32c, written, view(self.positions), int(answers[RetainAnswer.CHECKSUMS]))
        answers[RetainAnswer.OUTPUT_END] = answers[RetainAnswer.CHECKSUMS] = 0
        self.target.append(written)
        self._counts.bytes_written += end
        self._hooks.throttle(end)
        if len(self.buffer) > 2 * _FIRST_BYTES:
            self.buffer = np.empty(_FIRST_BYTES, np.uint8)

    def take_counts(self) -> None:
        """Move what the kernel counted to the counts of the pass."""
        counts, answers = self._counts, self.answers
        counts.messages_read += int(answers[RetainAnswer.MESSAGES_READ])
        counts.messages_written += int(answers[RetainAnswer.MESSAGES_WRITTEN])
        counts.invalid_messages_read += int(answers[RetainAnswer.INVALID_MESSAGES])
        counts.tombstones_removed += int(answers[RetainAnswer.TOMBSTONES_REMOVED])
        counts.batches_kept_empty += int(answers[RetainAnswer.KEPT_EMPTY])
        answers[RetainAnswer.MESSAGES_READ : RetainAnswer.STOP] = 0
