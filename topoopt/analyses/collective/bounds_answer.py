"""What the bounds of a network answer, in one sentence: the rate that no schedule of a collective exceeds."""

from __future__ import annotations

from topoopt.analyses.collective.bounds import NetworkBounds
from topoopt.drawing.format import counted, precise


def bounds_answer(found: NetworkBounds, ranks: int, asked: str | None) -> str:
    """The bounds that were derived.

    Args:
        asked: collective that was asked for; None: all.
    """
    parts = []
    if asked in (None, "allgather", "reduce-scatter"):
        named = {"allgather": "AllGather", "reduce-scatter": "ReduceScatter"}.get(
            asked or "", "AllGather or ReduceScatter"
        )
        parts.append(f"{precise(float(found.allgather_rate))} GB/s for {named}")
    if found.allreduce_rate is not None:
        parts.append(f"{precise(float(found.allreduce_rate))} GB/s for AllReduce")
    if found.all_to_all_lambda is not None:
        parts.append(f"{precise(found.all_to_all_lambda)} GB/s for each ordered pair of an All-to-All")
    listed = parts[-1] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"No schedule over these {counted(ranks, 'rank')} exceeds {listed} (proven)."
