"""Calls of the native module with damaged arguments: each returns or raises, none crashes, reads outside or hangs.

    python -m tests.native.fuzz --calls 20000 [--seed 0] [--unit graph]

A module `calls_<unit>` beside this file makes valid arguments of every function. Here types, shapes, layouts, indices
and numbers of them are changed at random. In the checked build an index outside a view raises IndexError, which is a
failure: the border must have refused it.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.native.loaded import load_checked

load_checked()

from topoopt import native  # noqa: E402

UNITS = ("graph", "jobs", "flows", "circuits", "placement", "pipeline", "routing", "search", "exact")
FINE = (TypeError, ValueError, MemoryError, OverflowError)
"""What wrong arguments may raise."""

NUMBERS = (0, 1, -1, 2, 3, 7, 255, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, -(2**63))
REALS = (0.0, -0.0, 1.0, -1.0, 1e-300, 1e300, -1e300, float("inf"), float("-inf"), float("nan"))
TYPES = (np.float64, np.int64, np.int32, np.int8, np.bool_, np.uint64, np.float32)
MOST_ITEMS = 4096
"""Numbers of items are changed to at most so many, where an array is lengthened."""

LONGEST_S = 1.0

Maker = Callable[[np.random.Generator], tuple[Any, ...]]


def calls_of(unit: str) -> dict[str, Maker]:
    """Makers of valid arguments by the name of the function."""
    calls: dict[str, Maker] = importlib.import_module(f"tests.native.calls_{unit}").CALLS
    return calls


def function_named(unit: str, name: str) -> Callable[..., Any]:
    """A function or a class of the unit; `Class.method`: called with the object first."""
    found: Any = getattr(native, unit)
    for part in name.split("."):
        found = getattr(found, part)
    function: Callable[..., Any] = found
    return function


def damaged(value: Any, rng: np.random.Generator) -> Any:
    """One argument changed somewhere."""
    if isinstance(value, np.ndarray):
        return _array(value, rng)
    if isinstance(value, tuple) and value:
        index = int(rng.integers(len(value)))
        parts = [damaged(part, rng) if at == index else part for at, part in enumerate(value)]
        if rng.random() < 0.02:
            return tuple(parts[:-1])
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return int(rng.choice(np.array(NUMBERS))) if rng.random() < 0.5 else value + int(rng.integers(-3, 4))
    if isinstance(value, float):
        return REALS[rng.integers(len(REALS))] if rng.random() < 0.7 else value * float(rng.normal())
    return None


def _array(value: np.ndarray, rng: np.random.Generator) -> Any:
    kind = rng.random()
    if kind < 0.06:
        return value.astype(TYPES[rng.integers(len(TYPES))])
    if kind < 0.10:
        return [None, "x", 3, [], value.tolist(), value[..., None], value.ravel()][rng.integers(7)]
    if kind < 0.14:
        return np.repeat(value, 2, axis=-1)[..., ::2] if value.ndim else value
    if kind < 0.17:
        return value[:0]
    if kind < 0.30 and value.ndim:
        length = max(0, len(value) + int(rng.integers(-3, 4)))
        more = np.concatenate([value] * (1 + length // max(1, len(value))))[:MOST_ITEMS] if len(value) else value
        return np.ascontiguousarray(more[:length])
    changed = value.copy()
    if changed.size == 0:
        return changed
    for _ in range(int(rng.integers(1, 4))):
        at = tuple(int(rng.integers(length)) for length in changed.shape)
        if changed.dtype.kind == "f":
            changed[at] = REALS[rng.integers(len(REALS))] if rng.random() < 0.7 else changed[at] * rng.normal()
        elif changed.dtype.kind == "b":
            changed[at] = not changed[at]
        else:
            near = int(changed[at]) + int(rng.integers(-3, 4))
            drawn = int(rng.choice(np.array(NUMBERS))) if rng.random() < 0.4 else near
            changed[at] = np.uint64(drawn % 2**64).astype(f"u{changed.dtype.itemsize}").view(changed.dtype)
    return changed


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Ends long calls of this thread after so many seconds."""
    flag = native.StopFlag()
    timer = threading.Timer(seconds, flag.set)
    timer.daemon = True
    flag.watch()
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        flag.unwatch()


def fuzz(calls: int, seed: int, units: tuple[str, ...] = UNITS, longest_s: float = LONGEST_S) -> dict[str, int]:
    """Make so many calls; how many returned, raised and were stopped.

    Raises:
        AssertionError: something else was raised; it names the call.
    """
    rng = np.random.default_rng(seed)
    table = [(unit, name, maker) for unit in units for name, maker in calls_of(unit).items()]
    ended = {"returned": 0, "refused": 0, "stopped": 0}
    for number in range(calls):
        unit, name, maker = table[rng.integers(len(table))]
        arguments = maker(rng)
        for _ in range(int(rng.integers(0, 4))):
            index = int(rng.integers(len(arguments))) if arguments else 0
            arguments = tuple(damaged(one, rng) if at == index else one for at, one in enumerate(arguments))
        try:
            with at_most(longest_s):
                function_named(unit, name)(*arguments)
            ended["returned"] += 1
        except FINE:
            ended["refused"] += 1
        except native.Stopped:
            ended["stopped"] += 1
        except Exception as error:
            raise AssertionError(f"{unit}.{name} (call {number} of seed {seed}): {error!r}, {arguments!r}") from error
    return ended


def main() -> int:
    """Fuzz, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unit", choices=UNITS, action="append")
    given = parser.parse_args()
    faulthandler.enable()
    print(fuzz(given.calls, given.seed, tuple(given.unit or UNITS)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
