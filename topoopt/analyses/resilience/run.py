"""A solution is struck by failures and outages, repaired or re-wired, and every repair is checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from solvers.failures.job import JobEvaluator, JobRewiring, Rewired, difference, unit_arcs
from solvers.failures.repairs import PlanTraffic
from solvers.failures.robust import NetworkEvaluator
from solvers.failures.training import RAIL_FABRICS, RailEvaluator, TrainingEvaluator, TrainingFailures, TrainingRewiring
from solvers.failures.worst import (
    FailureEvaluator,
    after,
    badness,
    check_count,
    check_failure,
    links_of,
    reach,
    sample_failures,
    single_links,
    single_planes,
    single_servers,
    worst_failure,
)
from solvers.stop import Stop, first_part
from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import CheckError, InfeasibleError, InputError, LimitError, Problem, raise_any, raise_rejected
from topoopt.core.job import CoOptimisation, JobPlan, Plan
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import DIRECT_FABRICS, IDEAL_SWITCH, PHOTONIC_RAILS, POD_CIRCUITS, SWITCHED_FABRICS
from topoopt.core.network import TopologyProblem
from topoopt.core.outcomes import (
    Failure,
    FailureOutcome,
    OutageRow,
    OutageStudy,
    Resilience,
    Rewiring,
    SampledFailures,
    WorstFailure,
)
from topoopt.core.proofs import Status, Tolerance
from topoopt.core.result import Result, SearchSettings
from topoopt.core.topology import Topology
from topoopt.kinds.kind import Effort
from topoopt.kinds.llm_training.figures import FabricFigures, LlmTrainingFigures
from topoopt.kinds.network import check as check_network
from topoopt.kinds.network.figures import NetworkFigures
from topoopt.kinds.network.methods import TOPOLOGY_METHODS
from topoopt.kinds.pipeline import judged
from topoopt.simulate.network import build_task_graph
from topoopt.verify.checker import BRIEF, Violation, ViolationLog, differs
from topoopt.verify.failures import (
    check_distances,
    check_repair,
    check_rerouted,
    check_rewiring,
    check_training_repair,
    copies_up,
    servers_exchanged,
)
from topoopt.verify.job.check import CHECKER
from topoopt.verify.job.plan import check_plan
from topoopt.verify.laws.networks import check_topology
from topoopt.verify.llm_training.check import check_llm_training
from topoopt.verify.network.checker import NetworkResult
from topoopt.workloads.cluster_draws import server_outages

RELAY_NOTE = (
    "A failed server is evaluated as one that forwards no longer: it computes, sends and receives as before. Should "
    "the whole server fail, the job stops until a spare is patched in its place by the circuits stated, and then takes "
    "the time it took before. Distances and disconnected pairs are those of the servers left."
)
DEMAND_NOTE = "Demand from and to failed servers goes with them; all other demand is routed anew."
PLANE_NOTE = "A failed optical switch takes one interface of every server: the arcs of its permutation."


@dataclass(frozen=True, eq=False)
class Subject:
    """A solution under study.

    Attributes:
        solution: whose failures are studied, with its instance.
        evaluator: of failures.
        objective, unit: of values.
        notes: what is assumed.
    """

    solution: Result[Any, Any]
    evaluator: FailureEvaluator[Any]
    objective: str
    unit: str
    notes: tuple[str, ...]

    def violations(self, failure: Failure) -> Sequence[Violation]:
        """What the checker says of the repair of a failure that was evaluated.

        Routes and rings are held against the laws, or distances alone where nothing can be repaired.
        """
        evaluator, (outcome, plan) = self.evaluator, self.evaluator.repair(failure)
        topology = evaluator.topology
        if isinstance(evaluator, TrainingFailures):
            repair = outcome, plan
            if plan is None:
                return check_training_repair(topology, outcome, {}, ())
            spine = isinstance(evaluator, RailEvaluator) and evaluator.spine
            rings = evaluator.reordered(repair)
            return check_training_repair(topology, outcome, evaluator.routes(repair), rings, spine=spine)
        if plan is None:
            findings = ViolationLog()
            check_distances(findings, topology, evaluator.outcome(failure))
            return findings.violations()
        if isinstance(evaluator, NetworkEvaluator):
            rest, routing = plan
            return check_rerouted(topology, evaluator.demand, outcome, rest, routing.flow, routing.certificate)
        figures = self.solution.figures
        return check_repair(
            topology, figures.demand, outcome, plan.routes, plan.rings, figures.cluster.link_bytes_per_ms
        )


def job_subject(solution: Result[CoOptimisation, JobPlan], instance: CoOptimisation) -> Subject:
    """The plan of a job, simulated after each failure.

    Raises:
        CheckError: the solution does not hold for the instance.
        InputError: AllReduces run on schedules.
    """
    raise_rejected(CHECKER(instance, solution, BRIEF).violations)
    solution = replace(solution, problem=instance)
    graph = build_task_graph(instance.cluster, instance.workload, solution.plan.strategy)
    plan, figures = solution.plan, solution.figures
    plan.require_rings("failures")
    traffic = PlanTraffic(plan.topology, plan.routes, plan.rings, figures.demand)
    evaluator = JobEvaluator(figures.cluster, traffic, graph)
    return Subject(solution, evaluator, "iteration_time", "ms", (RELAY_NOTE, PLANE_NOTE))


def network_subject(solution: NetworkResult, stop: Stop | None = None) -> Subject:
    """The routing of a demand.

    Raises:
        InputError: there are several demands, no instance, or links with rates of their own.
        CheckError: the solution does not hold for the instance, or its flow is none.
    """
    figures: NetworkFigures = solution.figures
    figures.one_demand()
    if figures.topology.rates is not None:
        text = "failures of links that have rates of their own are not known here"
        raise InputError([Problem(text, path="topology.rates", allowed="links of one rate")])
    raise_rejected(check_network(figures.problem, solution, BRIEF).violations)
    hops = figures.flow.by_hop is not None or solution.objective.name != "theta"
    limits = ("Limits and prices of hops are left out after a failure.",) if hops else ()
    evaluator = NetworkEvaluator(figures.topology, figures.problem.demand, figures.theta, stop)
    return Subject(solution, evaluator, "theta", "link capacity", (DEMAND_NOTE, PLANE_NOTE, *limits))


DIRECT_NOTE = (
    "A failed server is evaluated as one that forwards no longer: its GPUs are replaced by those of a spare, which the "
    "circuits stated patch in its place; then an iteration takes the time it took before, as it does where a cube of a "
    "torus is replaced whole. A failed interface is the failure of its link."
)
SWITCHED_NOTE = (
    "Nodes from {hosts} on are switches. A failed interface is the failure of its link. A failed server stops the job "
    "until a spare behind the same switches takes its place, and then changes nothing."
)
RAIL_NOTE = (
    "Switch i is all switches of rail i. A GPU whose interface leads nowhere sends over those of the others in its "
    "server, through the network inside it."
)


def training_subject(
    solution: Result[Any, Any], problem: LlmTrainingProblem | None, fabric: str | None = None
) -> Subject:
    """The plan on a fabric.

    Args:
        problem: None: as it stands in the solution.
        fabric: None: the first one on whose network anything is sent.

    Raises:
        InputError: there is no such fabric, no instance, or families reduce on schedules.
        CheckError: the solution does not hold for the instance.
    """
    if problem is not None:
        solution = replace(solution, problem=problem)
    if solution.problem is None:
        raise InputError([Problem("no instance stands in the solution", path="instance", allowed="its file")])
    problem = solution.problem
    raise_rejected(check_llm_training(problem, solution).violations)
    chosen = _plan_on(solution, fabric)
    if chosen.plan.network.schedules:
        text = "failures are followed where families reduce on rings"
        raise InputError([Problem(text, path="search.allreduce", allowed="rings")])
    evaluator: TrainingFailures
    if chosen.fabric in RAIL_FABRICS:
        evaluator = RailEvaluator(problem, chosen.plan)
    else:
        evaluator = TrainingEvaluator(problem, chosen.plan)
    if differs(evaluator.nominal, 1e3 * chosen.iteration_time_s, Tolerance.ROUNDING.relative):
        raise CheckError(f"the plan on {chosen.fabric} takes {evaluator.nominal!r} ms, another time stands in its file")
    notes = [f"The plan on {chosen.fabric}."]
    if chosen.fabric in DIRECT_FABRICS:
        notes.append(DIRECT_NOTE)
    else:
        notes.append(SWITCHED_NOTE.format(hosts=evaluator.topology.hosts))
        notes += [RAIL_NOTE] if chosen.fabric in RAIL_FABRICS else []
    return Subject(solution, evaluator, "iteration_time", "ms", tuple(notes))


def _plan_on(solution: Result[Any, Any], fabric: str | None) -> FabricFigures:
    """What failures are studied of.

    Raises:
        InputError: there is no such plan, or nothing in it that fails.
    """
    option = "fabrics" if fabric is None else "--fabric"
    figures: LlmTrainingFigures = solution.figures
    planned = {planned_fabric.fabric: planned_fabric for planned_fabric in figures.fabrics}
    if fabric is not None and fabric not in planned:
        raise InputError([Problem("no plan on this fabric", path=option, value=fabric, allowed=", ".join(planned))])
    chosen = [planned_fabric for planned_fabric in figures.fabrics if fabric in (None, planned_fabric.fabric)]
    real = [
        planned_fabric
        for planned_fabric in chosen
        if planned_fabric.fabric not in (IDEAL_SWITCH, PHOTONIC_RAILS, POD_CIRCUITS)
    ]
    others = ", ".join(name for name in (*DIRECT_FABRICS, *SWITCHED_FABRICS) if name != IDEAL_SWITCH)
    if not real and chosen[0].fabric == PHOTONIC_RAILS:
        text = "circuits that are set anew: topoopt reconfigure --failed says what dead interfaces do to a step"
        raise InputError([Problem(text, path=option, value=PHOTONIC_RAILS, allowed=f"a plan on one of {others}")])
    if not real and chosen[0].fabric == POD_CIRCUITS:
        text = "failures of circuits between pods are not followed"
        raise InputError([Problem(text, path=option, value=POD_CIRCUITS, allowed=f"a plan on one of {others}")])
    if not real:
        text = "an ideal switch stands for no devices that could fail, nothing fills it"
        raise InputError([Problem(text, path=option, value=IDEAL_SWITCH, allowed=f"a plan on one of {others}")])
    sending = [planned_fabric for planned_fabric in real if planned_fabric.loads]
    if not sending:
        text = "nothing leaves a server in this plan, so no failure of the network delays it"
        raise InputError([Problem(text, path=option, value=real[0].fabric, allowed="a plan that sends")])
    return sending[0]


EXACT_S = 60.0
"""Seconds for the joint program with kept links; then the portfolio's search stands in."""


