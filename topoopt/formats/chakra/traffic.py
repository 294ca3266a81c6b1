"""Bytes every rank sends to every other, of collectives as ASTRA-sim's native algorithms run them.

p ranks, s bytes (the shard of an all-gather); every rank sends

    collective       ring (to its successor)  direct (to each other)  halving-doubling (at distance 2^k, k < log2 p)
    all-reduce       2 (p-1)/p s              2 s/p                   2 s / 2^(k+1)
    reduce-scatter   (p-1)/p s                s/p                     s / 2^(k+1)
    all-gather       (p-1) s                  s                       s p / 2^(k+1)
    all-to-all       (p-1)/2 s (relayed)      s/p                     -
    broadcast        s along a chain          s from the root         s along a chain
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.errors import InputError, Problem
from topoopt.formats.chakra.content import CommType
from topoopt.formats.chakra.trace_content import CollectiveUse, TraceContent


class Algorithm(StrEnum):
    """How a collective is run."""

    RING = "ring"
    DIRECT = "direct"
    HALVING_DOUBLING = "halving-doubling"


SUPPORTED = (
    CommType.ALL_REDUCE,
    CommType.ALL_GATHER,
    CommType.REDUCE_SCATTER,
    CommType.REDUCE_SCATTER_BLOCK,
    CommType.ALL_TO_ALL,
    CommType.BROADCAST,
    CommType.BARRIER,
)


def refuse_unsupported(uses: Iterable[CollectiveUse], file: str) -> None:
    """Raise InputError for collectives whose bytes are not defined here."""
    other = sorted({use.collective for use in uses} - set(SUPPORTED))
    if other:
        named = ", ".join(kind.name for kind in other)
        allowed = ", ".join(kind.name for kind in SUPPORTED)
        raise InputError([Problem("these collectives are not supported", file, None, None, named, allowed)])


def _ring(kind: CommType, s: float, p: int) -> float:
    """Bytes to the successor."""
    if kind is CommType.ALL_TO_ALL:
        return (p - 1) / 2 * s
    return {CommType.ALL_REDUCE: 2 * (p - 1) * s / p, CommType.ALL_GATHER: (p - 1) * s}.get(kind, (p - 1) * s / p)


def _direct(kind: CommType, s: float, p: int) -> float:
    """Bytes to each other member."""
    return {CommType.ALL_REDUCE: 2 * s / p, CommType.ALL_GATHER: s}.get(kind, s / p)


def block(kind: CommType, size_bytes: float, p: int, algorithm: Algorithm) -> Floats:
    """float64[p, p]: bytes from member to member of one call.

    Raises:
        InputError: halving-doubling among a number of ranks that is no power of two.
    """
    out, here = np.zeros((p, p)), np.arange(p)
    if p == 1 or kind is CommType.BARRIER:
        return out
    if kind is CommType.BROADCAST:  # the root is the first member
        if algorithm is Algorithm.DIRECT:
            out[0, 1:] = size_bytes
        else:
            out[here[:-1], here[1:]] = size_bytes
        return out
    if algorithm is Algorithm.RING:
        out[here, (here + 1) % p] = _ring(kind, size_bytes, p)
    elif algorithm is Algorithm.DIRECT or kind is CommType.ALL_TO_ALL:
        out[:] = _direct(kind, size_bytes, p)
    else:
        if p & (p - 1):
            message = "halving-doubling needs groups of a power of two"
            raise InputError([Problem(message, path="--algorithm", value=f"a group of {p}", allowed="ring, direct")])
        whole = {CommType.ALL_REDUCE: 2 * size_bytes, CommType.ALL_GATHER: size_bytes * p}.get(kind, size_bytes)
        for k in range(p.bit_length() - 1):
            out[here, here ^ (1 << k)] = whole / 2 ** (k + 1)
    np.fill_diagonal(out, 0.0)
    return out


def traffic_matrix(
    content: TraceContent, algorithm: Algorithm = Algorithm.RING, all_to_all: Algorithm = Algorithm.DIRECT
) -> Floats:
    """float64[n, n]: bytes of one iteration from rank to rank; every rank's own calls count what it sends.

    Raises:
        InputError: as `block`.
    """
    demand = content.sent_bytes.astype(np.float64)
    for use in content.uses:
        chosen = all_to_all if use.collective is CommType.ALL_TO_ALL else algorithm
        members = np.array(use.members)
        sent = block(use.collective, float(use.size_bytes), len(members), chosen)
        demand[np.ix_(members, members)] += sent * np.array(use.calls)[:, None]
    return demand
