"""Which plan of a language model in training is written."""

from __future__ import annotations

from topoopt.core.llm_training_plan import TrainingPlan
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.formats.exporter import refuse


def plan_on(solution: LlmTrainingSolution, fabric: str | None) -> TrainingPlan:
    """The plan of a fabric.

    Args:
        fabric: its name; None: that of the solution's own plan.

    Raises:
        InputError: the solution has none for it.
    """
    if fabric is None or fabric == solution.plan.network.fabric:
        return solution.plan
    known = {one.plan.network.fabric: one.plan for one in solution.fabrics}
    if fabric not in known:
        raise refuse("the solution has no plan for it", path="--fabric", value=fabric, allowed=", ".join(known))
    return known[fabric]
