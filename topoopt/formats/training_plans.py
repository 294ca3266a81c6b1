"""Which plan of a language model in training is written."""

from __future__ import annotations

from typing import Any

from topoopt.core.llm_training_plan import FabricPlan
from topoopt.core.result import Result
from topoopt.formats.exporter import refuse


def plan_on(result: Result[Any, Any], fabric: str | None) -> FabricPlan:
    """Return the plan for a fabric; None: the first one, which is planned for.

    Raises
    ------
    InputError
        The result has none for it.
    """
    plans: dict[str, FabricPlan] = {plan.fabric: plan for plan in result.plan.fabrics}
    if fabric is None:
        return next(iter(plans.values()))
    if fabric not in plans:
        raise refuse("the solution has no plan for it", path="--fabric", value=fabric, allowed=", ".join(plans))
    return plans[fabric]
