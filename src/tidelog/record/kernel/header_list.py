"""Encode the header list of a record, and take bytes from what callers give."""

import operator
from typing import Any

from tidelog.errors import InvalidBatchError


def as_bytes(data: Any, what: str, index: int) -> bytes:
    """Bytes of anything that is a buffer; text is refused, since its encoding is the caller's business."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise TypeError(f"{what} of record {index} must be bytes or None, not {type(data).__name__}")


def as_timestamp(number: Any, index: int) -> int:
    """A timestamp that a batch can have."""
    try:
        timestamp = operator.index(number)
    except TypeError:
        raise TypeError(f"timestamp_ms of record {index} must be an int, not {type(number).__name__}") from None
    if timestamp < -1 or timestamp > 0x7FFFFFFFFFFFFFFF:
        raise InvalidBatchError(f"timestamp of record {index}", expected="-1 (none) or epoch milliseconds", found=timestamp)
    return timestamp


def encode_headers(headers: Any, index: int) -> bytes:
    """A record's header list: its count, then name and value of each."""
    pairs = headers if isinstance(headers, (list, tuple)) else list(headers)
    out = bytearray()
    append_varint(out, len(pairs))
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"headers of record {index} must be pairs (name, value), not {pair!r}")
        name, value = pair
        if type(name) is not str:
            raise TypeError(f"header name of record {index} must be str, not {type(name).__name__}")
        encoded = name.encode()
        append_varint(out, len(encoded))
        out += encoded
        if value is None:
            append_varint(out, -1)
        else:
            data = as_bytes(value, "header value", index)
            append_varint(out, len(data))
            out += data
    return bytes(out)


def append_varint(out: bytearray, number: int) -> None:
    """A zigzag varint at the end of a bytearray."""
    raw = number << 1 if number >= 0 else -number * 2 - 1
    while raw >= 128:
        out.append((raw & 127) | 128)
        raw >>= 7
    out.append(raw)
