"""Who is told when a kernel has to be compiled; loads no compiler itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Listener:
    """Called when the compiler begins, and when it has ended."""

    began: Callable[[], None]
    ended: Callable[[], None]


LISTENERS: list[Listener] = []
"""Those of the blocks of `heard` that are open."""


@contextmanager
def heard(began: Callable[[], None], ended: Callable[[], None]) -> Iterator[None]:
    """Call these functions whenever a kernel is compiled inside the block; kernels that are on disk are not."""
    listener = Listener(began, ended)
    LISTENERS.append(listener)
    try:
        yield
    finally:
        LISTENERS.remove(listener)
