"""Units used throughout: milliseconds, bytes, bytes per millisecond; rates in files are Gbit/s (decimal)."""

from __future__ import annotations

BYTES_PER_MS_PER_GBPS = 125_000.0
"""1 Gbit/s = 10^9 / 8 / 1000 bytes per millisecond."""

GIB = 1024**3
MIB = 1024**2
KIB = 1024


def bytes_per_ms(gbps: float) -> float:
    """Rate in bytes per millisecond of a rate in Gbit/s."""
    return gbps * BYTES_PER_MS_PER_GBPS
