"""How a step on rails stands a stage that lags behind: each stage slow in turn, on the ports of the plan."""

from __future__ import annotations

from solvers.switching import RailSteps
from topoopt.core.errors import CheckError
from topoopt.core.switching import StragglerFigures, SwitchedStep
from topoopt.simulate.switching.straggler import straggler_figures
from topoopt.verify.llm_training.rail_steps import check_straggler


def stragglers(
    rails: RailSteps, step: SwitchedStep, slowdown: float, most_checked: int
) -> tuple[tuple[StragglerFigures, ...], list[str]]:
    """Figures of every stage, and a note how many the checker followed again: the worst first.

    Args:
        slowdown: passes of the slow stage take so many times as long; 1: none is slow, nothing is followed.
        most_checked: passes that the checker follows at most; the worst stage it follows always.

    Raises:
        CheckError: the checker finds something wrong.
    """
    if slowdown == 1.0:
        return (), []
    job = rails.job
    found = tuple(straggler_figures(job, rails.known, step, rank, slowdown) for rank in range(job.ranks))
    room = max(1, most_checked // (8 * job.ranks * job.micro_batches * job.chunks))
    worst = sorted(found, key=lambda one: -one.step_s)[:room]
    wrong = [line for one in worst for line in check_straggler(job, step, slowdown, one)]
    if wrong:
        raise CheckError("the checker rejects a step with a slow stage:\n" + "\n".join(wrong))
    return found, [f"slow stages checked again: {len(worst)} of {len(found)}"]
