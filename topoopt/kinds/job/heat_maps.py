"""Traffic heat maps: who sends how much to whom, by AllReduce rings and by model-parallel transfers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from topoopt.core.arrays import Floats
from topoopt.core.job_solution import JobSolution
from topoopt.core.ring_traffic import ring_pair_bytes
from topoopt.drawing.format import byte_size, counted
from topoopt.drawing.heat_map import MAX_CELLS, heat_map, in_blocks


def allreduce_bytes(solution: JobSolution) -> Floats:
    """float64[n, n]: bytes each ring member sends to the next one, whatever servers forward them on the way."""
    return ring_pair_bytes(solution.demand, solution.plan.rings, solution.cluster.servers)


def _ring_bytes(solution: JobSolution) -> Floats:
    """The same; nothing where some AllReduces run on schedules, as the demand does not say which bytes are on rings."""
    n = solution.cluster.servers
    return np.zeros((n, n)) if solution.plan.schedules else allreduce_bytes(solution)


@dataclass(frozen=True)
class HeatMap:
    """One heat map with the sentence under it; `figure` is empty when nothing is sent."""

    title: str
    figure: Markup
    text: str


def _panel(title: str, matrix: Floats, nothing: str) -> HeatMap:
    if not (matrix > 0).any():
        return HeatMap(title, Markup(""), nothing)
    n = len(matrix)
    busiest = int(np.argmax(matrix.sum(axis=1)))
    text = (
        f"{byte_size(float(matrix.sum()))} between {counted(int(np.count_nonzero(matrix)), 'ordered pair')} of "
        f"{n * (n - 1):,}; server {busiest} sends most, {byte_size(float(matrix[busiest].sum()))}."
    )
    if n > MAX_CELLS:
        text += f" A cell stands for {in_blocks(matrix)[1]} × {in_blocks(matrix)[1]} servers."
    return HeatMap(title, heat_map(matrix, title), text)


def traffic_panels(solution: JobSolution) -> tuple[HeatMap, HeatMap]:
    """AllReduce at ring level, and model-parallel."""
    nothing = "No AllReduce over the network."
    if solution.plan.schedules:
        nothing = "AllReduces run on schedules: what they put on the links stands with the links."
    return (
        _panel("AllReduce, from ring member to ring member", _ring_bytes(solution), nothing),
        _panel(
            "Model-parallel",
            solution.demand.model_parallel_bytes,
            "No model-parallel traffic: no operator reads what another server made.",
        ),
    )