def rewire(subject: Subject, failure: Failure, most: int, *, seed: int, stop: Stop) -> Rewiring | None:
    """The best re-wiring found that gives up at most `most` circuits; None if nothing delivers everything."""
    evaluator = subject.evaluator
    if isinstance(evaluator, NetworkEvaluator):
        return _network(subject.solution.name, evaluator, failure, most, seed, stop)
    if isinstance(evaluator, JobEvaluator):
        rewired: Rewired[Any] | None = JobRewiring(evaluator, failure, most, seed, stop).run()
    elif isinstance(evaluator, TrainingEvaluator):
        rewired = TrainingRewiring(evaluator, failure, most, stop).run()
    else:
        raise TypeError(f"no re-wiring of a {type(evaluator).__name__}: only links between servers are set anew")
    if rewired is None:
        return None
    before, exchange = evaluator.outcome(failure).value, rewired.exchange
    result = Rewiring(failure, exchange.removed, exchange.added, most, before, rewired.time_ms, rewired.method)
    whole = _whole(rewired.topology, rewired.time_ms)
    laws = list(check_rewiring(evaluator.topology, result, rewired.topology))
    if isinstance(evaluator, TrainingEvaluator):
        routes, rings = evaluator.routes(rewired.plan), evaluator.reordered(rewired.plan)
        laws += check_training_repair(rewired.topology, whole, routes, rings)
    else:
        findings, figures, instance = ViolationLog(), subject.solution.figures, subject.solution.figures.problem
        check_topology(findings, figures.cluster, rewired.topology)
        plan = Plan(subject.solution.plan.strategy, rewired.topology, rewired.plan.routes, rewired.plan.rings)
        laws = [*findings.violations(), *laws, *check_plan(instance.cluster, instance.workload, plan)]
        rate = figures.cluster.link_bytes_per_ms
        laws += check_repair(rewired.topology, figures.demand, whole, plan.routes, plan.rings, rate)
    return replace(result, violations=tuple(dict.fromkeys(str(law) for law in laws)))


