"""How a step on rails stands interfaces that fail: of one server, in each stage in turn, and of all servers."""

from __future__ import annotations

from solvers.switching import RailSteps
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.switching import EVERY_STAGE, FailedFigures, SwitchedStep
from topoopt.simulate.switching.failed import failed_figures
from topoopt.verify.llm_training.rail_steps import check_failed


def failed_interfaces(
    rails: RailSteps, step: SwitchedStep, failed: int, most_checked: int
) -> tuple[tuple[FailedFigures, ...], list[str]]:
    """Figures of every place, and notes: what is assumed, how many the checker followed again (the worst first).

    Args:
        failed: interfaces of a server; 0: none, nothing is followed.
        most_checked: passes that the checker follows at most; the worst place it follows always.

    Raises:
        InputError: as many interfaces fail as a server has GPUs.
        CheckError: the checker finds something wrong.
    """
    if failed == 0:
        return (), []
    gpus, job = rails.problem.cluster.gpus_per_server, rails.job
    if failed >= gpus:
        text = "no interface of the server would be left"
        raise InputError([Problem(text, path="--failed", value=str(failed), allowed=f"0 to {gpus - 1}")])
    left = (gpus - failed) / gpus
    places = (EVERY_STAGE, *range(job.ranks))
    found = tuple(failed_figures(job, rails.known, step, rank, left) for rank in places)
    room = max(1, most_checked // (8 * job.ranks * job.micro_batches * job.chunks))
    worst = sorted(found, key=lambda one: -one.step_s)[:room]
    wrong = [line for one in worst for line in check_failed(job, step, gpus, failed, one)]
    if wrong:
        raise CheckError("the checker rejects a step after a failure:\n" + "\n".join(wrong))
    assumed = "a GPU whose interface failed sends over those of the others in its server, through the network inside it"
    return found, [assumed, f"failures checked again: {len(worst)} of {len(found)}"]
