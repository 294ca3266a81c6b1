"""The solution of kind `dag-topology`: circuits, when every step begins and ends, and the trees that prove it."""

from __future__ import annotations

from dataclasses import dataclass, field

from topoopt.core.columns import Columns
from topoopt.core.shown import Shown
from topoopt.core.solution import SolutionHead

Split = tuple[int, int]
"""(pair, count): boxes with at most so many circuits of that pair follow first, then the others; (-1, k): closed, by
windows of time for k = 0, else by the mean of paths number k - 1."""

StepPath = tuple[tuple[int, ...], ...]
"""Groups of steps, all of each before all of the next: a step, or transfers of one direction of a pair."""


@dataclass(frozen=True)
class PathMean:
    """Paths with weights, and prices of ports, which together say what circuits can do at best.

    Attributes:
        weights: (number of a path, weight) of those that count.
        prices: of a port of each pod.
    """

    weights: tuple[tuple[int, float], ...]
    prices: tuple[float, ...]


@dataclass(frozen=True)
class PairCircuits:
    """Circuits between two pods.

    Attributes:
        one, other: pods, the smaller number first.
        count: at least 1.
    """

    one: int
    other: int
    count: int


@dataclass(frozen=True)
class StepSpan:
    """When a step is under way.

    Attributes:
        name: of the transfer or task.
        source, target: pods of a transfer; -1 for a task.
        start, end: in the unit of time of the instance.
    """

    name: str
    source: int
    target: int
    start: float
    end: float


@dataclass(frozen=True, eq=False, repr=False)
class CircuitProof(Shown):
    """Trees over boxes of circuits (pairs in ascending order), each closed by what the checker derives again.

    Attributes:
        makespan_tree: in no closed box is the job done before the bound.
        circuits_bound: no fewer circuits do the job within the slack.
        circuits_tree: every closed box needs so many, or takes longer.
        paths: that means are of.
        means: that boxes are closed by.
    """

    makespan_tree: tuple[Split, ...]
    circuits_bound: int
    circuits_tree: tuple[Split, ...]
    paths: tuple[StepPath, ...] = ()
    means: tuple[PathMean, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class DagTopologySolution(SolutionHead):
    """Result of `topoopt solve` on an instance of kind `dag-topology`.

    Attributes, besides those of `SolutionHead`:
        objective: `makespan`, in the unit of time of the instance.
        pods, ports, slack_percent: of the instance.
        compute_time: the job if transfers took no time, in the unit of time of the instance.
        circuits: by pair, ascending.
        fastest: counts of a plan that is done earlier, in the order of `circuits`; None: none is known.
        steps: transfers first, in the order of the instance.
        proof: what limits any circuits.
    """

    pods: int
    ports: tuple[int, ...]
    slack_percent: float
    compute_time: float
    circuits: tuple[PairCircuits, ...]
    fastest: tuple[int, ...] | None
    steps: tuple[StepSpan, ...]
    proof: CircuitProof

    kind: str = field(default="dag-topology", init=False)

    @property
    def communication_time(self) -> float:
        """What the job takes longer than if transfers took no time."""
        return max(0.0, self.objective.value - self.compute_time)

    @property
    def fastest_circuits(self) -> tuple[int, ...]:
        """Counts of the plan known that is done first."""
        return tuple(each.count for each in self.circuits) if self.fastest is None else self.fastest

    @property
    def circuits_total(self) -> int:
        """Of all pairs."""
        return sum(each.count for each in self.circuits)

    @property
    def ports_used(self) -> tuple[int, ...]:
        """Of each pod."""
        used = [0] * self.pods
        for each in self.circuits:
            used[each.one] += each.count
            used[each.other] += each.count
        return tuple(used)

    @property
    def ports_saved(self) -> int:
        """Ports of all pods that no circuit ends at."""
        return sum(self.ports) - 2 * self.circuits_total

    def columns(self) -> dict[str, Columns]:
        """As of all solutions; `links` are the circuits."""
        links: Columns = {
            "one": [each.one for each in self.circuits],
            "other": [each.other for each in self.circuits],
            "circuits": [each.count for each in self.circuits],
        }
        return {**super().columns(), "links": links}
