"""The system json of ASTRA-sim: one entry a dimension in every list."""

from __future__ import annotations

from typing import Any

ALGORITHMS = {
    "ring": ("ring", "ring"),
    "fully-connected": ("direct", "direct"),
    "switch": ("halvingDoubling", "direct"),
}
"""Algorithm of all-reduce, all-gather and reduce-scatter, and that of all-to-all, on each block."""

RING_ONLY = ("ring", "ring")


def algorithms(block: str, size: int) -> tuple[str, str]:
    """Algorithms on a dimension; halving-doubling needs a power of two, a ring serves any size."""
    reduce, exchange = ALGORITHMS[block]
    return ("ring", exchange) if reduce == "halvingDoubling" and size & (size - 1) else (reduce, exchange)


def system_document(chosen: list[tuple[str, str]]) -> dict[str, Any]:
    """System json for the algorithms of every dimension.

    Many chunks and `localBWAware` come closest to the model of the kind `hierarchical-bandwidth`, in which all
    dimensions work at once and every byte crosses each dimension once each way.
    """
    reduces, exchanges = [one for one, _ in chosen], [other for _, other in chosen]
    return {
        "scheduling-policy": "LIFO",
        "endpoint-delay": 10,
        "active-chunks-per-dimension": 2,
        "preferred-dataset-splits": 64,
        "all-reduce-implementation": reduces,
        "all-gather-implementation": reduces,
        "reduce-scatter-implementation": reduces,
        "all-to-all-implementation": exchanges,
        "collective-optimization": "localBWAware",
        "local-mem-bw": 1600,
        "boost-mode": 0,
        "roofline-enabled": 0,
        "peak-perf": 900,
    }
