"""Encode the header list of a record, and take bytes from what callers give."""

from typing import Any


def as_bytes(data: Any, what: str, index: int) -> bytes:
    """Bytes of anything that is a buffer; text is refused, since its encoding is the caller's business."""
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise TypeError(f"{what} of record {index} must be bytes or None, not {type(data).__name__}")


def encode_headers(headers: Any, index: int) -> bytes:
    """A record's header list: its count, then name and value of each."""
    out = bytearray()
    append_varint(out, len(headers))
    for name, value in headers:
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