def _whole(topology: Topology, value: float) -> FailureOutcome:
    """A network that nothing failed in."""
    far = reach(after(topology, Failure()))
    return FailureOutcome(Failure(), *far, 0, 0, 0, value, "re-wired")


def _network(
    name: str, evaluator: NetworkEvaluator, failure: Failure, most: int, seed: int, stop: Stop
) -> Rewiring | None:
    topology, demand = evaluator.topology, evaluator.demand
    left = Counter(links_of(topology)) - Counter(failure.links)
    gone = tuple(link for link in set(failure.links) if not left[link])
    problem = TopologyProblem(
        name=name,
        servers=topology.servers,
        degree=topology.degree,
        links=topology.links,
        demand=demand,
        forbidden=_pairs(gone, topology),
        kept=_pairs(tuple(left.elements()), topology),
        max_changed=most,
    )
    before = evaluator.outcome(failure).value
    rewired = _solved(problem, seed, stop)
    if (
        rewired is None
        or (before is not None and rewired.figures.theta >= before)
        or _again(rewired, failure, topology)
    ):
        return None if before is None else Rewiring(failure, (), (), most, before, before, "no re-wiring helps")
    exchange = difference(topology, failure, rewired.figures.topology)
    proven = rewired.bound.value if rewired.status is Status.OPTIMAL else None
    result = Rewiring(
        failure, exchange.removed, exchange.added, most, before, rewired.figures.theta, _method(rewired), proven
    )
    laws = check_rewiring(topology, result, rewired.figures.topology)
    broken = tuple(dict.fromkeys((*rewired.check.violations, *(str(law) for law in laws))))
    return replace(result, violations=broken)


