"""What the traffic of a job answers, in one sentence: what forwarding adds, and how unevenly the links are loaded."""

from __future__ import annotations

from topoopt.core.routing import TrafficFigures
from topoopt.drawing.format import byte_size, percent, ratio


def answer(figures: TrafficFigures) -> str:
    """The bandwidth tax in words, and the fullest link beside the mean."""
    tax, loads = figures.bandwidth_tax, figures.link_bytes
    added = (
        "forwarding adds nothing" if tax <= 1 + 1e-9 else f"forwarding adds {percent(tax - 1)} to the bytes demanded"
    )
    if not len(loads) or loads.mean() <= 0:
        return "The job asks nothing of the links."
    fullest = byte_size(float(loads.max()))
    over = ratio(float(loads.max() / loads.mean()))
    return (
        f"The links carry {byte_size(float(loads.sum()))} in an iteration: {added}, and the fullest link carries "
        f"{fullest}, {over} the mean."
    )
