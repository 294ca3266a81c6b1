"""Seeds of parts of a run."""

from __future__ import annotations

import hashlib


def seed_for(seed: int, name: str) -> int:
    """A seed, below 2^63, of its own for each name: the same whatever else there is, and in whatever order."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1