def _method(result: NetworkResult) -> str:
    proof = "proven" if result.status is Status.OPTIMAL else "not proven"
    return f"{result.method} with kept links, {proof}"


def _again(result: NetworkResult, failure: Failure, topology: Topology) -> bool:
    """Whether a failed link with a surviving parallel one was set again, which the program cannot forbid."""
    return bool(set(difference(topology, failure, result.figures.topology).added) & set(failure.links))


def _pairs(links: Sequence[tuple[int, int]], topology: Topology) -> tuple[tuple[int, int], ...]:
    direction: LinkDirection = topology.links
    return tuple(sorted((int(a), int(b)) for a, b in unit_arcs(tuple(links), direction)))


def _solved(problem: TopologyProblem, seed: int, stop: Stop) -> NetworkResult | None:
    """By the exact methods where they are quick enough, else by the portfolio's search."""
    for method, share in (("auto", first_part(stop, 1.0, EXACT_S)), ("portfolio", stop)):
        try:
            effort = Effort(SearchSettings(seed=seed), share)
            outcome = TOPOLOGY_METHODS[method].run(problem, effort)
        except LimitError:
            continue
        except InfeasibleError:
            return None
        solution: NetworkResult = judged(problem, outcome, effort)
        return solution
    return None


Progress = Callable[[str, int, int | None], None]
"""Called with (what is done, failures evaluated of it, and of how many; None: nobody knows)."""


@dataclass(frozen=True)
class ResilienceQuestion:
    """What is asked.

    Attributes:
        links, servers: how many fail at once, beside all single ones.
        samples: random failures of several parts.
        seed: of samples and searches.
        failure: only this one, instead of all.
        rewire: circuits that may be given up to mend the worst single link failure, or `failure`; None: not asked.
    """

    links: int = 1
    servers: int = 1
    samples: int = 100
    seed: int = 0
    failure: Failure | None = None
    rewire: int | None = None


def study(
    subject: Subject, question: ResilienceQuestion, *, stop: Stop | None = None, progress: Progress | None = None
) -> Resilience:
    """Evaluate failures, and check every repair that is reported.

    Raises:
        InputError: a failure of what does not exist, or more failures than parts.
        LimitError: a limit came before anything was evaluated.
    """
    return _Study(subject, question, stop or Stop(), progress or (lambda phase, done, total: None)).run()


