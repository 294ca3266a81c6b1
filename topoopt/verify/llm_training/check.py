"""The checker of language models in training: every time, byte and bound again, with code of its own."""

from __future__ import annotations

import itertools
from dataclasses import fields
from functools import partial

import numpy as np

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import IDEAL_SWITCH, PHOTONIC_RAILS, POD_CIRCUITS, FabricOutcome, StrategyFigures
from topoopt.core.llm_training_solution import LlmTrainingSolution, TrainingSetting
from topoopt.core.parallelism import RANK_ORDERS, ParallelStrategy
from topoopt.core.proofs import Argument
from topoopt.core.verdict import Status, StopReason, Tolerance, beats, meets
from topoopt.verify.laws.bounds import check_claim, check_stated
from topoopt.verify.laws.findings import CheckFindings, ViolationLog, check_identity, differs
from topoopt.verify.llm_training.divisions import layers_of, row_in
from topoopt.verify.llm_training.drawn_links import check_drawn_links
from topoopt.verify.llm_training.fabric_bound import proven_bound
from topoopt.verify.llm_training.iteration import given_rates
from topoopt.verify.llm_training.lines import check_lines, shape_of
from topoopt.verify.llm_training.model_sizes import model_flops
from topoopt.verify.llm_training.network import check_network
from topoopt.verify.llm_training.pod_plan import check_pods
from topoopt.verify.llm_training.space import BALANCED, orders_of, records_of, row_of, shapes_of, strategies_of
from topoopt.verify.llm_training.stage_times import check_stages
from topoopt.verify.llm_training.step import Recomputed, recomputed
from topoopt.verify.llm_training.switching.solution import check_rails, rails_bound
from topoopt.verify.llm_training.transfers import ideal_rates

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
        findings.guard("fabrics", "the fabrics", lambda: _check_fabrics(findings, problem, solution))
        findings.guard("fabrics", "drawn links", lambda: check_drawn_links(findings, problem, solution))
        findings.guard("certificate", "the certificate", lambda: _check_certificate(findings, problem, solution))
    return findings.findings()


