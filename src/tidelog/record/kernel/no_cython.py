"""The few names of the `cython` module that the interpreted kernel needs where Cython is not installed."""

import contextlib

compiled = False
nogil = contextlib.nullcontext()
