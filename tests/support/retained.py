"""The kernel's `retain_batches` for tests: batches in memory of exactly their size, and what is left of them."""

from collections.abc import Sequence

import crc32c
import numpy as np

from tidelog.record.faults import raise_fault
from tidelog.record.headers import walk_headers
from tidelog.record.kernel import compact as kernel
from tidelog.record.outcomes import RetainAnswer, RetainRule, RetainStop
from tidelog.record.views import view

GROWTH = 11


def exact(data: bytes) -> memoryview:
    """A copy without a spare byte behind it, which would hide a read past the end."""
    return view(np.frombuffer(data, np.uint8).copy())


def retain(
    buffer: memoryview,
    *,
    keep: Sequence[bool] | None = None,
    survivors: Sequence[int] = (),
    first: int = 0,
    end: int = 0,
    latest_offset: int = 1 << 62,
    now_ms: int = 0,
    new_horizon: int = 0,
    counts_all: bool = False,
    keep_empty: Sequence[bool] = (),
) -> tuple[bytes, dict[str, int]]:
    """What stays: by flags (`keep`), or by the offsets that survive, of which there are bits for [first, end)."""
    headers = walk_headers(buffer)
    count = len(headers)
    rules = np.zeros(len(RetainRule), np.int64)
    rules[RetainRule.BY_BITS] = keep is None
    rules[RetainRule.BITS_FIRST], rules[RetainRule.BITS_END] = first, end
    rules[RetainRule.LATEST_OFFSET], rules[RetainRule.NOW] = latest_offset, now_ms
    rules[RetainRule.NEW_HORIZON], rules[RetainRule.COUNTS_ALL] = new_horizon, counts_all
    bits = np.zeros(max(1, (end - first + 7) // 8), np.uint8)
    for offset in survivors:
        bits[(offset - first) // 8] |= 1 << (offset - first) % 8
    records = int(np.maximum(headers.count, 0).clip(max=len(buffer)).sum())
    output = np.empty(len(buffer) + GROWTH * records + 1, np.uint8)
    answers, fault = np.zeros(len(RetainAnswer), np.int64), np.zeros(5, np.int64)
    positions = np.empty(count + 1, np.int64)
    empties = np.array([*keep_empty, *[False] * (count + 1 - len(keep_empty))], np.uint8)
    flags = np.array(keep or [False], np.uint8)
    scratch = records + 1
    done = kernel.retain_batches(
        buffer if len(buffer) else exact(b"\0"),
        view(headers.flat) if len(headers.flat) else view(np.zeros(1, np.int64)),
        headers.capacity,
        headers.first,
        count,
        view(rules),
        view(empties),
        view(flags),
        view(bits),
        view(np.empty(scratch, np.int32)),
        view(np.empty(scratch, np.int64)),
        view(np.empty(scratch, np.uint8)),
        view(output),
        view(positions),
        view(answers),
        view(fault),
    )
    if answers[RetainAnswer.STOP] == RetainStop.BAD_BYTES:
        kind, position, found, expected = fault[:4].tolist()
        raise_fault(kind, position, found, expected)
    written = view(output)[: int(answers[RetainAnswer.OUTPUT_END])]
    kernel.write_checksums(crc32c.crc32c, written if len(written) else exact(b"\0"), view(positions), int(answers[RetainAnswer.CHECKSUMS]))
    return bytes(written), {answer.name: int(answers[answer]) for answer in RetainAnswer} | {"DONE": done}