def _check_identity(findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> None:
    check_identity(findings, problem, solution)
    cluster, batch = problem.cluster, problem.batch
    due = TrainingSetting(
        problem.model.name, problem.model.layers, cluster.servers, cluster.gpus_per_server, cluster.device,
        batch.sequences, batch.length, problem.usable_bytes,
    )  # fmt: skip
    for part in fields(due):
        findings.hold("setting", (part.name, getattr(solution.setting, part.name), getattr(due, part.name)))
    if (solution.objective.name, solution.objective.unit) != ("iteration_time", "s"):
        findings.add("objective", f"{solution.objective.name} in {solution.objective.unit}, iteration_time in s is due")


def _check_strategies(findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> None:
    """Each is of the space, and stands once in its list."""
    shapes = set(shapes_of(problem))
    lists = {"ranked": [one.strategy for one in solution.ranked]}
    for place, fabric in enumerate(solution.fabrics):
        lists[f"fabrics[{place}]"] = [fabric.plan.strategy, *(one.strategy for one in fabric.next)]
        if fabric.pods is not None:
            lists[f"fabrics[{place}].pods"] = [one.strategy for one in fabric.pods.tried]
    for where, strategies in lists.items():
        seen = set()
        for place, one in enumerate(strategies):
            wrong = _outside(problem, one)
            if not wrong:
                rows = strategies_of(problem, shape_of(one)) if shape_of(one) in shapes else None
                known = rows is not None and bool((rows == np.array(row_in(problem, one))).all(axis=1).any())
                wrong = "" if known else "is none of the space"
            if one in seen:
                wrong = "stands twice"
            seen.add(one)
            if wrong:
                findings.add("strategy", f"{where}: strategy {place} {wrong}")


def _outside(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> str:
    """What is wrong with the layers of its chunks or its order."""
    p, v = strategy.pipeline, strategy.chunks
    if len(strategy.stage_layers) != p * v or sum(strategy.stage_layers) != problem.model.layers:
        return "does not have all layers on all chunks"
    own = [strategy.stage_layers[rank::p] for rank in range(p)]
    if any(max(chunks) - min(chunks) > 1 for chunks in own):
        return "has chunks of a rank that differ by more than a layer"
    due = [sorted(chunks) for chunks in own]
    if p > 1:
        due[-1] = [*due[-1][1:], due[-1][0]]
    between = [sum(chunks) for chunks in own[1:-1]]
    balanced = row_in(problem, strategy)[-2] == BALANCED
    if due != [list(chunks) for chunks in own] or (not balanced and between != sorted(between, reverse=True)):
        return "has its long chunks at other turns than all ranks"
    if balanced and strategy.stage_layers != _balanced(problem, strategy):
        return f"has layers {' '.join(map(str, strategy.stage_layers))}, which are not balanced"
    if RANK_ORDERS.index(strategy.order) not in orders_of(problem, shape_of(strategy)):
        return "has another order of ranks"
    return ""


def _balanced(problem: LlmTrainingProblem, strategy: ParallelStrategy) -> tuple[int, ...]:
    due = layers_of(problem, records_of([row_in(problem, strategy)]), strategy.pipeline, strategy.chunks)
    return tuple(int(one) for one in due[:, 0])


def _check_figures(findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> None:
    own = solution.ranked
    due = recomputed(problem, [one.strategy for one in own])
    usable = problem.cluster.usable_bytes
    for place, one in enumerate(own):
        _check_step(findings, f"strategy {place}", one, due, place)
        if usable is not None and float(due.bytes[place]) > usable:
            findings.add("memory", f"strategy {place} takes {float(due.bytes[place])!r} bytes of {usable}")
    times = [float(due.total[place]) for place in range(len(own))]
    if any(beats(later, earlier, Tolerance.ROUNDING) for earlier, later in itertools.pairwise(times)):
        findings.add("order", "strategies are not in the order of their times")
    sent = recomputed(problem, [solution.plan.strategy]).sent
    flops = model_flops(problem.model, problem.batch.length) * problem.batch.tokens
    device, eight = problem.device, problem.formats.fp8
    peak = 1e12 * (device.fp8_tflops if eight and device.fp8_tflops is not None else device.matrix_tflops)
    for name, stated, value in (
        ("model_flops", solution.model_flops, flops),
        ("peak_flops", solution.peak_flops, peak),
        *((name, dict(solution.sent_bytes).get(name), float(part[0])) for name, part in sent.items()),
    ):
        if stated is None or differs(stated, value, RELATIVE):
            findings.add("figure", f"{name} is {stated!r}, {value!r} is due")
    if len(solution.sent_bytes) != len(sent):
        findings.add("figure", "bytes are sent in a dimension that there is not")


def _check_fabrics(findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> None:
    """Each network, its rates, and what an iteration takes at these; the objective is the time on the first."""
    names = tuple(one.fabric for one in solution.fabrics)
    if names != problem.fabrics[: len(names)] or (
        names != problem.fabrics and solution.stopped_by is StopReason.CONVERGED
    ):
        findings.add("fabrics", f"the fabrics are {', '.join(names)}, not {', '.join(problem.fabrics)}")
    for place, one in enumerate(solution.fabrics):
        records = records_of([row_of(one.plan.strategy)])
        ideal, rails, pods = (one.fabric == name for name in (IDEAL_SWITCH, PHOTONIC_RAILS, POD_CIRCUITS))
        known = ideal or rails or pods
        rates = ideal_rates(problem, records) if known else check_network(findings, problem, one)
        if rates is None:
            continue
        if ideal:
            _check_ideal(findings, solution, one)
        if rails:
            check_rails(findings, problem, solution, one)
        elif one.rails is not None:
            findings.add("rails", f"ports of rails on {one.fabric}")
        if pods:
            check_pods(findings, problem, solution, one)
        elif one.pods is not None:
            findings.add("pods", f"circuits between pods on {one.fabric}")
        due = recomputed(problem, [one.plan.strategy], partial(given_rates, rates))
        figures = StrategyFigures(one.plan.strategy, one.breakdown, one.memory)
        _check_step(findings, f"the plan on {one.fabric}", figures, due, 0)
        if problem.cluster.usable_bytes is not None and float(due.bytes[0]) > problem.cluster.usable_bytes:
            findings.add("memory", f"the plan on {one.fabric} takes {float(due.bytes[0])!r} bytes")
        _check_next(findings, problem, one)
        if place == 0:
            check_stages(findings, problem, solution, rates)
            stated = (one.rails.step_s if one.rails else None, one.pods.makespan_s if one.pods else None)
            took = next((value for value in stated if value is not None), float(due.total[0]))
            if differs(solution.objective.value, took, RELATIVE):
                text = f"the iteration takes {took!r} s, not {solution.objective.value!r}"
                findings.add("objective", text)


def _check_ideal(findings: ViolationLog, solution: LlmTrainingSolution, one: FabricOutcome) -> None:
    """An ideal switch has the best of the strategies ranked, and no network of its own."""
    best, network = solution.ranked[0], one.plan.network
    if (one.plan.strategy, one.breakdown, one.memory) != (best.strategy, best.breakdown, best.memory):
        findings.add("plan", "the plan on an ideal switch is not the first of the strategies ranked, with its figures")
    if any(getattr(network, part.name) for part in fields(network) if part.name != "fabric"):
        findings.add("network", f"{IDEAL_SWITCH} has no links of its own")
    if one.note or one.tried or one.next:
        findings.add("fabrics", f"{IDEAL_SWITCH} needs no network")


def _check_step(findings: ViolationLog, where: str, one: StrategyFigures, due: Recomputed, place: int) -> None:
    """Every part of time and memory."""
    total = float(due.total[place])
    for holder, parts, scale in ((one.breakdown, due.seconds, total), (one.memory, due.memory, 0.0)):
        for part in fields(holder):
            stated, value = getattr(holder, part.name), float(parts[part.name][place])
            if not abs(stated - value) <= RELATIVE * max(abs(value), scale):
                findings.add("figure", f"{part.name} of {where} is {stated!r}, {value!r} is due")


def _check_next(findings: ViolationLog, problem: LlmTrainingProblem, one: FabricOutcome) -> None:
    """Strategies that were not chosen: memory anew, and no time below that on an ideal switch or that of the plan."""
    if len(one.next) > min(problem.top, one.tried):
        findings.add("fabrics", f"{len(one.next)} more strategies on {one.fabric} than were asked for or tried")
    if not one.next:
        return
    due = recomputed(problem, [other.strategy for other in one.next])
    times = [one.iteration_time_s, *(other.iteration_time_s for other in one.next)]
    if any(beats(later, earlier, Tolerance.ROUNDING) for earlier, later in itertools.pairwise(times)):
        findings.add("order", f"strategies on {one.fabric} are not in the order of their times")
    for place, other in enumerate(one.next):
        where = f"strategy {place} behind the plan on {one.fabric}"
        if beats(other.iteration_time_s, float(due.total[place]), Tolerance.ROUNDING):
            findings.add("figure", f"{where} is faster than on an ideal switch")
        for part in fields(other.memory):
            stated, value = getattr(other.memory, part.name), float(due.memory[part.name][place])
            if differs(stated, value, RELATIVE):
                findings.add("figure", f"{part.name} of {where} is {stated!r}, {value!r} is due")
        if problem.cluster.usable_bytes is not None and float(due.bytes[place]) > problem.cluster.usable_bytes:
            findings.add("memory", f"{where} takes {float(due.bytes[place])!r} bytes")
    findings.leave_out(f"times of the next best on {one.fabric}", "networks that were not chosen are not kept")


def _check_certificate(findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution) -> None:
    """Every line, and what the lines prove of each fabric."""
    _check_claims(findings, solution, check_lines(findings, problem, solution))


def _check_claims(findings: ViolationLog, solution: LlmTrainingSolution, hopped: float) -> None:
    """Bounds and status, by lines that hold.

    Args:
        hopped: the fastest of the searched shapes where tokens take the hops that direct links need.
    """
    value, bound = solution.objective.value, solution.bound

    def proven(one: FabricOutcome) -> float:
        if one.rails is not None:
            return rails_bound(one.rails, solution.ranked, solution.shapes)
        if one.pods is not None:
            return one.pods.bound_s
        return proven_bound(solution, one.fabric, one.iteration_time_s, hopped)

    in_pods = solution.fabrics[0].pods is not None
    argument, rounding = (
        (Argument.POD_CIRCUITS, Tolerance.EVENTS) if in_pods else (Argument.ALL_SHAPES, Tolerance.ROUNDING)
    )
    check_stated(findings, bound, {argument: lambda: proven(solution.fabrics[0])}, value)
    check_claim(findings, solution, ())
    if beats(value, bound.value, rounding):
        findings.add("bound", f"{value!r} s is better than its bound {bound.value!r}")
    optimal = meets(value, bound.value, rounding)
    if (solution.status is Status.OPTIMAL) != optimal:
        findings.add("status", f"called {solution.status} with {value!r} and bound {bound.value!r}")
    for one, stated in zip(solution.fabrics[1:], solution.other_bounds_s, strict=True):
        due = proven(one)
        if differs(stated, due, RELATIVE):
            findings.add("bound", f"the bound on {one.fabric} is {stated!r}, {due!r} is due")
