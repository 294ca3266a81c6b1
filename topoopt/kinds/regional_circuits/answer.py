"""What circuits of a region answer, in one sentence."""

from __future__ import annotations

from topoopt.core.regional_circuits_solution import RegionalCircuitsSolution
from topoopt.drawing.format import counted, ratio
from topoopt.drawing.sentences import rejection, room
from topoopt.kinds.regional_circuits.words import time_text


def answer(solution: RegionalCircuitsSolution) -> str:
    """Time of all steps, how often circuits are set anew, what one electrical switch would take, what is proven."""
    value, steps = solution.objective.value, len(solution.steps)
    times = counted(solution.switchings, "time")
    anew = f", circuits set anew {times}" if steps > 1 else ""
    beside = f"{ratio(value / solution.switch_s)} what one electrical switch of all interfaces takes at least"
    return rejection(solution.check) or (
        f"{counted(steps, 'step').capitalize()} of all-to-all traffic take {time_text(value)}{anew}: {beside}; "
        f"{room(solution, 'choice of circuits', 'faster')}."
    )
