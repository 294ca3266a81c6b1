"""From circuits of every step to the solution they amount to."""

from __future__ import annotations

from itertools import pairwise

from solvers.regional_circuits.switching import FoundRegional
from topoopt.core.arrays import Ints
from topoopt.core.dag_topology_solution import PairCircuits
from topoopt.core.proofs import Argument, Bound
from topoopt.core.regional_circuits import RegionalCircuitsProblem
from topoopt.core.regional_circuits_solution import CircuitStep, RegionalCircuitsSolution
from topoopt.core.solution import UNCHECKED, Objective
from topoopt.core.verdict import Tolerance, settle
from topoopt.core.versions import versions
from topoopt.kinds.kind import Effort, Solver
from topoopt.kinds.regional_circuits.methods import REGIONAL_METHODS
from topoopt.simulate.regional.run_bounds import least_of_runs
from topoopt.simulate.regional.transfer_time import RegionTraffic


def timed_step(traffic: RegionTraffic, circuits: Ints, number: int, stall_s: float) -> CircuitStep:
    """A step over circuits, which are those of a topology of that number."""
    return CircuitStep(number, stall_s, traffic.seconds(circuits), traffic.switch_s())


def assemble(problem: RegionalCircuitsProblem, found: FoundRegional, effort: Effort) -> RegionalCircuitsSolution:
    """The solution that circuits amount to."""
    number: dict[tuple[int, ...], int] = {}
    chosen = [number.setdefault(tuple(row), len(number)) for row in found.circuits.tolist()]
    anew = [False, *(one != other for one, other in pairwise(chosen))]
    stalls = [stall if new else 0.0 for stall, new in zip(problem.stalls_s, anew, strict=True)]
    steps = [
        timed_step(RegionTraffic.of(problem, problem.demands[step]), row, chosen[step], stalls[step])
        for step, row in enumerate(found.circuits)
    ]
    value = sum(step.stall_s + step.transfer_s for step in steps)
    bound = Bound(least_of_runs(problem, found.proofs), Argument.CIRCUIT_PRICES)
    verdict = settle(value, (bound,), Tolerance.LINEAR_PROGRAM)
    return RegionalCircuitsSolution(
        name=problem.name,
        status=verdict.status,
        stopped_by=found.stopped_by,
        objective=Objective("communication_time", value, "s"),
        bound=verdict.bound,
        check=UNCHECKED,
        seed=effort.search.seed,
        method=effort.search.method,
        instance_sha256=problem.sha256,
        versions=versions(),
        notes=problem.notes,
        servers=problem.servers,
        ports=problem.ports,
        topologies=tuple(
            tuple(PairCircuits(*pair, count) for pair, count in zip(problem.pairs, row, strict=True) if count)
            for row in number
        ),
        steps=tuple(steps),
        proofs=tuple(proof for proof in found.proofs if proof.bound_s > 0.0),  # else it says nothing
    )


SOLVER = Solver(methods=lambda _: REGIONAL_METHODS, assemble=assemble, tables=lambda _: (("", REGIONAL_METHODS),))
