"""The checker of collectives: the schedule executed, every time recomputed, and what limits any schedule re-derived."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from topoopt.core.collective import CollectiveObjective, CollectiveOp, CollectiveProblem
from topoopt.core.collective_solution import CollectiveProof, CollectiveSolution
from topoopt.core.proofs import Argument, Bound
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.verdict import Tolerance, beats
from topoopt.verify.collective.bounds import (
    ProofError,
    all_to_all_units,
    allgather_ratio,
    allreduce_units,
    straight_units,
    transposed_with,
    units_out,
    whole_vector_units,
)
from topoopt.verify.collective.execute import check_blocks, check_routes, check_semantics, step_traffic
from topoopt.verify.collective.farthest import farthest
from topoopt.verify.collective.front import check_front
from topoopt.verify.collective.times import busy_us, makespan_us, step_time_us
from topoopt.verify.laws.bounds import check_claim, check_stated
from topoopt.verify.laws.findings import CheckFindings, ViolationLog, check_identity, check_status, differs

TURNED = frozenset({CollectiveOp.REDUCE_SCATTER, CollectiveOp.REDUCE})
"""Collectives that are another one on the transposed network, backward."""


def check_collective(problem: CollectiveProblem, solution: CollectiveSolution) -> CheckFindings:
    """All laws the schedule breaks, all figures that are wrong, and every bound that is beaten or not proven.

    Never raises, whatever stands in the solution; the instance is taken as valid.
    """
    findings = ViolationLog()
    findings.guard("identity", "the identity", lambda: _check_identity(findings, problem, solution))
    findings.guard("schedule", "the schedule", lambda: _check_schedule(findings, problem, solution))
    findings.guard("front", "the best schedules by size", lambda: _check_front(findings, problem, solution))
    findings.guard("bound", "the bound", lambda: _check_bound(findings, problem, solution))
    return findings.findings()


def _check_identity(findings: ViolationLog, problem: CollectiveProblem, solution: CollectiveSolution) -> None:
    names = ("collective", "vector_bytes", "root", "message_us", "multicast", "relaying")
    check_identity(
        findings, problem, solution, *((name, getattr(solution, name), getattr(problem, name)) for name in names)
    )
    own, given = solution.network, problem.network
    arrays = ("is_switch", "arcs", "units", "latency_us")
    same = all(np.array_equal(getattr(own, name), getattr(given, name)) for name in arrays)
    if not same or own.unit_gbytes_per_s != given.unit_gbytes_per_s or own.names != given.names:
        findings.add("network", "the solution has another network than the instance")
    if own.origin != given.origin:
        findings.add("network", f"the network is {given.origin!r}, not {own.origin!r}")


def _check_schedule(findings: ViolationLog, problem: CollectiveProblem, solution: CollectiveSolution) -> None:
    schedule = solution.schedule
    arcs = check_routes(findings, problem, schedule)
    if arcs is None or not check_blocks(findings, problem, schedule):
        return
    check_semantics(findings, problem, schedule)
    if not findings.clean:
        return
    unused = np.setdiff1d(np.arange(len(schedule.routes)), schedule.sends.route)
    findings.add_each("route", unused, lambda k: f"route {list(schedule.routes[k])} is not used")
    if problem.steps is not None and schedule.steps > problem.steps:
        findings.add("steps", f"{schedule.steps} steps, at most {problem.steps}")
    traffic = step_traffic(problem.network, schedule, arcs, multicast=problem.multicast)
    takes = {
        "makespan_us": makespan_us(problem, schedule, arcs),
        "step_us": step_time_us(problem, schedule, traffic),
        "busy_us": busy_us(problem, schedule, traffic),
    }
    for name, due in takes.items():
        stated = getattr(solution.times, name)
        if stated is not None and differs(stated, due, Tolerance.LONG_SUMS.relative):
            findings.add("time", f"{name} is {stated!r}, the schedule takes {due!r}")
    _check_objective(findings, problem, solution, takes)


def _check_objective(
    findings: ViolationLog, problem: CollectiveProblem, solution: CollectiveSolution, takes: Mapping[str, float]
) -> None:
    name, value, unit, said = objective_of(problem, solution.schedule.steps, takes)
    objective = solution.objective
    if (objective.name, objective.unit) != (name, unit):
        findings.add("objective", f"the objective is {objective.name} in {objective.unit}, {name} in {unit} expected")
    if differs(objective.value, value, Tolerance.LONG_SUMS.relative):
        findings.add("objective", f"{name} is {objective.value!r}, {value!r} expected")
    for time in ("step_us", "busy_us"):
        if (getattr(solution.times, time) is None) != (time == said):
            findings.add("time", f"{time} must stand {'in the objective' if time == said else 'among the times'}, once")


def objective_of(
    problem: CollectiveProblem, steps: int, takes: Mapping[str, float]
) -> tuple[str, float, str, str | None]:
    """Name, value and unit that the times of a schedule come to; and which of them it says."""
    if problem.objective is CollectiveObjective.LATENCY:
        return "steps", float(steps), "steps", None
    if problem.objective is CollectiveObjective.THROUGHPUT:
        return "algbw", problem.vector_bytes / takes["busy_us"] / 1e3, "GB/s", "busy_us"
    return "time", takes["step_us"], "us", "step_us"


def _check_bound(findings: ViolationLog, problem: CollectiveProblem, solution: CollectiveSolution) -> None:
    value, maximise = solution.objective.value, problem.objective is CollectiveObjective.THROUGHPUT
    derivations = {argument_of(problem): lambda: proven_bound(problem, solution.proof).value}
    check_stated(findings, solution.bound, derivations, value, maximise=maximise)
    check_claim(findings, solution, (), maximise=maximise)
    if beats(value, solution.bound.value, Tolerance.LONG_SUMS, maximise=maximise):
        findings.add("bound", f"{solution.objective.name} {value!r} is better than its bound {solution.bound.value!r}")
    check_status(findings, solution, Tolerance.LONG_SUMS, maximise=maximise)


def _check_front(findings: ViolationLog, problem: CollectiveProblem, solution: CollectiveSolution) -> None:
    per_mbyte = float(bandwidth_us(problem, solution.proof)) / problem.vector_bytes * 1e6
    check_front(findings, problem, solution, slowest_message_us(problem), per_mbyte)


def copies_count(problem: CollectiveProblem) -> bool:
    """Whether switches that copy could do better than sets of trees or straight paths: then cuts alone bound."""
    return problem.multicast and problem.collective is not CollectiveOp.ALL_TO_ALL


def argument_of(problem: CollectiveProblem) -> Argument:
    """What a bound on the objective of a problem rests on."""
    if problem.objective is CollectiveObjective.LATENCY:
        return Argument.RANK_DISTANCES
    if copies_count(problem):
        return Argument.NETWORK_CUT
    if not problem.relaying:
        return Argument.PAIR_LENGTHS
    others = {
        CollectiveOp.ALLREDUCE: Argument.ALLREDUCE_ROOTS,
        CollectiveOp.ALL_TO_ALL: Argument.PAIR_LENGTHS,
    }
    return others.get(problem.collective, Argument.NETWORK_CUT)


def proven_bound(problem: CollectiveProblem, proof: CollectiveProof) -> Bound:
    """Bound on the objective of a problem, in its unit.

    Raises:
        ProofError: a cut, multipliers or lengths that prove nothing.
    """
    network = problem.network
    if problem.objective is CollectiveObjective.LATENCY:
        return Bound(float(fewest_steps(network, problem)), Argument.RANK_DISTANCES)
    bandwidth = float(bandwidth_us(problem, proof))
    if problem.objective is CollectiveObjective.THROUGHPUT:
        return Bound(problem.vector_bytes / bandwidth / 1e3, argument_of(problem))
    one = problem.message_us + float(network.latency_us.min())
    return Bound(max(bandwidth + one, slowest_message_us(problem)), argument_of(problem))


def bandwidth_us(problem: CollectiveProblem, proof: CollectiveProof) -> Fraction:
    """us that the bytes of any schedule take: through the cut, by the multipliers, or over the lengths.

    Raises:
        ProofError: they prove nothing.
    """
    network, wanted = problem.network, problem.collective
    per_unit = Fraction(problem.vector_bytes) / network.unit_gbytes_per_s / 1000
    ranks = len(network.ranks)
    if wanted is CollectiveOp.ALL_TO_ALL:
        if proof.lengths is None:
            raise ProofError("lengths are missing")
        return per_unit / ranks / all_to_all_units(network, proof.lengths.tolist(), relaying=problem.relaying)
    if not problem.relaying and not copies_count(problem):
        if proof.lengths is None:
            raise ProofError("lengths are missing")
        root = int(network.ranks[problem.root])
        return per_unit / straight_units(network, proof.lengths.tolist(), wanted, root)
    if wanted is CollectiveOp.ALLREDUCE and copies_count(problem):
        return per_unit / whole_vector_units(network, proof.cut)
    if wanted is CollectiveOp.ALLREDUCE:
        if proof.allreduce is None:
            raise ProofError("multipliers are missing")
        return per_unit / allreduce_units(network, proof.allreduce)
    forward = network.transposed() if wanted in TURNED else network
    if wanted in (CollectiveOp.ALLGATHER, CollectiveOp.REDUCE_SCATTER):
        return per_unit / ranks * allgather_ratio(forward, proof.cut)
    root, inside = int(network.ranks[problem.root]), set(proof.cut)
    if root not in inside or set(network.ranks.tolist()) <= inside or units_out(forward, inside) == 0:
        raise ProofError("a cut has the root inside and some rank outside")
    return per_unit / units_out(forward, inside)


def fewest_steps(network: RatedNetwork, problem: CollectiveProblem) -> int:
    """Messages that some byte needs one after the other: a link into a rank, or between ranks, counts one."""
    lengths = [int(not network.is_switch[head]) for head in network.arcs[:, 1]]
    return int(_farthest(problem, lengths))


def slowest_message_us(problem: CollectiveProblem) -> float:
    """Least time in which something can come from the rank that is farthest, whatever its size."""
    network = problem.network
    lengths = [
        float(latency) + (0.0 if network.is_switch[head] else problem.message_us)
        for head, latency in zip(network.arcs[:, 1], network.latency_us, strict=True)
    ]
    return float(_farthest(problem, lengths))


def _farthest(problem: CollectiveProblem, lengths: list[int] | list[float]) -> float:
    """Largest of the distances that the collective must cover."""
    network, wanted = problem.network, problem.collective
    root = int(network.ranks[problem.root])
    sources = [root] if wanted in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE) else network.ranks.tolist()
    forward, own = transposed_with(network, lengths) if wanted is CollectiveOp.REDUCE else (network, lengths)
    return farthest(forward, own, sources, relaying=problem.relaying)
