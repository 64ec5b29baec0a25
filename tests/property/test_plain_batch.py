"""Runs of plain batches with others among them: where a run stops, and that it stores what batches taken one by one store."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from tests.support.batches import TIME, patched
from tests.support.strategies import Model, ModelRecord, record_lists, settings_of_batches
from tests.unit.record.test_plain_batch import assign_alone, check_run, rules_of
from tidelog.config import LogConfig
from tidelog.record import Compression
from tidelog.record.views import Buffer


def with_count(batch: bytes, change: int) -> bytes:
    count = struct.unpack_from(">i", batch, 57)[0] + change
    return patched(patched(batch, 57, struct.pack(">i", count)), 23, struct.pack(">i", count - 1))


def in_two(batch: bytes) -> bytes:
    return batch[: len(batch) // 2]


# Each makes any plain batch one that is not.
SPOILERS: dict[str, Callable[[bytes], bytes]] = {
    "control": lambda batch: patched(batch, 22, bytes([batch[22] | 0x20])),
    "append time": lambda batch: patched(batch, 22, bytes([batch[22] | 0x08])),
    "compressed": lambda batch: patched(batch, 22, bytes([batch[22] | 0x03])),
    "wrong CRC": lambda batch: batch[:20] + bytes([batch[20] ^ 1]) + batch[21:],
    "base offset": lambda batch: struct.pack(">q", 2**40) + batch[8:],
    "count too large": lambda batch: with_count(batch, 1),
    "count too small": lambda batch: with_count(batch, -1),
    "last offset delta": lambda batch: patched(batch, 23, struct.pack(">i", 99)),
    "magic": lambda batch: batch[:16] + b"\x01" + batch[17:],
    "cut off": in_two,
    "bytes behind": lambda batch: batch + batch,
    "empty": lambda _: b"",
}
CONTAINERS: tuple[Callable[[bytes], Buffer], ...] = (
    bytes,
    bytearray,
    memoryview,
    lambda batch: memoryview(bytearray(b"\xff" * 9 + batch + b"\xff"))[9:-1],
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A batch to append, and what is known about it."""

    model: Model
    spoiler: str | None
    container: Callable[[bytes], Buffer]

    def encode(self) -> Buffer:
        batch = self.model.encode()
        return self.container(SPOILERS[self.spoiler](batch) if self.spoiler else batch)

    def is_plain(self, config: LogConfig) -> bool:
        rules = rules_of(config)
        records = self.model.records
        is_compressed = self.model.settings.compression is not Compression.NONE
        return (
            not self.spoiler
            and not is_compressed
            and len(self.model.encode()) <= rules.max_bytes
            and all(rules.lowest_ms <= record.timestamp_ms <= rules.highest_ms for record in records if record.timestamp_ms != -1)
            and not (rules.needs_keys and any(record.key is None for record in records))
        )


# Every log of `configs` takes these, so that runs are more than one batch long.
modest_records = st.lists(
    st.builds(
        ModelRecord,
        st.binary(max_size=5),
        st.one_of(st.none(), st.binary(max_size=20)),
        st.just(()),
        st.one_of(st.just(-1), st.integers(TIME - 1, TIME + 1)),
    ),
    min_size=1,
    max_size=4,
).map(tuple)


@st.composite
def samples(draw: st.DrawFn, *, is_modest: bool) -> Sample:
    settings = replace(draw(settings_of_batches(batch_bytes=2**31 - 1)), append_time_ms=None)
    is_spoiled = not is_modest and draw(st.booleans())
    if is_spoiled or is_modest:
        settings = replace(settings, compression=Compression.NONE)
    if is_modest:
        settings = replace(settings, producer_id=-1, producer_epoch=-1, base_sequence=-1, is_transactional=False, is_control=False)
        records = draw(modest_records)
    else:
        # Most of them near the present, which narrow limits have to tell apart.
        lowest_ms, highest_ms = draw(st.sampled_from((-1, TIME - 2))), draw(st.sampled_from((TIME, TIME + 2, 2**62)))
        records = draw(record_lists(max_size=6, lowest_ms=lowest_ms, highest_ms=highest_ms))
    spoiler = draw(st.sampled_from(sorted(SPOILERS))) if is_spoiled else None
    return Sample(Model(records, settings, 0), spoiler, draw(st.sampled_from(CONTAINERS)))


modest, wild = samples(is_modest=True), samples(is_modest=False)
configs = st.builds(
    LogConfig,
    cleanup_policy=st.sampled_from((("delete",), ("delete",), ("compact",))),
    max_message_bytes=st.sampled_from((300, 1 << 20, 1 << 20)),
    message_timestamp_type=st.sampled_from(("CreateTime", "CreateTime", "LogAppendTime")),
    message_timestamp_before_max_ms=st.sampled_from((1, 2, 2**63 - 1, 2**63 - 1)),
    message_timestamp_after_max_ms=st.sampled_from((1, 2, 2**63 - 1, 2**63 - 1)),
)


@given(wild, configs)
def test_which_batches_are_plain(sample: Sample, config: LogConfig) -> None:
    assert (assign_alone(sample.encode(), config) is not None) == sample.is_plain(config)


@given(st.lists(modest, max_size=3), st.lists(st.one_of(modest, wild), max_size=3), st.integers(0, 3), configs)
def test_runs(start: list[Sample], rest: list[Sample], first: int, config: LogConfig) -> None:
    run = start + rest
    first = min(first, len(run))
    wanted = next((index for index in range(first, len(run)) if not run[index].is_plain(config)), len(run))
    assert wanted >= len(start)
    assert check_run([sample.encode() for sample in run], config, first=first) == wanted
