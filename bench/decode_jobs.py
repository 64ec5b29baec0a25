"""Promises about reading records: to columns with and without CRC, compressed, from a file, on two threads, as objects.

Against aiokafka both sides read the same bytes in memory. Against the JVM the one without CRC is in memory, the ones with CRC come from a
file in the page cache: Kafka reads it batch by batch as it does a segment, and again in large pieces as fetches arrive.

Reproduce: `.venv/bin/python -m bench --only decode`
"""

from functools import partial

from bench import aiokafka_peer, passes
from bench.data import Inputs
from bench.jobs import Job, require_equal
from bench.jvm import around
from bench.memory import peak_growth_bytes
from bench.timing import Measurement, Pace, in_turn
from tidelog import __version__
from tidelog.record import ColumnDecoder

RECORDS = "records/s"


def jobs() -> list[Job]:
    """In the order of the table."""
    return [
        Job("1-decode-s-columns-aiokafka", ">= 8", RECORDS, partial(_memory_aiokafka, "s")),
        Job("1-decode-s-columns-jvm", ">= 1.5", RECORDS, partial(_memory_jvm, "none"), needs_jvm=True),
        Job("1-decode-s-crc-aiokafka", ">= 6", RECORDS, partial(_memory_aiokafka, "s", check_crcs=True)),
        Job("1-decode-s-crc-file-jvm", ">= 1.5", RECORDS, partial(_file_jvm, "s", "decode-file-crc"), needs_jvm=True),
        Job("1-decode-s-crc-fetch-jvm", ">= 1", RECORDS, partial(_file_jvm, "s", "decode-fetch-crc"), needs_jvm=True),
        Job("1-decode-l-crc-aiokafka", ">= 4", RECORDS, partial(_memory_aiokafka, "l", check_crcs=True)),
        Job("1-decode-l-crc-file-jvm", ">= 1.3", RECORDS, partial(_file_jvm, "l", "decode-file-crc"), needs_jvm=True),
        Job("1-decode-s-lz4-aiokafka", ">= 3", RECORDS, partial(_memory_aiokafka, "s-lz4")),
        Job("1-decode-s-lz4-jvm", ">= 1", RECORDS, partial(_memory_jvm, "lz4"), needs_jvm=True),
        Job("1-decode-s-zstd-aiokafka", ">= 2", RECORDS, partial(_memory_aiokafka, "s-zstd")),
        Job("1-decode-s-zstd-jvm", ">= 1", RECORDS, partial(_memory_jvm, "zstd"), needs_jvm=True),
        Job("1-decode-s-two-threads", ">= 1.5", RECORDS, _two_threads),
        Job("1-decode-memory-peak", "<= 0.5", "bytes", _memory_peak),
        Job("1-iterate-s-objects-aiokafka", ">= 1", RECORDS, _objects_aiokafka),
    ]


def _memory_aiokafka(name: str, inputs: Inputs, pace: Pace, *, check_crcs: bool = False) -> Measurement:
    data = inputs.memory(name)
    records, size_bytes = passes.volume(data, check_crcs=check_crcs)
    require_equal("records and bytes", (records, size_bytes), aiokafka_peer.volume(data))
    decoder = ColumnDecoder(passes.COLUMNS, check_crcs=check_crcs)

    def peer() -> int:
        aiokafka_peer.read(data, check_crcs=check_crcs)
        return records

    return in_turn(lambda: passes.decode(decoder, data), peer, pace, aiokafka_peer.VERSION)


def _memory_jvm(codec: str, inputs: Inputs, pace: Pace) -> Measurement:
    path = inputs.s_path(codec)
    data = path.read_bytes()
    decoder = ColumnDecoder(passes.COLUMNS, check_crcs=False)
    records = passes.decode(decoder, data)
    return around(lambda: passes.decode(decoder, data), "decode-memory", path, pace, records=records, size_bytes=len(data))


def _file_jvm(name: str, jvm_job: str, inputs: Inputs, pace: Pace) -> Measurement:
    path = inputs.path(name)
    with passes.FileReader(path, ColumnDecoder(passes.COLUMNS, check_crcs=True)) as reader:
        records = reader.read()
        return around(reader.read, jvm_job, path, pace, records=records, size_bytes=path.stat().st_size)


def _two_threads(inputs: Inputs, pace: Pace) -> Measurement:
    data = inputs.memory("s")
    decoder = ColumnDecoder(passes.COLUMNS, check_crcs=False)
    with passes.TwoThreads(data) as threads:
        require_equal("records", threads.decode(), passes.decode(decoder, data))
        return in_turn(threads.decode, lambda: passes.decode(decoder, data), pace, f"tidelog {__version__}, one thread")


def _objects_aiokafka(inputs: Inputs, pace: Pace) -> Measurement:
    data = inputs.memory("s")
    records, size_bytes = passes.object_volume(data)
    require_equal("records and bytes", (records, size_bytes), aiokafka_peer.volume(data))

    def ours() -> int:
        passes.iterate(data)
        return records

    def peer() -> int:
        aiokafka_peer.read(data)
        return records

    return in_turn(ours, peer, pace, aiokafka_peer.VERSION)


def _memory_peak(inputs: Inputs, pace: Pace) -> Measurement:
    path = inputs.path("s")
    growths = [float(peak_growth_bytes(path)) for _ in range(pace.samples)]
    return Measurement(growths, [float(path.stat().st_size)], "the size of the file")
