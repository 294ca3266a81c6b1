"""Servers as text, `0-15,32`, and back."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Ints


def ranges_text(servers: Ints) -> str:
    """Ascending servers as `0-15,32`."""
    breaks = np.flatnonzero(np.diff(servers) != 1)
    low, high = servers[np.append(0, breaks + 1)], servers[np.append(breaks, -1)]
    ends = zip(low.tolist(), high.tolist(), strict=True)
    return ",".join(f"{first}-{last}" if first < last else str(first) for first, last in ends)


def servers_of_text(text: str) -> list[int]:
    """Inverse of `ranges_text`; ends beyond any cluster are cut so that no text makes a long list."""
    servers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = int(first[:9]), int((last or first)[:9])
        servers.extend(range(low, min(high, low + 100_000) + 1))
    return servers
