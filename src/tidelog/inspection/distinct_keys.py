"""About how many distinct keys there are, in four kibibytes: HyperLogLog over SipHash.

The first twelve bits of a hash choose a register, which keeps the most leading zeros that the rest of any hash in it had. Registers of
parts of a log are merged by taking the larger. The standard error is 1.04 / sqrt(4096), that is 1.6 %; small numbers are counted by empty
registers, and are nearly exact.
"""

import math

import numpy as np
from numpy.typing import NDArray

_BITS = 12
_REGISTERS = 1 << _BITS
_ALPHA = 0.7213 / (1 + 1.079 / _REGISTERS)
SECRET = b"tidelog-stats-01"
"""Known to all, so that parts can be merged. Who wants to can make keys that look like fewer; nothing is decided by the number."""

Registers = NDArray[np.uint8]


def no_keys() -> Registers:
    """The registers before the first key."""
    return np.zeros(_REGISTERS, np.uint8)


def add_hashes(registers: Registers, words: NDArray[np.uint64]) -> None:
    """Take in keys by one 64-bit word of hash each."""
    if len(words) == 0:
        return
    places = (words >> np.uint64(64 - _BITS)).astype(np.int64)
    rest = (words << np.uint64(_BITS)) | np.uint64(1 << (_BITS - 1))  # the last bit ends the zeros
    # The exponent of a float is the place of the highest bit; rounding up could make it one too high, so the low bits are cut off.
    high = (rest >> np.uint64(11)).astype(np.float64)
    zeros = (53 - np.frexp(high)[1]).astype(np.uint8)
    np.maximum.at(registers, places, zeros + np.uint8(1))


def estimate(registers: Registers) -> int:
    """About how many distinct keys were taken in."""
    empty = int(np.count_nonzero(registers == 0))
    raw = _ALPHA * _REGISTERS * _REGISTERS / float(np.sum(np.exp2(-registers.astype(np.float64))))
    if raw <= 2.5 * _REGISTERS and empty:
        return round(_REGISTERS * math.log(_REGISTERS / empty))
    return round(raw)
