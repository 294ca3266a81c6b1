"""The checker of language models in training: every time, byte and bound again, with code of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial

from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import (
    IDEAL_SWITCH,
    PHOTONIC_RAILS,
    POD_CIRCUITS,
    FabricOutcome,
    StrategyFigures,
)
from topoopt.core.llm_training_solution import LlmTrainingSolution, TrainingSetting
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.solution import Decides
from topoopt.core.verdict import Tolerance, beats
from topoopt.verify.laws.findings import FULL, CheckDepth, CheckFindings, ViolationLog, check_identity, differs
from topoopt.verify.llm_training.claims import check_claims
from topoopt.verify.llm_training.drawn_links import check_drawn_links
from topoopt.verify.llm_training.iteration import given_rates
from topoopt.verify.llm_training.lines import check_lines
from topoopt.verify.llm_training.model_sizes import model_flops
from topoopt.verify.llm_training.network import check_network
from topoopt.verify.llm_training.pod_plan import check_pods
from topoopt.verify.llm_training.sizes import check_sizes
from topoopt.verify.llm_training.space import records_of, row_of
from topoopt.verify.llm_training.stage_times import check_stages
from topoopt.verify.llm_training.step import Recomputed, recomputed
from topoopt.verify.llm_training.strategies import check_strategies
from topoopt.verify.llm_training.switching.solution import check_rails
from topoopt.verify.llm_training.transfers import ideal_rates
from topoopt.verify.llm_training.work import WorkBudget, following_work, within_work

RELATIVE = Tolerance.ROUNDING.relative

ALONE, TIMES, RANK = 1000.0, 3.0, 10.0
"""Events for each strategy whose times are followed alone, how often these are, and each GPU whose groups are found."""


def check_llm_training(
    problem: LlmTrainingProblem, solution: LlmTrainingSolution, depth: CheckDepth = FULL
) -> CheckFindings:
    """All laws the plan breaks, all figures that are wrong, and every line of the certificate that proves nothing.

    Never raises, whatever stands in the solution; the instance is taken as valid.
    """
    findings = ViolationLog()
    findings.guard("identity", "the identity", lambda: _check_identity(findings, problem, solution))
    _Check(findings, problem, solution, WorkBudget(depth.events)).run()
    return findings.findings()


@dataclass
class _Check:
    """Parts of a check, each within the work that those before it left."""

    findings: ViolationLog
    problem: LlmTrainingProblem
    solution: LlmTrainingSolution
    budget: WorkBudget

    def run(self) -> None:
        """All parts; what is too large for the instance is refused before anything is gone through."""
        findings, problem, solution, budget = self.findings, self.problem, self.solution, self.budget
        self._part("size", "sizes", lambda: check_sizes(findings, problem, solution))
        if findings.clean:
            both = (Decides.VALUE, Decides.BOUND)
            self._part("strategy", "strategies", lambda: check_strategies(findings, problem, solution, budget), *both)
        if not findings.clean:
            return
        for place in range(len(solution.fabrics)):
            name = "the plan" if place == 0 else f"the plan on {solution.fabrics[place].fabric}"
            decides = (Decides.VALUE,) if place == 0 else ()
            self._part("fabrics", name, partial(_check_fabric, findings, problem, solution, place, budget), *decides)
        self._part("figures", "figures", lambda: _check_figures(findings, problem, solution, budget), Decides.BOUND)
        self._part("fabrics", "drawn links", lambda: check_drawn_links(findings, problem, solution))
        hopped: list[float] = []
        lines = partial(check_lines, findings, problem, solution, budget)
        self._part("certificate", "shapes", lambda: hopped.append(lines()), Decides.BOUND)
        self._part("certificate", "bounds", lambda: check_claims(findings, solution, hopped[0] if hopped else None))

    def _part(self, code: str, figure: str, check: Callable[[], None], *decides: Decides) -> None:
        within_work(self.findings, figure, lambda: self.findings.guard(code, figure, check), *decides)


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


def _check_figures(
    findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution, budget: WorkBudget
) -> None:
    own = solution.ranked
    _take(problem, [one.strategy for one in own], budget)
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


def _take(problem: LlmTrainingProblem, strategies: Sequence[ParallelStrategy], budget: WorkBudget) -> None:
    """What times of strategies take, each by itself, whose passes are followed with hops and without."""
    for one in strategies:
        budget.take(ALONE + TIMES * following_work(problem, records_of([row_of(one)])))


def _check_fabric(
    findings: ViolationLog, problem: LlmTrainingProblem, solution: LlmTrainingSolution, place: int, budget: WorkBudget
) -> None:
    """A network, its rates, and what an iteration takes at these; the objective is the time on the first."""
    one = solution.fabrics[place]
    strategy = one.plan.strategy
    records = records_of([row_of(strategy)])
    _take(problem, [strategy] * (1 + len(one.plan.network.loads)), budget)
    budget.take(RANK * problem.cluster.gpus)
    ideal, rails, pods = (one.fabric == name for name in (IDEAL_SWITCH, PHOTONIC_RAILS, POD_CIRCUITS))
    known = ideal or rails or pods
    rates = ideal_rates(problem, records) if known else check_network(findings, problem, one, budget)
    if rates is None:
        return
    if ideal:
        _check_ideal(findings, solution, one)
    if rails:
        check_rails(findings, problem, solution, one, budget)
    elif one.rails is not None:
        findings.add("rails", f"ports of rails on {one.fabric}")
    if pods:
        check_pods(findings, problem, solution, one, budget)
    elif one.pods is not None:
        findings.add("pods", f"circuits between pods on {one.fabric}")
    due = recomputed(problem, [strategy], partial(given_rates, rates))
    figures = StrategyFigures(strategy, one.breakdown, one.memory)
    _check_step(findings, f"the plan on {one.fabric}", figures, due, 0)
    if problem.cluster.usable_bytes is not None and float(due.bytes[0]) > problem.cluster.usable_bytes:
        findings.add("memory", f"the plan on {one.fabric} takes {float(due.bytes[0])!r} bytes")
    if place == 0:
        check_stages(findings, problem, solution, rates)
        stated = (one.rails.step_s if one.rails else None, one.pods.makespan_s if one.pods else None)
        took = next((value for value in stated if value is not None), float(due.total[0]))
        if differs(solution.objective.value, took, RELATIVE):
            text = f"the iteration takes {took!r} s, not {solution.objective.value!r}"
            findings.add("objective", text)
    within_work(findings, f"next on {one.fabric}", lambda: _check_next(findings, problem, one, budget))


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


def _check_next(findings: ViolationLog, problem: LlmTrainingProblem, one: FabricOutcome, budget: WorkBudget) -> None:
    """Strategies that were not chosen: memory anew, and no time below that on an ideal switch or that of the plan."""
    if not one.next:
        return
    _take(problem, [other.strategy for other in one.next], budget)
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
