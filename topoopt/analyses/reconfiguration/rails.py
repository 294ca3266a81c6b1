"""Switching inside the steps of a training job swept over delays: on demand, provisioned, and never."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from solvers.stop import Stop
from solvers.switching import RailSteps
from topoopt.analyses.reconfiguration.failed_interfaces import failed_interfaces
from topoopt.analyses.reconfiguration.job import OutOfTimeError, Progress
from topoopt.analyses.reconfiguration.run import swept
from topoopt.analyses.reconfiguration.stragglers import stragglers
from topoopt.core.comparison import DelayPoint, ReconfigurationSweep, Scheme
from topoopt.core.errors import CheckError, InputError, Problem
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.process import versions
from topoopt.core.proofs import StopReason
from topoopt.core.switching import (
    Boundary,
    BoundaryFigures,
    PortUse,
    RailStudy,
    SwitchedStep,
    SwitchMode,
    SwitchSettings,
    action,
)
from topoopt.drawing.format import counted
from topoopt.kinds.llm_training.words import ports_words
from topoopt.simulate.switching import Delays, RailShares, follow
from topoopt.verify.llm_training.rail_steps import check_switched

MODES = tuple(mode.value for mode in SwitchMode)
"""What may be compared with a static topology."""

MODE_WORDS = {
    SwitchMode.ON_DEMAND: "circuits are asked for when something waits for them",
    SwitchMode.PROVISIONED: "circuits are asked for as soon as those that they cut are idle",
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
        lines = "\n".join(map(str, findings.violations))
        raise CheckError("the checker rejects a step with switching:\n" + lines)
    return tuple(f"{one.figure}: {one.reason}" for one in findings.not_recomputed)


def boundaries_of(rails: RailSteps, step: SwitchedStep, static_s: float) -> tuple[BoundaryFigures, ...]:
    """Windows, stalls and break-even delays of a step with its events."""
    counts = Counter(one.boundary for one in step.events if one.boundary is not None)
    shares = RailShares.of(rails.job, step.plan)

    def at(boundary: Boundary, delay_s: float) -> float:
        delays = Delays.only(boundary, delay_s)
        return follow(rails.job, rails.known, shares, step.plan, delays, step.mode).step_s

    found = []
    for boundary in (one for one in Boundary if counts[one]):
        free = at(boundary, 0.0)
        usual = Counter(
            action(one.before, one.after)
            for one in step.events
            if one.boundary is boundary and one.before is not None and one.after is not None
        )
        found.append(
            BoundaryFigures(
                boundary,
                usual.most_common(1)[0][0],
                counts[boundary],
                _longest(lambda d, b=boundary, f=free: at(b, d) <= f * (1.0 + 1e-12), free),  # type: ignore[misc]
                at(boundary, step.delay_s) - free,
                _longest(lambda d, b=boundary: at(b, d) < static_s, 10.0 * max(free, step.delay_s)),  # type: ignore[misc]
            )
        )
    return tuple(found)


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
    _refuse(delays_ms, schemes)
    stop, rails = stop or Stop(), RailSteps(problem, strategy, settings)
    delays = sorted(set(delays_ms))
    static_s, static = rails.static(stop)
    made: dict[tuple[str, float], SwitchedStep] = {}

    def flat(name: str, words: str, value_s: float) -> Scheme:
        return Scheme(name, words, tuple(DelayPoint(delay, 1e3 * value_s, words, 0, 0.0) for delay in delays))

    def scheme(mode: SwitchMode) -> Scheme:
        def at(delay_ms: float) -> DelayPoint:
            if stop.reason() is not None:
                raise OutOfTimeError
            if progress is not None:
                progress(mode.value, delay_ms)
            step = rails.switched(delay_ms / 1e3, mode, stop)
            made[mode.value, delay_ms] = step
            dark = step.switches * delay_ms / rails.job.ranks
            return DelayPoint(delay_ms, 1e3 * step.step_s, ports_words(step.plan), step.switches, dark)

        return swept(mode.value, MODE_WORDS[mode], at, delays, 1e3 * static_s)

    found = [flat("one-shot", static, static_s), flat("electrical", "every exchange at full rate", rails.electrical_s)]
    found += [scheme(SwitchMode(name)) for name in schemes]
    mode = SwitchMode.PROVISIONED if settings.provisioned else SwitchMode.ON_DEMAND
    shown = rails.switched(settings.delay_s, mode, stop, events=True)
    steps = tuple(made[name, delay] for name in schemes for delay in delays if (name, delay) in made)
    late, told = stragglers(rails, shown, slowdown, MOST_CHECKED)
    broken, said = failed_interfaces(rails, shown, failed, MOST_CHECKED)
    study = RailStudy(
        settings.ports,
        rails.job.circuit_share * problem.cluster.gpu_gbps,
        rails.electrical_s,
        static_s,
        static,
        steps,
        shown,
        boundaries_of(rails, shown, static_s),
        slowdown,
        late,
        failed,
        broken,
    )
    sweep = ReconfigurationSweep(
        name=problem.name,
        servers=problem.cluster.servers,
        degree=settings.ports * problem.cluster.gpus_per_server,
        link_gbps=study.circuit_gbps,
        schemes=tuple(found),
        strategies=(),
        stopped_by=stop.reason() or StopReason.CONVERGED,
        seed=problem.search.seed,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=(*_checked(rails, steps, shown), *told, *said, *_assumed(rails)),
    )
    return sweep, study


def _refuse(delays_ms: Sequence[float], schemes: Sequence[str]) -> None:
    problems = [Problem("no delay to sweep", path="delays")] if not delays_ms else []
    for delay in delays_ms:
        if not 0 <= delay < math.inf:
            allowed = "at least 0, finite"
            problems.append(Problem("bad reconfiguration delay", path="delays", value=str(delay), allowed=allowed))
    for name in schemes:
        if name not in MODES:
            problems.append(Problem("unknown scheme", path="fabrics", value=name, allowed=", ".join(MODES)))
    if problems:
        raise InputError(problems)


def _checked(rails: RailSteps, steps: Sequence[SwitchedStep], shown: SwitchedStep) -> list[str]:
    """Have the checker follow the steps again; what it did not."""
    each = 8 * rails.job.ranks * rails.job.micro_batches * rails.job.chunks
    room = MOST_CHECKED // each
    left = {text for step in (shown, *steps[:room]) for text in check_step(rails, step)}
    notes = [f"checked again: {1 + min(room, len(steps))} of {counted(1 + len(steps), 'step')}"]
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
