"""The kind `llm-training`."""

from __future__ import annotations

from dataclasses import replace

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.kinds.kind import Kind, KindFiles, at_first_use
from topoopt.kinds.llm_training.read import read_llm_training
from topoopt.kinds.llm_training.schema import LlmTrainingFile
from topoopt.verify.laws.findings import BRIEF, FULL, CheckDepth, CheckFindings


def check(problem: LlmTrainingProblem, solution: LlmTrainingSolution, depth: CheckDepth) -> CheckFindings:
    """A quick check is as long as a brief one of other kinds; a brief one is whole, and no longer than the search."""
    from topoopt.verify.llm_training.check import check_llm_training

    events = {0: BRIEF.events, BRIEF.events: FULL.events}.get(depth.events, depth.events)
    return check_llm_training(problem, solution, replace(depth, events=events))


RECORDS = (
    Kind(
        name="llm-training",
        files=KindFiles(
            LlmTrainingFile,
            read_llm_training,
            "topoopt.kinds.llm_training.solution_file",
        ),
        check=check,
        solver=at_first_use("topoopt.kinds.llm_training.solve", "SOLVER"),
        explain=at_first_use("topoopt.kinds.llm_training.explain", "explain"),
        pages=at_first_use("topoopt.kinds.llm_training.show", "PAGES"),
    ),
)
