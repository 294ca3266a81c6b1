"""What a placement answers, in one sentence: how long a step or micro-batch takes, and how much faster any could be."""

from __future__ import annotations

from topoopt.core.placement import Throughput
from topoopt.core.placement_solution import PlacementSolution
from topoopt.drawing.format import counted, milliseconds
from topoopt.drawing.sentences import rejection, room


def answer(solution: PlacementSolution) -> str:
    """The time between two micro-batches, or of one step, on so many devices."""
    used = len(set(solution.device.tolist()))
    on = f"on {used} of {counted(len(solution.devices), 'device')}"
    own = milliseconds(solution.objective.value)
    what = f"The pipeline finishes a micro-batch every {own}" if isinstance(solution.settings, Throughput) else (
        f"One step takes {own}"
    )  # fmt: skip
    return rejection(solution.check) or f"{what} {on}; {room(solution, 'placement on these devices', 'faster')}."
