"""The fields that Kafka's own records are made of, one behind the other.

    int8 … int64, uint16    big-endian
    bool                    one byte, anything but 0 is true
    float64                 big-endian
    uuid                    16 bytes
    unsigned varint         seven bits a byte, the lowest first, at most five bytes

                    in an older version             in a flexible one
    string          length as int16, -1 is null     length plus one as an unsigned varint, 0 is null
    bytes, array    length as int32, -1 is null     the same
    a struct that may be null: int8, below 0 is null, in both; as a tagged field an unsigned varint, 0 is null

In a flexible version every struct ends with its tagged fields: their number, then of each its tag, its size, and that many bytes.
"""

import struct
from uuid import UUID

from tidelog.errors import InvalidBatchError, MalformedRecordError

_INT16, _INT32, _INT64, _FLOAT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q"), struct.Struct(">d")
_UINT16 = struct.Struct(">H")
MAX_STRING = 0x7FFF


class FieldReader:
    """Takes one field after the other. Where there is less than there should be: `MalformedRecordError`."""

    __slots__ = ("_data", "_end", "position")

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self._data = data
        self._end = len(data) if end is None else end
        self.position = position

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return self._end - self.position

    def int8(self) -> int:
        """A signed byte."""
        byte = self._data[self._skip(1)]
        return byte - 256 if byte > 127 else byte

    def boolean(self) -> bool:
        """A byte, true if it is not 0."""
        return self._data[self._skip(1)] != 0

    def int16(self) -> int:
        """Two bytes."""
        return int(_INT16.unpack_from(self._data, self._skip(2))[0])

    def uint16(self) -> int:
        """Two bytes, never negative."""
        return int(_UINT16.unpack_from(self._data, self._skip(2))[0])

    def int32(self) -> int:
        """Four bytes."""
        return int(_INT32.unpack_from(self._data, self._skip(4))[0])

    def int64(self) -> int:
        """Eight bytes."""
        return int(_INT64.unpack_from(self._data, self._skip(8))[0])

    def float64(self) -> float:
        """Eight bytes."""
        return float(_FLOAT64.unpack_from(self._data, self._skip(8))[0])

    def uuid(self) -> UUID:
        """An id."""
        return UUID(bytes=self.take(16))

    def unsigned_varint(self) -> int:
        """At most 32 bits."""
        number = 0
        for shift in range(0, 35, 7):
            byte = self._data[self._skip(1)]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if number >> 32:
                    break
                return number
        raise MalformedRecordError("a varint of more than 32 bits", position=self.position)

    def string(self, *, flexible: bool = False) -> str:
        """A text that is there."""
        text = self.nullable_string(flexible=flexible)
        if text is None:
            raise MalformedRecordError("null in place of a text", position=self.position)
        return text

    def nullable_string(self, *, flexible: bool = False) -> str | None:
        """A text, or null."""
        size = self.unsigned_varint() - 1 if flexible else self.int16()
        if size < 0:
            return None
        start = self.position
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise MalformedRecordError("a text that is not UTF-8", position=start) from error

    def byte_string(self, *, flexible: bool = False) -> bytes:
        """Bytes that are there."""
        found = self.nullable_byte_string(flexible=flexible)
        if found is None:
            raise MalformedRecordError("null in place of bytes", position=self.position)
        return found

    def nullable_byte_string(self, *, flexible: bool = False) -> bytes | None:
        """Bytes, or null."""
        size = self.length(flexible=flexible)
        return None if size < 0 else self.take(size)

    def length(self, *, flexible: bool = False) -> int:
        """The length of an array or of bytes; below 0 stands for null. One that cannot be is refused before anything is made of it."""
        size = self.unsigned_varint() - 1 if flexible else self.int32()
        if size > self.remaining:
            raise MalformedRecordError("a length past the end", position=self.position, expected=f"at most {self.remaining}", found=size)
        return size

    def tagged(self) -> "list[tuple[int, FieldReader]]":
        """The tagged fields at the end of a struct: each tag, and its bytes to be read."""
        found = []
        for _ in range(self.unsigned_varint()):
            tag, size = self.unsigned_varint(), self.unsigned_varint()
            start = self._skip(size)
            found.append((tag, FieldReader(self._data, start, start + size)))
        return found

    def take(self, size: int) -> bytes:
        """That many bytes."""
        start = self._skip(size)
        return self._data[start : start + size]

    def _skip(self, size: int) -> int:
        start = self.position
        if start + size > self._end:
            raise MalformedRecordError("cut off", position=start, expected=f"{size} bytes", found=self._end - start)
        self.position = start + size
        return start


def int16_string(text: str) -> bytes:
    """A text in an older version's form."""
    data = encoded(text)
    return _INT16.pack(len(data)) + data


def encoded(text: str) -> bytes:
    """A text as bytes, if a string may have it."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidBatchError("a text with half of a surrogate pair, which has no UTF-8", found=ascii(text[:40])) from error
    if len(data) > MAX_STRING:
        raise InvalidBatchError("a text too long for Kafka's schema", expected=f"at most {MAX_STRING} bytes", found=len(data))
    return data
