"""Execution traces to instance documents of the kind `topology`, and what the kinds have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.formats.chakra.trace_content import TraceContent

BITS_PER_MS_OF_GBPS = 1e6


def compute_ns(content: TraceContent, peak_tflops: float | None) -> tuple[Floats, tuple[str, ...]]:
    """float64[n], compute time of every rank in nanoseconds, and what was assumed.

    Args:
        content: the traces.
        peak_tflops: rate at which compute nodes run that state operations instead of a time, 10^12 a second.
    """
    known = content.compute_us.astype(np.float64) * 1000.0
    if not content.operations.any():
        return known, ()
    total = f"{content.operations.max():.6g} operations on the busiest rank"
    if peak_tflops is None:
        return known, (f"compute nodes without a time ({total}) are not counted: --peak-tflops tells their rate",)
    added: Floats = known + content.operations / peak_tflops / 1000.0
    return added, (f"{total} at {peak_tflops:g} TFLOP/s",)


def servers_of(content: TraceContent, ranks_per_server: int) -> int:
    """Number of servers when consecutive ranks share one.

    Raises:
        InputError: the ranks do not fill whole servers, or fit in one.
    """
    n, rest = divmod(content.ranks, ranks_per_server)
    if rest or n < 2:
        allowed = f"a divisor of {content.ranks} less than it"
        raise InputError(
            [
                Problem(
                    "wrong number of ranks in a server",
                    path="--gpus-per-server",
                    value=str(ranks_per_server),
                    allowed=allowed,
                )
            ]
        )
    return n


def between_servers(matrix: Floats, servers: int) -> Floats:
    """float64[servers, servers]: bytes between ranks added up by server, without what stays inside."""
    size = len(matrix) // servers
    folded: Floats = matrix.reshape(servers, size, servers, size).sum(axis=(1, 3))
    np.fill_diagonal(folded, 0.0)
    return folded


def topology_document(name: str, traffic_bytes: Floats, *, degree: int, links: str, link_gbps: float) -> dict[str, Any]:
    """Instance of kind `topology`.

    Demand is in Gbit/s if the iteration took a millisecond (bytes x 8 / 10^6), so theta is the time in milliseconds
    that the busiest link needs for the traffic of one iteration.
    """
    return {
        "schema_version": 1,
        "kind": "topology",
        "name": name,
        "servers": len(traffic_bytes),
        "degree": degree,
        "links": links,
        "link_gbps": link_gbps,
        "demand": {"unit": "gbps", "matrix": (traffic_bytes * 8 / BITS_PER_MS_OF_GBPS).tolist()},
    }


ORDER_NOTE = "the order of the trace is not kept: the demand is that of a whole iteration"
THETA_NOTE = "theta is the time in ms the busiest link needs for one iteration (demand: Gbit/s if it took 1 ms)"
