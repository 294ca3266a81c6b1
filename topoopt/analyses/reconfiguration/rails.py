"""Switching inside the steps of a training job is swept over delays, with stages that lag and interfaces that fail."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from solvers.stop import Stop
from solvers.switching import RailSteps, switch_mode
from solvers.timing import LateError
from topoopt.analyses.reconfiguration.run import Progress, refuse_sweep, swept
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.outcomes import DelayPoint, ReconfigurationSweep, Scheme
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.process import versions
from topoopt.core.proofs import StopReason
from topoopt.core.switching import (
    EVERY_STAGE,
    Boundary,
    BoundaryFigures,
    ImpairedStep,
    PortUse,
    RailStudy,
    SwitchedStep,
    SwitchMode,
    SwitchSettings,
    action,
)
from topoopt.files.documents import parse_document
from topoopt.files.issues import Issue, parse_path
from topoopt.kinds.llm_training.words import ports_words
from topoopt.page.text import counted
from topoopt.simulate.switching import RailShares, failed_figures, follow, same_delay, straggler_figures
from topoopt.verify.llm_training.rail_steps import check_failed, check_straggler, check_switched

MODES: tuple[SwitchMode, ...] = get_args(SwitchMode)
"""What may be compared with a static topology."""

MODE_WORDS = {
    "on-demand": "circuits are asked for when something waits for them",
    "provisioned": "circuits are asked for as soon as those that they cut are idle",
}
"""What each does, for people."""

MOST_CHECKED = 300_000
"""Passes of all points of a sweep that the checker follows again; the step that is shown it follows always."""

HALVINGS = 50


def check_step(rails: RailSteps, step: SwitchedStep) -> tuple[str, ...]:
    """What the checker leaves out of a step.

    Raises:
        CheckError: it finds something wrong.
    """
    settings = replace(rails.settings, delay_s=step.delay_s)
    findings = check_switched(rails.problem, rails.strategy, settings, rails.job, step)
    if not findings.ok:
        raise CheckError("the checker rejects a step with switching:\n" + "\n".join(map(str, findings.violations)))
    return tuple(f"{figure.figure}: {figure.reason}" for figure in findings.not_recomputed)


def boundaries_of(rails: RailSteps, step: SwitchedStep, static_s: float) -> tuple[BoundaryFigures, ...]:
    """Windows, stalls and break-even delays of a step with its events."""
    counts = Counter(event.boundary for event in step.events if event.boundary is not None)
    shares = RailShares.of(rails.job, step.plan)

    def at(boundary: Boundary, delay_s: float) -> float:
        delays = {**same_delay(0.0), boundary: delay_s}
        return follow(rails.job, rails.orders, shares, step.plan, delays, step.mode).step_s

    boundaries = []
    for boundary in (event for event in get_args(Boundary) if counts[event]):
        free = at(boundary, 0.0)
        usual = Counter(
            action(event.before, event.after)
            for event in step.events
            if event.boundary == boundary and event.before is not None and event.after is not None
        )
        boundaries.append(
            BoundaryFigures(
                boundary,
                usual.most_common(1)[0][0],
                counts[boundary],
                _longest(lambda d, b=boundary, f=free: at(b, d) <= f * (1.0 + 1e-12), free),  # type: ignore[misc]
                at(boundary, step.delay_s) - free,
                _longest(lambda d, b=boundary: at(b, d) < static_s, 10.0 * max(free, step.delay_s)),  # type: ignore[misc]
            )
        )
    return tuple(boundaries)


def _longest(good: Callable[[float], bool], most: float) -> float:
    """The largest delay that is good, seconds, where all smaller ones are; infinite: `most` is."""
    if good(most):
        return math.inf
    low, high = 0.0, most
    if not good(low):
        return 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if good(middle) else (low, middle)
    return low if low > 1e-9 * most else 0.0


def rail_study(
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    settings: SwitchSettings,
    *,
    delays_ms: Sequence[float],
    schemes: Sequence[str] = MODES,
    slowdown: float = 1.0,
    failed: int = 0,
    stop: Stop | None = None,
    progress: Progress | None = None,
) -> tuple[ReconfigurationSweep, RailStudy]:
    """One strategy at every delay: on demand, provisioned, beside one static topology and the electrical network.

    Args:
        slowdown: above 1, the step of the instance is also followed with each stage so many times as slow.
        failed: above 0, also with so many interfaces of a server dead.

    Raises:
        InputError: an unknown scheme, no delay, no interface left, or the strategy cannot stand on rails.
        InfeasibleError: no plan of ports can do the step.
        CheckError: the checker finds something wrong.
    """
    refuse_sweep(delays_ms, schemes, MODES)
    stop, rails = stop or Stop(), RailSteps(problem, strategy, settings)
    delays, made = sorted(set(delays_ms)), dict[tuple[str, float], SwitchedStep]()
    static_s, static = rails.static(stop)

    def flat(name: str, words: str, value_s: float) -> Scheme:
        return Scheme(name, words, tuple(DelayPoint(delay, 1e3 * value_s, words, 0, 0.0) for delay in delays))

    def scheme(mode: SwitchMode) -> Scheme:
        def at(delay_ms: float) -> DelayPoint:
            if stop.reason() is not None:
                raise LateError
            if progress is not None:
                progress(mode, delay_ms)
            step = rails.switched(delay_ms / 1e3, mode, stop)
            made[mode, delay_ms] = step
            dark = step.switches * delay_ms / rails.job.ranks
            return DelayPoint(delay_ms, 1e3 * step.step_s, ports_words(step.plan), step.switches, dark)

        return swept(mode, MODE_WORDS[mode], at, delays, 1e3 * static_s)

    evaluated = [flat("one-shot", static, static_s)]
    evaluated += [flat("electrical", "every exchange at full rate", rails.electrical_s)]
    evaluated += [scheme(mode) for name in schemes for mode in MODES if mode == name]
    mode = switch_mode(settings)
    shown = rails.switched(settings.delay_s, mode, stop, events=True)
    steps = tuple(made[name, delay] for name in schemes for delay in delays if (name, delay) in made)
    late, checked = stragglers(rails, shown, slowdown, MOST_CHECKED)
    broken, said = failed_interfaces(rails, shown, failed, MOST_CHECKED)
    gbps, boundaries = rails.job.circuit_share * problem.cluster.gpu_gbps, boundaries_of(rails, shown, static_s)
    study = RailStudy(
        *(settings.ports, gbps, rails.electrical_s, static_s, static, steps, shown),
        *(boundaries, slowdown, late, failed, broken),
    )
    sweep = ReconfigurationSweep(
        name=problem.name,
        servers=problem.cluster.servers,
        degree=settings.ports * problem.cluster.gpus_per_server,
        link_gbps=study.circuit_gbps,
        schemes=tuple(evaluated),
        strategies=(),
        stopped_by=stop.reason() or StopReason.CONVERGED,
        seed=problem.search.seed,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=(*_checked(rails, steps, shown), *checked, *said, *_assumed(rails)),
    )
    return sweep, study


def _checked(rails: RailSteps, steps: Sequence[SwitchedStep], shown: SwitchedStep) -> list[str]:
    """Have the checker follow the steps again; what it did not."""
    events_per_step = 8 * rails.job.ranks * rails.job.micro_batches * rails.job.chunks
    limit = MOST_CHECKED // events_per_step
    left = {text for step in (shown, *steps[:limit]) for text in check_step(rails, step)}
    notes = [f"checked again: {1 + min(limit, len(steps))} of {counted(1 + len(steps), 'step')}"]
    return notes + [f"not checked: {text}" for text in sorted(left)]


def _assumed(rails: RailSteps) -> list[str]:
    job = rails.job
    notes = [
        f"{job.ports} ports of a GPU on its rail; circuits of {job.circuit_share * rails.problem.cluster.gpu_gbps:g} "
        "Gbit/s each direction; replicas run in step",
        "windows come from the time model: stages that lag behind move them (--straggler)",
    ]
    if job.exchange is not None and job.inside is PortUse.EXPERT:
        notes.append("tokens go to all servers of a group alike")
    return notes


def failed_interfaces(
    rails: RailSteps, step: SwitchedStep, failed: int, most_checked: int
) -> tuple[tuple[ImpairedStep, ...], list[str]]:
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
        raise InputError([Problem(text, path="--set failed", value=str(failed), allowed=f"0 to {gpus - 1}")])
    left = (gpus - failed) / gpus
    places = (EVERY_STAGE, *range(job.ranks))
    figures = tuple(failed_figures(job, rails.orders, step, rank, left) for rank in places)
    checked = _checked_again(
        rails, figures, lambda worst: check_failed(job, step, gpus, failed, worst), most_checked, "after a failure"
    )
    assumed = "a GPU whose interface failed sends over those of the others in its server, through the network inside it"
    return figures, [assumed, f"failures checked again: {checked}"]


def _checked_again(
    rails: RailSteps,
    figures: Sequence[ImpairedStep],
    check: Callable[[ImpairedStep], tuple[str, ...]],
    most_checked: int,
    what: str,
) -> str:
    """How many figures the checker followed again, the worst first."""
    limit = max(1, most_checked // (8 * rails.job.ranks * rails.job.micro_batches * rails.job.chunks))
    worst = sorted(figures, key=lambda rank_figures: -rank_figures.step_s)[:limit]
    if wrong := [line for rank_figures in worst for line in check(rank_figures)]:
        raise CheckError(f"the checker rejects a step {what}:\n" + "\n".join(wrong))
    return f"{len(worst)} of {len(figures)}"


def stragglers(
    rails: RailSteps, step: SwitchedStep, slowdown: float, most_checked: int
) -> tuple[tuple[ImpairedStep, ...], list[str]]:
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
    figures = tuple(straggler_figures(job, rails.orders, step, rank, slowdown) for rank in range(job.ranks))
    checked = _checked_again(
        rails, figures, lambda worst: check_straggler(job, step, slowdown, worst), most_checked, "with a slow stage"
    )
    return figures, [f"slow stages checked again: {checked}"]


USUAL = SwitchSettings(0.010)
"""Of an instance without a section: a MEMS switch, circuits provisioned."""


def rails_of(
    instance: Path,
    problem: LlmTrainingProblem,
    strategy: ParallelStrategy,
    schemes: Sequence[str] | None,
    delays_ms: Sequence[float],
    slowdown: float,
    failed: int,
    stop: Stop,
    progress: Progress,
) -> tuple[ReconfigurationSweep, RailStudy]:
    """Sweep and study of a strategy.

    Raises:
        InputError: it cannot stand on rails; the fault is placed in the file of the instance.
    """
    settings, names = problem.switching or USUAL, MODES if schemes is None else tuple(schemes)
    try:
        return rail_study(
            problem,
            strategy,
            settings,
            delays_ms=delays_ms,
            schemes=names,
            slowdown=slowdown,
            failed=failed,
            stop=stop,
            progress=progress,
        )
    except InputError as error:
        raise placed(instance, error) from None


def placed(instance: Path, error: InputError) -> InputError:
    """What is wrong with a strategy on rails, by the places of an instance file."""
    document, problems = parse_document(instance), []
    for problem in error.problems:
        path = parse_path(problem.path or "")
        inside = hasattr(ParallelStrategy(), str(path[0])) if path else False
        issue = Issue(("strategy", *path) if inside else path, problem.message, problem.value, problem.allowed)
        own = path[:1] in (("delays",), ("fabrics",)) or (problem.path or "").startswith("--")
        problems += [problem] if own else document.problems([issue])
    return InputError([replace(message) for message in problems])
