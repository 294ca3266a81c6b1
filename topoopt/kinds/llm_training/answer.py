"""How to train a language model, in one sentence: the strategy, its time, and what is proven of all others."""

from __future__ import annotations

from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.drawing.format import counted, percent
from topoopt.drawing.sentences import rejection, room
from topoopt.kinds.llm_training.pods_words import gain_words, pods_words
from topoopt.kinds.llm_training.words import fabric_name, seconds, strategy_words


def answer(solution: LlmTrainingSolution) -> str:
    """Strategy, time of an iteration and use of the peak, and how much faster another strategy could be."""
    setting, where = solution.setting, fabric_name(solution.plan.network.fabric)
    plan = solution.fabrics[0].pods
    over = f"on {where}" if plan is None else f"over {pods_words(plan)}; {gain_words(solution, plan)}"
    return rejection(solution.check) or (
        f"Train {setting.model} on {counted(setting.gpus, 'GPU')} with {strategy_words(solution.plan.strategy)}: "
        f"{seconds(solution.objective.value)} an iteration {over}, {percent(solution.mfu)} of the peak; "
        f"{room(solution, 'strategy of the space', 'faster')}."
    )
