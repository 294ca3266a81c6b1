"""Identity of a document: the same content has the same hash, however it is written."""

from __future__ import annotations

import hashlib
import json


def canonical_json(document: object) -> str:
    """JSON with sorted keys, no blanks, ASCII only, shortest numbers that round-trip.

    Raises:
        ValueError: NaN or infinity in the document.
    """
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical_sha256(document: object) -> str:
    """SHA-256 of the canonical JSON, in hexadecimal."""
    return hashlib.sha256(canonical_json(document).encode("ascii")).hexdigest()