class _Study:
    def __init__(self, subject: Subject, question: ResilienceQuestion, stop: Stop, progress: Progress) -> None:
        self.subject, self.question, self.stop, self.progress = subject, question, stop, progress
        self.checked: dict[Failure, tuple[str, ...]] = {}
        self.complete = True
        self.evaluated: Counter[str] = Counter()

    def _step(self, phase: str, total: int | None = None) -> None:
        """One more failure of a phase is evaluated."""
        self.evaluated[phase] += 1
        self.progress(phase, self.evaluated[phase], total)

    def run(self) -> Resilience:
        question, evaluator = self.question, self.subject.evaluator
        self._refuse_bad()
        blank = Resilience(
            name=self.subject.solution.name,
            kind=self.subject.solution.kind,
            objective=self.subject.objective,
            unit=self.subject.unit,
            nominal=evaluator.nominal,
            notes=self.subject.notes,
            seed=question.seed,
        )
        result = self._one(blank, question.failure) if question.failure is not None else self._all(blank)
        reported = [*result.links, *result.servers, *result.planes, *(worst.outcome for worst in result.worst)]
        if not reported:
            raise LimitError("the limit came before any failure was evaluated")
        for outcome in (*reported, *(sample.worst for sample in result.sampled)):
            self._check(outcome.failure)
        violations = tuple(message for checked in self.checked.values() for message in checked)
        if question.rewire is not None:
            rewirings = self._rewired(result)
            result = replace(result, rewirings=rewirings)
            violations += tuple(message for rewiring in rewirings for message in rewiring.violations)
        return replace(result, violations=violations, checked=len(self.checked), complete=self.complete)

    def _refuse_bad(self) -> None:
        question, topology = self.question, self.subject.evaluator.topology
        problems: list[Problem] = []
        checks: list[Callable[[], None]] = []
        if question.failure is not None:
            failure = question.failure
            checks.append(lambda: check_failure(topology, failure))
            if question.rewire is not None and (failure.servers or failure.planes or not failure.links):
                text, allowed = "re-wiring mends failed links", "--link A-B beside --rewire"
                problems.append(Problem(text, path="--set rewire", value=failure.label, allowed=allowed))
        if question.rewire is not None and topology.packet_switches:
            text, allowed = "links to switches cannot be set to other servers", "a plan on links between servers"
            problems.append(Problem(text, path="--set rewire", value=str(question.rewire), allowed=allowed))
        checks.append(lambda: check_count(topology, "links", question.links))
        checks.append(lambda: check_count(topology, "servers", question.servers))
        for check in checks:
            try:
                check()
            except InputError as error:
                problems += error.problems
        raise_any(problems)

    def _rewired(self, result: Resilience) -> tuple[Rewiring, ...]:
        """After the failure asked for, or the worst one of each number of links."""
        question = self.question
        wanted = [worst.outcome.failure for worst in result.worst if worst.part == "links"]
        if question.failure is not None:
            wanted = [question.failure]
        rewirings = []
        for failure in wanted:
            if self.stop.reason() is not None:
                break
            self.progress(f"re-wiring after {failure.label}", 0, None)
            rewiring = rewire(self.subject, failure, question.rewire or 0, seed=question.seed, stop=self.stop)
            rewirings += [] if rewiring is None else [rewiring]
        return tuple(rewirings)

    def _one(self, blank: Resilience, failure: Failure) -> Resilience:
        outcome = self.subject.evaluator.outcome(failure)
        self._step(failure.label, 1)
        if failure.planes:
            return replace(blank, planes=(outcome,))
        if failure.servers and not failure.links:
            return replace(blank, servers=(outcome,))
        return replace(blank, links=(outcome,))

    def _all(self, blank: Resilience) -> Resilience:
        topology, question = self.subject.evaluator.topology, self.question
        links = self._outcomes("links", single_links(topology))
        servers = self._outcomes("servers", single_servers(topology)) if topology.servers > 2 else ()
        planes = self._outcomes("switches", single_planes(topology))
        worst = []
        for part, outcomes, every in (
            ("links", links, len(single_links(topology))),
            ("servers", servers, topology.hosts),
        ):
            if outcomes:
                done = len(outcomes) == every
                how = f"all {every} single failures" if done else f"{len(outcomes)} of {every} single failures"
                worst.append(WorstFailure(part, 1, max(outcomes, key=badness), done, how, len(outcomes)))
        sampled = []
        for part, count in (("links", question.links), ("servers", question.servers)):
            if count > 1 and self.stop.reason() is None:
                worst.append(self._worst(part, count))
                if question.samples:
                    sampled.append(self._sampled(part, count))
        self.complete = self.stop.reason() is None
        return replace(blank, links=links, servers=servers, planes=planes, worst=tuple(worst), sampled=tuple(sampled))

    def _worst(self, part: str, count: int) -> WorstFailure:
        question = self.question
        return worst_failure(
            self.subject.evaluator,
            part,
            count,
            seed=question.seed,
            stop=self.stop,
            step=lambda: self._step(f"worst {count} {part}"),
        )

    def _sampled(self, part: str, count: int) -> SampledFailures:
        question = self.question
        return sample_failures(
            self.subject.evaluator,
            part,
            count,
            question.samples,
            seed=question.seed,
            stop=self.stop,
            step=lambda: self._step(f"{count} random {part}", question.samples),
        )

    def _outcomes(self, phase: str, failures: Sequence[Failure]) -> tuple[FailureOutcome, ...]:
        outcomes = []
        for failure in failures:
            if self.stop.reason() is not None:
                break
            outcomes.append(self.subject.evaluator.outcome(failure))
            self._check(failure)  # here, so that a time limit counts it
            self._step(f"failures of {phase}", len(failures))
        return tuple(outcomes)

    def _check(self, failure: Failure) -> None:
        if failure not in self.checked:
            violations = self.subject.violations(failure)
            self.checked[failure] = tuple(f"{violation.code}: {violation.message}" for violation in violations)


