"""Kernels where their compiled code cannot be kept or read back."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from numba.core.caching import FunctionCache

from topoopt.simulate import jit


def full(*_: Any) -> None:
    """Stands in for a disk without space."""
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", ["save_overload", "load_overload"])
def test_kernel_runs_when_its_cache_fails(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full or unreadable disk costs the next run its time, not this one its result."""
    monkeypatch.setattr(FunctionCache, step, full)

    @jit.kernel
    def twice(x: int) -> int:
        return 2 * x

    assert twice(21) == 42


def test_kernel_runs_without_a_place_for_its_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """numba knows no folder it may write to."""

    def nowhere(*_: Any) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(FunctionCache, "__init__", nowhere)

    @jit.kernel
    def thrice(x: int) -> int:
        return 3 * x

    assert thrice(14) == 42
