"""Re-wiring after a failure, with the checker's verdict on the network and the plan that come out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from solvers.failures.listing import links_of
from solvers.failures.rewire import JobRewiring, difference, unit_arcs
from solvers.failures.surviving import after, reach
from solvers.failures.training_links import TrainingEvaluator
from solvers.failures.training_rewire import TrainingRewiring
from solvers.stop import Stop, first_part
from topoopt.analyses.resilience.subject import JobSubject, NetworkSubject, Subject
from topoopt.analyses.resilience.training_subject import TrainingSubject
from topoopt.core.cluster import LinkDirection
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.failures import Failure, FailureOutcome, Rewiring
from topoopt.core.network import TopologyProblem
from topoopt.core.plan import Plan
from topoopt.core.proofs import Status
from topoopt.core.search_settings import SearchSettings
from topoopt.core.topology import Topology
from topoopt.kinds.kind import Effort
from topoopt.kinds.network.methods import TOPOLOGY_METHODS
from topoopt.kinds.pipeline import judged
from topoopt.verify.checker import Violation, ViolationLog
from topoopt.verify.failures import check_repair, check_rewiring, check_training_repair
from topoopt.verify.job.plan import check_plan
from topoopt.verify.laws.networks import check_topology
from topoopt.verify.network.checker import NetworkResult

EXACT_S = 60.0
"""Seconds for the joint program with kept links; then the portfolio's search stands in."""


def rewire(subject: Subject, failure: Failure, most: int, *, seed: int, stop: Stop) -> Rewiring | None:
    """The best re-wiring found that gives up at most `most` circuits; None if nothing delivers everything."""
    if isinstance(subject, JobSubject):
        return _job(subject, failure, most, seed, stop)
    if isinstance(subject, NetworkSubject):
        return _network(subject, failure, most, seed, stop)
    if isinstance(subject, TrainingSubject):
        return _training(subject, failure, most, stop)
    raise TypeError(f"no re-wiring of a {type(subject).__name__}")


def _job(subject: JobSubject, failure: Failure, most: int, seed: int, stop: Stop) -> Rewiring | None:
    evaluator = subject.evaluator
    found = JobRewiring(evaluator, failure, most, seed, stop).run()
    if found is None:
        return None
    result = Rewiring(
        failure=failure,
        removed=found.exchange.removed,
        added=found.exchange.added,
        allowed=most,
        before=evaluator.outcome(failure).value,
        after=found.time_ms,
        method=found.method,
    )
    findings = ViolationLog()
    check_topology(findings, subject.solution.figures.cluster, found.topology)
    plan = Plan(subject.solution.plan.strategy, found.topology, found.plan.routes, found.plan.rings)
    laws: list[Violation] = [*findings.violations(), *check_rewiring(evaluator.topology, result, found.topology)]
    if subject.instance is not None:
        laws += check_plan(subject.instance.cluster, subject.instance.workload, plan)
    demand, rate = subject.solution.figures.demand, subject.solution.figures.cluster.link_bytes_per_ms
    laws += check_repair(found.topology, demand, _whole(found.topology, found.time_ms), plan.routes, plan.rings, rate)
    return _with(result, laws)


def _training(subject: TrainingSubject, failure: Failure, most: int, stop: Stop) -> Rewiring | None:
    evaluator = subject.evaluator
    if not isinstance(evaluator, TrainingEvaluator):
        raise TypeError("only links between servers are set anew")
    found = TrainingRewiring(evaluator, failure, most, stop).run()
    if found is None:
        return None
    before = evaluator.outcome(failure).value
    exchange = found.exchange
    result = Rewiring(failure, exchange.removed, exchange.added, most, before, found.time_ms, found.method)
    whole = _whole(found.topology, found.time_ms)
    laws = check_training_repair(found.topology, whole, evaluator.ways(found.plan), evaluator.reordered(found.plan))
    return _with(result, [*check_rewiring(evaluator.topology, result, found.topology), *laws])


def _whole(topology: Topology, value: float) -> FailureOutcome:
    """A network that nothing failed in."""
    far = reach(after(topology, Failure()))
    return FailureOutcome(Failure(), far.disconnected_pairs, far.diameter, far.mean_hops, 0, 0, 0, value, "re-wired")


def _with(result: Rewiring, laws: Sequence[Violation]) -> Rewiring:
    return replace(result, violations=tuple(dict.fromkeys(str(law) for law in laws)))


def _network(subject: NetworkSubject, failure: Failure, most: int, seed: int, stop: Stop) -> Rewiring | None:
    topology, demand = subject.evaluator.topology, subject.evaluator.demand
    left = Counter(links_of(topology)) - Counter(failure.links)
    gone = tuple(link for link in set(failure.links) if not left[link])
    problem = TopologyProblem(
        name=subject.solution.name,
        servers=topology.servers,
        degree=topology.degree,
        links=topology.links,
        demand=demand,
        forbidden=_pairs(gone, topology),
        kept=_pairs(tuple(left.elements()), topology),
        max_changed=most,
    )
    before = subject.evaluator.outcome(failure).value
    found = _solved(problem, seed, stop)
    if found is None or (before is not None and found.figures.theta >= before) or _again(found, failure, topology):
        return None if before is None else Rewiring(failure, (), (), most, before, before, "no re-wiring helps")
    exchange = difference(topology, failure, found.figures.topology)
    proven = found.bound.value if found.status is Status.OPTIMAL else None
    result = Rewiring(
        failure, exchange.removed, exchange.added, most, before, found.figures.theta, _method(found), proven
    )
    laws = check_rewiring(topology, result, found.figures.topology)
    broken = tuple(dict.fromkeys((*found.check.violations, *(str(law) for law in laws))))
    return replace(result, violations=broken)


def _method(found: NetworkResult) -> str:
    proof = "proven" if found.status is Status.OPTIMAL else "not proven"
    return f"{found.method} with kept links, {proof}"


def _again(found: NetworkResult, failure: Failure, topology: Topology) -> bool:
    """Whether a failed link with a surviving parallel one was set again, which the program cannot forbid."""
    return bool(set(difference(topology, failure, found.figures.topology).added) & set(failure.links))


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
