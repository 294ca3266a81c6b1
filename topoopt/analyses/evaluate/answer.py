"""What an evaluation answers, in one sentence: the time of an iteration, the use of the peak, and whether it fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topoopt.core.arrays import GIB
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.drawing.format import counted, percent
from topoopt.kinds.llm_training.words import gib, seconds


def answer(problem: LlmTrainingProblem, document: Mapping[str, Any]) -> str:
    """Of the figures of one configuration."""
    usable = problem.usable_bytes
    memory = gib(document["memory_gib"]["total"] * GIB)
    if usable is None:
        room = f"the fullest GPU holds {memory}"
    elif document["fits"]:
        room = f"the fullest GPU holds {memory} of {gib(usable)}"
    else:
        room = f"but it does not fit: the fullest GPU would hold {memory} of {gib(usable)}"
    return (
        f"One iteration takes {seconds(document['iteration_time_s'])} on {counted(problem.cluster.gpus, 'GPU')}, "
        f"{percent(document['mfu'])} of the peak; {room}."
    )
