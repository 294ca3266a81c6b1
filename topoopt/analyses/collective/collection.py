"""Garbage collection, which only costs time while millions of rows are read."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collection_halted() -> Iterator[None]:
    """No garbage collection meanwhile: millions of small rows without cycles are looked through again and again."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()
