"""A growing scratch buffer, used again and again."""

try:
    import cython
except ImportError:  # interpreted, and Cython is not installed
    from tidelog.record.kernel import no_cython as cython

from tidelog.record.views import Buffer


class Arena:
    """Bytes are appended at `size`; `clear` forgets them and keeps the memory. One thread at a time."""

    __slots__ = ("_memory", "buffer", "size")

    def __init__(self, capacity: int = 65536) -> None:
        self.buffer = bytearray(capacity)
        self._memory = memoryview(self.buffer)
        self.size = 0

    def clear(self) -> None:
        """Start again at the front."""
        self.size = 0

    def reserve(self, size: int) -> memoryview:
        """Free room for `size` bytes behind what is there. Whoever fills it adds to `size` how much."""
        needed = self.size + size
        if needed > len(self.buffer):
            # A new buffer instead of a longer one: views of the old one may still be held.
            grown = bytearray(max(needed, 2 * len(self.buffer)))
            grown[: self.size] = self._memory[: self.size]
            self.buffer = grown
            self._memory = memoryview(grown)
        return self._memory[self.size : needed]

    def append(self, data: Buffer) -> None:
        """Copy `data` behind what is there."""
        size = len(data)
        room = self.reserve(size)
        if cython.compiled and type(data) is bytes:
            copy_to(self.buffer, self.size, data, size)  # type: ignore[name-defined]  # noqa: F821
        else:
            room[:] = data
        self.size += size

    def view(self, start: int = 0) -> memoryview:
        """What is there, from `start` on; overwritten by what comes after the next `clear`."""
        return self._memory[start : self.size]
