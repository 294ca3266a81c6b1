"""The kind `llm-training`: how to spread a large language model over GPUs, and over which network."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from topoopt.core.llm_training_plan import LlmTrainingPlan
from topoopt.files.results import ResultFormat
from topoopt.kinds.kind import Kind, KindFiles, at_first_use, pages_of
from topoopt.kinds.llm_training.read import read_llm_training
from topoopt.kinds.llm_training.schema import LlmTrainingInstance
from topoopt.verify.checker import BRIEF, FULL, CheckDepth, CheckFindings

SOLUTION_FILE = ResultFormat("llm-training", LlmTrainingPlan, read_llm_training)


def check(problem: Any, result: Any, depth: CheckDepth) -> CheckFindings:
    """A quick check is as long as a brief one of other kinds; a brief one is whole, and no longer than the search."""
    from topoopt.verify.llm_training.check import check_llm_training

    events = {0: BRIEF.events, BRIEF.events: FULL.events}.get(depth.events, depth.events)
    return check_llm_training(problem, result, replace(depth, events=events))


RECORDS = (
    Kind(
        name="llm-training",
        files=KindFiles(LlmTrainingInstance, read_llm_training, "topoopt.kinds.llm_training"),
        check=check,
        solver=at_first_use("topoopt.kinds.llm_training.methods", "SOLVER"),
        figures_class=at_first_use("topoopt.kinds.llm_training.figures", "LlmTrainingFigures"),
        pages=pages_of(at_first_use("topoopt.kinds.llm_training.page", "page")),
        format_2="times of training come from a new time model, by which no figure and no proof of this file holds",
        explain=at_first_use("topoopt.kinds.llm_training.methods", "explain"),
    ),
)
