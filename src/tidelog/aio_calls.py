"""Calls in threads that go through, whatever becomes of who awaits them: see `tidelog.aio`."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

R = TypeVar("R")


async def to_the_end(call: Awaitable[R]) -> R:
    """Await a call. Whoever is cancelled meanwhile is told when it is over, so that what comes next does not overlap with it."""
    ending = asyncio.ensure_future(call)
    cancelled: asyncio.CancelledError | None = None
    while not ending.done():
        try:
            await asyncio.wait([ending])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return ending.result()
    if not ending.cancelled():
        ending.exception()  # what went wrong is nobody's: who would be told was cancelled
    try:
        raise cancelled
    finally:
        del cancelled  # it knows this frame
