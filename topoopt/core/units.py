"""Units used throughout: milliseconds, bytes, bytes per millisecond; rates in files are Gbit/s (decimal)."""

from __future__ import annotations

import math
import re

BYTES_PER_MS_PER_GBPS = 125_000.0
"""1 Gbit/s = 10^9 / 8 / 1000 bytes per millisecond."""

NS_PER_S = 10**9

GIB = 1024**3
MIB = 1024**2
KIB = 1024


def bytes_per_ms(gbps: float) -> float:
    """Rate in bytes per millisecond of a rate in Gbit/s."""
    return gbps * BYTES_PER_MS_PER_GBPS


SIZES = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": KIB,
    "MiB": MIB,
    "GiB": GIB,
    "TiB": 1024 * GIB,
}
"""Bytes of the units of memory."""


def bytes_of(text: str) -> int | None:
    """Bytes of `4GiB`, `500 MB` or a plain number; None if it is none of these, or less than one byte."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*", text, re.ASCII)
    if match is None or match[2] not in SIZES:
        return None
    size = float(match[1]) * SIZES[match[2]]
    return int(size) if math.isfinite(size) and size >= 1 else None
