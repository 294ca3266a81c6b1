"""Solution files of language models in training."""

from __future__ import annotations

from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.files.faults import Fault, Path
from topoopt.files.group_schedule_part import group_schedule_faults
from topoopt.files.solution_format import SolutionFormat
from topoopt.kinds.llm_training.pods_schema import pods_faults
from topoopt.kinds.llm_training.solution_schema import LlmTrainingSolutionFile


def _faults(file: LlmTrainingSolutionFile) -> list[Fault]:
    """What the schema cannot state: tables of fitting length."""
    faults = []
    plan = file.fabrics[0].plan
    stages = plan.strategy.pipeline * plan.strategy.chunks
    for key in ("forward_s", "inputs_s", "weights_s"):
        count = len(getattr(file.stages, key))
        if count != stages:
            faults.append(Fault(("stages", key), "wrong number of stages", str(count), str(stages)))
    if not file.objective.value > 0:
        faults.append(Fault(("objective", "value"), "not above 0", str(file.objective.value)))
    strategy, setting = plan.strategy, file.setting
    if setting.sequences // (strategy.data * strategy.micro_batch) < 1:
        text = "more than the sequences of an iteration"
        faults.append(Fault(("fabrics", 0, "plan", "strategy", "micro_batch"), text, str(strategy.micro_batch)))
    for place, outcome in enumerate(file.fabrics):
        if outcome.pods is not None:
            faults += pods_faults(outcome.pods, ("fabrics", place, "pods"))
        for which, family in enumerate(outcome.plan.network.schedules):
            where: Path = ("fabrics", place, "plan", "network", "schedules", which, "schedules")
            faults += group_schedule_faults(family.schedules, setting.servers, where)
    if len(file.other_bounds_s) != len(file.fabrics) - 1:
        allowed = f"{len(file.fabrics) - 1}, one for each fabric after the first"
        faults.append(Fault(("other_bounds_s",), "wrong number", str(len(file.other_bounds_s)), allowed))
    return faults


SOLUTION_FILE: SolutionFormat[LlmTrainingSolution] = SolutionFormat(
    LlmTrainingSolutionFile, _faults, rows=("ranked", "shapes", "fabrics")
)
