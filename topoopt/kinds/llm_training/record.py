"""The kind `llm-training`."""

from __future__ import annotations

from topoopt.kinds.kind import Kind, KindFiles, at_any_depth, at_first_use
from topoopt.kinds.llm_training.read import read_llm_training
from topoopt.kinds.llm_training.schema import LlmTrainingFile
from topoopt.kinds.llm_training.solution_file import SOLUTION_FILE
from topoopt.verify.llm_training.check import check_llm_training

RECORDS = (
    Kind(
        name="llm-training",
        files=KindFiles(LlmTrainingFile, read_llm_training, SOLUTION_FILE),
        check=at_any_depth(check_llm_training),
        solver=at_first_use("topoopt.kinds.llm_training.solve", "SOLVER"),
        explain=at_first_use("topoopt.kinds.llm_training.explain", "explain"),
        pages=at_first_use("topoopt.kinds.llm_training.show", "PAGES"),
    ),
)