def copies_of(solution: Result[Any, Any]) -> tuple[int, int]:
    """Copies of the model in the plan of a solution, and servers that hold one.

    Raises:
        InputError: a server holds parts of several copies.
    """
    strategy, cluster = solution.plan.strategy, solution.figures.problem.cluster
    ranks = max(strategy.tensor * strategy.context, strategy.expert * strategy.expert_tensor) * strategy.pipeline
    if ranks % cluster.gpus_per_server:
        allowed = f"multiples of the {cluster.gpus_per_server} GPUs of a server"
        raise InputError([Problem("GPUs of a copy of the model share a server", value=str(ranks), allowed=allowed)])
    return strategy.gpus // ranks, ranks // cluster.gpus_per_server


def outage_study(solution: Result[Any, Any], spares: Sequence[int], days: int, seed: int) -> OutageStudy:
    """Draw days, and follow the copies of the model through them.

    Raises:
        InputError: the plan is not made of whole servers.
        CheckError: another count of the copies differs.
    """
    copies, servers_each = copies_of(solution)

    def down_of(number: int) -> Bools:
        return server_outages(copies * servers_each + number, days, np.random.default_rng(seed))

    cases = [(0, False), *((number, True) for number in spares)]
    rows = [
        _row(solution, copies, servers_each, down_of(number), number, circuits=circuits) for number, circuits in cases
    ]
    down = tuple(down_of(0).sum(axis=1).tolist())
    return OutageStudy(
        solution.name, copies, servers_each, seed, down, tuple(row for row, _ in rows), tuple(left for _, left in rows)
    )


def _row(
    solution: Result[Any, Any], copies: int, servers_each: int, down: Bools, spares: int, *, circuits: bool
) -> tuple[OutageRow, tuple[float, ...]]:
    up = _copies_up(down, copies, servers_each, circuits=circuits)
    exchanged = _exchanged(down, up * servers_each) if circuits else 0
    again = copies_up(down, copies, servers_each, circuits=circuits)
    if up.tolist() != again or (circuits and exchanged != servers_exchanged(down, again, servers_each)):
        raise CheckError("copies of the model that are up are counted otherwise by the checker")
    left: Floats = up / copies
    part = np.sort(left)
    p99 = float(part[int(0.01 * len(part))])
    step = solution.objective.value
    row = OutageRow(
        spares=spares,
        circuits=circuits,
        mean=float(part.mean()),
        p99=p99,
        worst=float(part[0]),
        whole_days=float((part >= 1.0).mean()),
        exchanged=exchanged / max(len(down) - 1, 1),
        p99_step_s=step / p99 if p99 else None,
        worst_step_s=step / float(part[0]) if part[0] else None,
    )
    return row, tuple(left.tolist())


def _exchanged(down: Bools, needed: Ints) -> int:
    """Servers that come in over all days but the first: those in use stay while they are up."""
    used, exchanged = np.zeros(down.shape[1], dtype=np.bool_), 0
    for day, count in enumerate(needed.tolist()):
        order = np.argsort(np.where(down[day], 2, np.where(used, 0, 1)), kind="stable")
        chosen = np.zeros_like(used)
        chosen[order[:count]] = True
        exchanged += int((chosen & ~used).sum()) if day else 0
        used = chosen
    return exchanged


def _copies_up(down: Bools, copies: int, servers_each: int, *, circuits: bool) -> Ints:
    """int64[days]."""
    if circuits:
        return np.asarray(np.minimum(copies, (~down).sum(axis=1) // servers_each), dtype=np.int64)
    own = down[:, : copies * servers_each].reshape(len(down), copies, servers_each)
    return np.asarray((~own.any(axis=2)).sum(axis=1), dtype=np.int64)
