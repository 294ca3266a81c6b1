"""The checker of kind `dag-topology`: the job is followed over its circuits, every box of the proof closed again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from topoopt.core.dag_topology import (
    CircuitProof,
    DagTopologyPlan,
    DagTopologyProblem,
    DagTopologyResult,
    proof_of,
)
from topoopt.core.proofs import Argument, Tolerance
from topoopt.core.result import Certificate
from topoopt.verify.checker import Checker, Derivation
from topoopt.verify.dag_topology.boxes import (
    SLACK_ROUNDING,
    BeyondDepthError,
    Box,
    Boxes,
    Means,
    TreeWalk,
    follow,
    padding,
)
from topoopt.verify.laws.findings import CheckDepth, CheckFindings, int_array

RELATIVE = Tolerance.EVENTS.relative
WHOLE = 1e-7
"""By how much a number of circuits must exceed the whole number below it: rounding of sums."""

UNLIMITED = 1 << 62
"""Events of a walk that no check limits."""


def circuits_fit(problem: DagTopologyProblem, plan: DagTopologyPlan) -> Iterator[str]:
    """A whole number of at least 1 for each pair, in the plan and in the fastest one."""
    for name, counts in _plans(plan):
        values = int_array(counts, 1)
        if values is None or len(values) != len(problem.pairs) or (values < 1).any():
            yield f"{name}: not a whole number of at least 1 for each pair"


def ports_suffice(problem: DagTopologyProblem, plan: DagTopologyPlan) -> Iterator[str]:
    """No more circuits end at a pod than it has ports."""
    for name, counts in _plans(plan):
        used = [0] * problem.pods
        for pair, count in zip(problem.pairs, counts.tolist(), strict=True):
            for pod in pair:
                used[pod] += count
        for pod, ports in enumerate(problem.ports):
            if used[pod] > ports:
                yield f"{name}: {used[pod]} at pod {pod}, of {ports}"


def within_slack(problem: DagTopologyProblem, plan: DagTopologyPlan) -> Iterator[str]:
    """The job takes no longer than the slack allows beyond the fastest plan."""
    if plan.fastest is None:
        return
    makespan, fastest = makespan_of(problem, plan), max(follow(problem, plan.fastest.tolist())[1])
    if makespan > fastest * (1 + problem.slack_percent / 100) * (1 + RELATIVE):
        yield f"the job takes {makespan!r}, the fastest plan {fastest!r}"


def _plans(plan: DagTopologyPlan) -> list[tuple[str, Any]]:
    fastest = [] if plan.fastest is None else [("circuits of the fastest plan", plan.fastest)]
    return [("circuits", plan.circuits), *fastest]


def makespan_of(problem: DagTopologyProblem, plan: DagTopologyPlan) -> float:
    """Return when the last step ends."""
    return max(follow(problem, plan.circuits.tolist())[1])


@dataclass(frozen=True, eq=False)
class Walks:
    """Walks over the two trees of a proof, within so many events."""

    problem: DagTopologyProblem
    bound: float
    proof: CircuitProof
    events: int

    @classmethod
    def of(cls, problem: DagTopologyProblem, certificates: Sequence[Certificate], events: int) -> Walks:
        """Return the walks of the one certificate of a problem.

        Raises
        ------
        ValueError
            There is another number of certificates, or of another argument, or something in it is needless.
        """
        if [certificate.argument for certificate in certificates] != [Argument.CIRCUIT_BRANCHING]:
            raise ValueError(f"one certificate expected, for {Argument.CIRCUIT_BRANCHING}")
        bound, proof = proof_of(certificates[0], problem.pods)
        trees = {"makespan_tree": proof.makespan_tree, "circuits_tree": proof.circuits_tree}
        needless = next(padding(trees, proof.paths, proof.means), None)
        if needless is not None:
            raise ValueError(needless)
        if not bound >= 0:
            raise ValueError(f"a bound of {bound!r}")
        return cls(problem, bound, proof, events)

    def __call__(self, plan: DagTopologyPlan | None = None) -> float:
        """Walk both trees; without a plan the first one alone, which is for the makespan.

        Returns
        -------
        The time before which no circuits do the job.

        Raises
        ------
        ValueError
            A box is open.
        BeyondDepthError
            The boxes take more events than there are.
        """
        problem, proof = self.problem, self.proof
        means, boxes = Means(problem, proof.paths, proof.means), Boxes(problem, self.bound)
        walk = TreeWalk(len(problem.after), self.events)

        def late(box: Box) -> bool:
            return box.point and max(follow(problem, box.least)[1]) >= boxes.late

        walk(boxes, proof.makespan_tree, late, lambda number, box: means.makespan(number, box) >= boxes.late)
        if plan is None:
            return self.bound
        if not 0 <= proof.circuits_bound <= plan.circuits.sum():
            raise ValueError(f"{plan.circuits.sum()} circuits are fewer than {proof.circuits_bound}, said to be needed")
        limit = max(follow(problem, plan.fastest_circuits.tolist())[1]) * (1 + problem.slack_percent / 100)
        later = Boxes(problem, limit * (1 + SLACK_ROUNDING))

        def enough(box: Box) -> bool:
            return sum(box.least) >= proof.circuits_bound or (
                box.point and max(follow(problem, box.least)[1]) >= later.late
            )

        def needed(number: int, box: Box) -> bool:
            least = means.circuits(number, box, later.late)
            return least > proof.circuits_bound - 1 + WHOLE or means.makespan(number, box) >= later.late

        try:
            walk(later, proof.circuits_tree, enough, needed)
        except ValueError as error:
            raise ValueError(f"fewer than {proof.circuits_bound} circuits are not excluded: {error}") from error
        return self.bound


def _makespan_bound(problem: DagTopologyProblem, certificates: Sequence[Certificate]) -> float:
    return Walks.of(problem, certificates, UNLIMITED)()


CHECKER = Checker(
    objective=lambda problem: ("makespan", problem.time_unit),
    constraints=(("circuits", circuits_fit), ("ports", ports_suffice), ("slack", within_slack)),
    value=makespan_of,
    arguments=lambda _: {Argument.CIRCUIT_BRANCHING: _makespan_bound},
    tolerance=Tolerance.EVENTS,
    optimal=Tolerance.EVENTS,
    claim_tolerance=Tolerance.EVENTS,
)


def check(problem: DagTopologyProblem, result: DagTopologyResult, depth: CheckDepth) -> CheckFindings:
    """Check a result of any content, both trees within the events of the depth; never raises."""
    proven: list[float | ValueError] = []

    def work(problem: DagTopologyProblem, result: DagTopologyResult) -> int:
        """Walk the trees; more events than the depth has where they take more."""
        try:
            proven.append(Walks.of(problem, result.certificates, depth.events)(result.plan))
        except BeyondDepthError:
            return depth.events + 1
        except ValueError as error:
            proven.append(error)
        return 0

    def derived(problem: DagTopologyProblem, certificates: Sequence[Certificate]) -> float:
        if isinstance(proven[0], ValueError):
            raise proven[0]
        return proven[0]

    table: Mapping[Argument, Derivation] = {Argument.CIRCUIT_BRANCHING: derived}
    return replace(CHECKER, work=work, arguments=lambda _: table)(problem, result, depth)
