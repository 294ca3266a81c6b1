"""The checker of language models in training: every time, byte and bound again, with code of its own."""

from __future__ import annotations

import itertools
from dataclasses import fields

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem, StepBreakdown, TrainingMemory
from topoopt.core.llm_training_plan import IDEAL_SWITCH, StrategyShape
from topoopt.core.llm_training_solution import LlmTrainingSolution, TrainingSetting
from topoopt.core.parallelism import RANK_ORDER, ParallelStrategy
from topoopt.core.proofs import Argument
from topoopt.core.verdict import Status, StopReason, Tolerance, beats, meets
from topoopt.verify.laws.bounds import check_claim, check_stated
from topoopt.verify.laws.findings import CheckFindings, ViolationLog, check_identity, differs
from topoopt.verify.llm_training.lines import check_lines, proven_bound
from topoopt.verify.llm_training.model_sizes import model_flops
from topoopt.verify.llm_training.network import check_network
from topoopt.verify.llm_training.space import records_of, row_of, shapes_of, strategies_of
from topoopt.verify.llm_training.stage_times import check_stages
from topoopt.verify.llm_training.step import recomputed

RELATIVE = Tolerance.ROUNDING.relative


def check_llm_training(problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> CheckFindings:
    """All laws the plan breaks, all figures that are wrong, and every line of the certificate that proves nothing.

    Never raises, whatever stands in the solution; the instance is taken as valid.
    """
    findings = ViolationLog()
    findings.guard("identity", "the identity", lambda: _check_identity(findings, problem, solution))
    findings.guard("strategy", "the strategies", lambda: _check_strategies(findings, problem, solution))
    if findings.clean:
        findings.guard("figures", "the figures", lambda: _check_figures(findings, problem, solution))
        findings.guard("stages", "the stages", lambda: check_stages(findings, problem, solution))
        findings.guard("certificate", "the certificate", lambda: check_lines(findings, problem, solution))
        findings.guard("fabrics", "the fabrics", lambda: _check_fabrics(findings, problem, solution))
        findings.guard("bound", "the bound", lambda: _check_bound(findings, problem, solution))
    return findings.findings()


def _check_identity(findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> None:
    check_identity(findings, problem, solution)
    cluster, batch = problem.cluster, problem.batch
    due = TrainingSetting(
        problem.model.name, problem.model.layers, cluster.servers, cluster.gpus_per_server, cluster.device,
        batch.sequences, batch.length, cluster.usable_bytes, problem.time_model,
    )  # fmt: skip
    for part in fields(due):
        findings.hold("setting", (part.name, getattr(solution.setting, part.name), getattr(due, part.name)))
    if (solution.objective.name, solution.objective.unit) != ("iteration_time", "s"):
        findings.add("objective", f"{solution.objective.name} in {solution.objective.unit}, iteration_time in s is due")


def _check_strategies(findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> None:
    """Each is of the space, and stands once; the plan is the best of its fabric."""
    shapes, seen = set(shapes_of(problem)), set()
    for place, one in enumerate(solution.ranked):
        wrong = _outside(problem, one.strategy)
        if not wrong:
            rows = strategies_of(problem, _shape(one.strategy)) if _shape(one.strategy) in shapes else None
            known = rows is not None and bool((rows == np.array(row_of(one.strategy))).all(axis=1).any())
            wrong = "" if known else "is none of the space"
        if one.strategy in seen:
            wrong = "stands twice"
        seen.add(one.strategy)
        if wrong:
            findings.add("strategy", f"strategy {place} {wrong}")


def _shape(strategy: ParallelStrategy) -> StrategyShape:
    names = [part.name for part in fields(StrategyShape)]
    return StrategyShape(*(getattr(strategy, name) for name in names))


def _outside(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> str:
    """What is wrong with the layers of its chunks or its order."""
    p, v = strategy.pipeline, strategy.chunks
    if len(strategy.stage_layers) != p * v or sum(strategy.stage_layers) != problem.model.layers:
        return "does not have all layers on all chunks"
    own = [strategy.stage_layers[rank::p] for rank in range(p)]
    if any(max(chunks) - min(chunks) > 1 for chunks in own):
        return "has chunks of a rank that differ by more than a layer"
    spread = [sorted(chunks) for chunks in own[:-1]] + [sorted(own[-1], reverse=p > 1)]
    between = [sum(chunks) for chunks in own[1:-1]]
    if spread != [list(chunks) for chunks in own] or between != sorted(between, reverse=True):
        return "has its short chunks elsewhere than at the ends of the model"
    if strategy.order not in (problem.space.order or (RANK_ORDER,)):
        return "has another order of ranks"
    return ""


def _check_figures(findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> None:
    own = solution.ranked
    due = recomputed(problem, records_of([row_of(one.strategy) for one in own]))
    usable = problem.cluster.usable_bytes
    for place, one in enumerate(own):
        total = float(due.total[place])
        for part in fields(StepBreakdown):
            _figure(findings, place, part.name, getattr(one.breakdown, part.name), due.seconds[part.name][place], total)
        for part in fields(TrainingMemory):
            _figure(findings, place, part.name, getattr(one.memory, part.name), due.memory[part.name][place], 0.0)
        if usable is not None and float(due.bytes[place]) > usable:
            findings.add("memory", f"strategy {place} takes {float(due.bytes[place])!r} bytes of {usable}")
    times = [float(due.total[place]) for place in range(len(own))]
    if any(beats(later, earlier, Tolerance.ROUNDING) for earlier, later in itertools.pairwise(times)):
        findings.add("order", "strategies are not in the order of their times")
    if solution.plan.network.fabric == IDEAL_SWITCH:
        best = own[0]
        if (solution.plan.strategy, solution.breakdown, solution.memory) != (
            best.strategy,
            best.breakdown,
            best.memory,
        ):
            findings.add("plan", "the plan is not the first of the strategies ranked, with its figures")
        if differs(solution.objective.value, float(due.total[0]), RELATIVE):
            text = f"the iteration takes {float(due.total[0])!r} s, not {solution.objective.value!r}"
            findings.add("objective", text)
    flops = model_flops(problem.model, problem.batch.length) * problem.batch.tokens
    device, eight = problem.device, problem.formats.fp8
    peak = 1e12 * (device.fp8_tflops if eight and device.fp8_tflops is not None else device.matrix_tflops)
    for name, stated, value in (
        ("model_flops", solution.model_flops, flops),
        ("peak_flops", solution.peak_flops, peak),
        *((name, dict(solution.sent_bytes).get(name), float(part[0])) for name, part in due.sent.items()),
    ):
        if stated is None or differs(stated, value, RELATIVE):
            findings.add("figure", f"{name} is {stated!r}, {value!r} is due")
    if len(solution.sent_bytes) != len(due.sent):
        findings.add("figure", "bytes are sent in a dimension that there is not")


def _figure(findings: ViolationLog, place: int, name: str, stated: float, due: float, scale: float) -> None:
    if not abs(stated - due) <= RELATIVE * max(abs(due), scale):
        findings.add("figure", f"{name} of strategy {place} is {stated!r}, {float(due)!r} is due")


def _check_fabrics(findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> None:
    names = tuple(one.plan.network.fabric for one in solution.fabrics)
    if names != problem.fabrics[: len(names)] or (
        names != problem.fabrics and solution.stopped_by is StopReason.CONVERGED
    ):
        findings.add("fabrics", f"the fabrics are {', '.join(names)}, not {', '.join(problem.fabrics)}")
    for one in solution.fabrics:
        if one.plan.network.fabric != IDEAL_SWITCH:
            check_network(findings, problem, one)
            findings.leave_out(f"timeline on {one.plan.network.fabric}", "the order of its passes is not followed anew")
            continue
        rows = (
            ("plan", one.plan, solution.plan),
            ("bound_s", one.bound_s, solution.bound.value),
            ("iteration_time_s", one.iteration_time_s, solution.objective.value),
            ("memory_bytes", one.memory_bytes, solution.memory.total),
        )
        for name, stated, value in rows:
            if stated != value:
                findings.add("fabrics", f"{name} on {IDEAL_SWITCH} is {stated!r}, {value!r} is due")
        if one.note or one.timeline_s or one.tried:
            findings.add("fabrics", f"{IDEAL_SWITCH} needs no network")
    network = solution.plan.network
    if network.fabric == IDEAL_SWITCH and any(
        getattr(network, part.name) for part in fields(network) if part.name != "fabric"
    ):
        findings.add("network", f"{IDEAL_SWITCH} has no links of its own")


def _check_bound(findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> None:
    value = solution.objective.value
    check_stated(findings, solution.bound, {Argument.ALL_SHAPES: lambda: proven_bound(solution)}, value)
    check_claim(findings, solution, ())
    if beats(value, solution.bound.value, Tolerance.ROUNDING):
        findings.add("bound", f"{value!r} s is better than its bound {solution.bound.value!r}")
    optimal = meets(value, solution.bound.value, Tolerance.ROUNDING)
    if (solution.status is Status.OPTIMAL) != optimal:
        findings.add("status", f"called {solution.status} with {value!r} and bound {solution.bound.value!r}")
