"""Views of memory, as the kernel takes them."""

from typing import Any

Buffer = bytes | bytearray | memoryview


def view(array: Any) -> memoryview:
    """A view of an array's items. The kernel never gets the array itself: items of numpy arrays overflow where Python's ints do not."""
    return memoryview(array)


def byte_view(buffer: Any) -> memoryview:
    """A flat view of unsigned bytes."""
    flat = memoryview(buffer)
    return flat if flat.format == "B" and flat.ndim == 1 else flat.cast("B")
