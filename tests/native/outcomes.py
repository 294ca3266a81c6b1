"""What the native functions give for arguments that are drawn, as one number: the same wherever they are built."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from tests.native.fuzz import UNITS, calls_of, function_named

DRAWS = 20


def _add(digest: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        digest.update(repr((value.dtype.str, value.shape)).encode() + value.tobytes())
    elif isinstance(value, tuple | list):
        digest.update(str(len(value)).encode())
        for part in value:
            _add(digest, part)
    elif value is None or isinstance(value, bool | int | float | str):
        digest.update(repr(value).encode())


def digest() -> str:
    """SHA-256 over the results, and over arguments that are written."""
    rng, total = np.random.default_rng(7), hashlib.sha256()
    for unit in UNITS:
        for name, maker in sorted(calls_of(unit).items()):
            for _ in range(DRAWS):
                arguments = maker(rng)
                total.update(f"{unit}.{name}".encode())
                _add(total, function_named(unit, name)(*arguments))
                _add(total, arguments)
    return total.hexdigest()
