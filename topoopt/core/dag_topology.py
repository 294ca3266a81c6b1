"""Kind `dag-topology`: circuits between pods, fixed for a job, chosen by the graph of its computation and transfers.

A proof is two trees over boxes of circuits, from `least` to `most` of each pair. Each box is split, or closed by what
the checker derives again: windows of time, or a mean of paths with prices of ports.
"""

from __future__ import annotations

import graphlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, TypeVar

import numpy as np
from annotated_types import Ge, Le

from topoopt.core.arrays import Floats, Ints
from topoopt.core.data import STRICT, Array, Shown
from topoopt.core.proofs import Argument
from topoopt.core.result import Certificate, ProblemBase, Result, SearchSettings

T = TypeVar("T")

MAX_PODS = 1024
MAX_STEPS = 200_000
MAX_PORTS = 4096
MAX_PAIRS = MAX_PODS * (MAX_PODS - 1) // 2

Count = Annotated[int, Ge(1), Le(MAX_PORTS)]
Pair = tuple[int, int]
"""Two pods, the smaller number first."""


@dataclass(frozen=True, repr=False)
class DagTransfer(Shown):
    """A volume that moves from one pod to another over the circuits of that pair.

    Attributes:
        name: unique among transfers and tasks.
        source, target: different pods.
        volume: above 0, in the unit of the problem.
        after: numbers of the steps that it waits for.
    """

    name: str
    source: int
    target: int
    volume: float
    after: tuple[int, ...] = ()


@dataclass(frozen=True, repr=False)
class DagTask(Shown):
    """Work that takes a fixed time.

    Attributes:
        name: unique among transfers and tasks.
        duration: not negative.
        after: numbers of the steps that it waits for.
    """

    name: str
    duration: float
    after: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class DagTopologyProblem(ProblemBase):
    """How many circuits shall join each pair of pods, so that the graph of a job is done first.

    A step is a transfer or a task; steps are numbered, transfers first. A circuit carries `rate` in each direction at
    the same time. Every pair that something is transferred between has circuits of its own. Transfers under way at once
    between the same two pods in the same direction share them equally.

    Attributes:
        name: of the instance.
        pods: n.
        ports: n numbers, circuits that may end at each pod.
        rate: volume that a circuit carries in a unit of time, in each direction.
        transfers, tasks: at least one transfer; without circles.
        slack_percent: how much longer than the least makespan the job may take, where that saves circuits.
        volume_unit, time_unit: for people: `bytes` and `s`, or empty.
    """

    name: str
    pods: int
    ports: tuple[int, ...]
    rate: float
    transfers: tuple[DagTransfer, ...]
    tasks: tuple[DagTask, ...]
    slack_percent: float = 0.0
    volume_unit: str = ""
    time_unit: str = ""
    search: SearchSettings = field(default_factory=SearchSettings)
    sha256: str = ""
    notes: tuple[str, ...] = ()

    kind = "dag-topology"

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs that something is transferred between, ascending."""
        return tuple(sorted({(min(m.source, m.target), max(m.source, m.target)) for m in self.transfers}))

    @cached_property
    def pair_of(self) -> Ints:
        """int64[transfers]: index of the pair of each transfer."""
        index = {pair: k for k, pair in enumerate(self.pairs)}
        ends = [(min(m.source, m.target), max(m.source, m.target)) for m in self.transfers]
        return np.array([index[pair] for pair in ends], dtype=np.int64)

    @cached_property
    def volume(self) -> Floats:
        """float64[transfers]."""
        return np.array([m.volume for m in self.transfers])

    @cached_property
    def most(self) -> Ints:
        """int64[pairs]: circuits that a pair could have if no other had more than one."""
        alone = np.array([min(self.ports[a], self.ports[b]) for a, b in self.pairs], dtype=np.int64)
        degree = np.bincount(np.array(self.pairs).ravel(), minlength=self.pods)
        left = np.array([min(self.ports[p] - degree[p] for p in pair) + 1 for pair in self.pairs], dtype=np.int64)
        return np.minimum(alone, left)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the steps, by their numbers."""
        return (*(m.name for m in self.transfers), *(c.name for c in self.tasks))

    @property
    def after(self) -> tuple[tuple[int, ...], ...]:
        """What each step waits for, by their numbers."""
        return (*(m.after for m in self.transfers), *(c.after for c in self.tasks))

    @cached_property
    def compute_time(self) -> float:
        """The job if transfers took no time."""
        after, transfers = self.after, len(self.transfers)
        end = [0.0] * len(after)
        for step in self.order:
            own = self.tasks[step - transfers].duration if step >= transfers else 0.0
            end[step] = own + max((end[before] for before in after[step]), default=0.0)
        return max(end)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The steps, each behind all that it waits for."""
        return tuple(graphlib.TopologicalSorter(dict(enumerate(self.after))).static_order())


@dataclass(frozen=True, eq=False, repr=False)
class DagTopologyPlan(Shown):
    """The decisions for a job: circuits of each pair that something is transferred between, in ascending order."""

    __pydantic_config__ = STRICT

    circuits: Annotated[Ints, Array(Count, np.int64, MAX_PAIRS)]
    """of each pair; the job takes them"""
    fastest: Annotated[Ints, Array(Count, np.int64, MAX_PAIRS)] | None = None
    """of each pair, a plan with which the job is done earlier, which slack is counted from; none: `circuits`"""

    @property
    def fastest_circuits(self) -> Ints:
        """int64[pairs], the plan that is done first."""
        return self.circuits if self.fastest is None else self.fastest


DagTopologyResult = Result[DagTopologyProblem, DagTopologyPlan]


# What limits any circuits.


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


TREES = ("makespan_pair", "makespan_count", "circuits_pair", "circuits_count")
PATHS = ("groups", "group_size", "path_steps")
MEANS = ("mean_size", "mean_path", "mean_weight", "mean_price")
INTEGERS = (*TREES, *PATHS, *MEANS[:2], "circuits_bound")
ARRAYS = frozenset((*INTEGERS, *MEANS[2:], "bound"))


def branching_certificate(bound: float, proof: CircuitProof, pods: int) -> Certificate:
    """Return a proof as vectors.

    Args:
        bound: time before which no circuits do the job, which the first tree proves.
        proof: trees, paths and means. `groups` has the groups of each path, `group_size` the steps of each group,
            `mean_size` the weights of each mean; what they count follows one after the other in the vectors behind.
        pods: prices of each mean.
    """
    groups = [group for path in proof.paths for group in path]
    weights = [entry for mean in proof.means for entry in mean.weights]
    integers = {
        "makespan_pair": [pair for pair, _ in proof.makespan_tree],
        "makespan_count": [count for _, count in proof.makespan_tree],
        "circuits_bound": [proof.circuits_bound],
        "circuits_pair": [pair for pair, _ in proof.circuits_tree],
        "circuits_count": [count for _, count in proof.circuits_tree],
        "groups": [len(path) for path in proof.paths],
        "group_size": [len(group) for group in groups],
        "path_steps": [step for group in groups for step in group],
        "mean_size": [len(mean.weights) for mean in proof.means],
        "mean_path": [path for path, _ in weights],
    }
    numbers = {
        "bound": [bound],
        "mean_weight": [weight for _, weight in weights],
        "mean_price": [price for mean in proof.means for price in mean.prices],
    }
    assert len(numbers["mean_price"]) == pods * len(proof.means)
    arrays = {name: np.array(row, dtype=np.int64) for name, row in integers.items()}
    arrays |= {name: np.array(row, dtype=np.float64) for name, row in numbers.items()}
    return Certificate(Argument.CIRCUIT_BRANCHING, arrays)


def proof_of(certificate: Certificate, pods: int) -> tuple[float, CircuitProof]:
    """Return the bound and the proof that a certificate holds; the checker says whether it proves anything.

    Raises:
        ValueError: vectors are missing, or their lengths do not fit each other.
    """
    if set(certificate.arrays) != ARRAYS:
        raise ValueError(f"vectors expected: {', '.join(sorted(ARRAYS))}")
    if any(certificate[name].size and certificate[name].dtype.kind not in "iu" for name in INTEGERS):
        raise ValueError("trees, paths and sizes are whole numbers")
    trees = [certificate[name].tolist() for name in TREES]
    groups, group_size, steps = (certificate[name].tolist() for name in PATHS)
    mean_size, mean_path, weight, price = (certificate[name].tolist() for name in MEANS)
    by_group = [tuple(part) for part in _parts(steps, group_size)]
    paths = tuple(tuple(part) for part in _parts(by_group, groups))
    weights = _parts(list(zip(mean_path, map(float, weight), strict=True)), mean_size)
    prices = _parts(list(map(float, price)), [pods] * len(mean_size))
    means = tuple(PathMean(tuple(some), tuple(of_pod)) for some, of_pod in zip(weights, prices, strict=True))
    (bound,), (least,) = certificate["bound"].tolist(), certificate["circuits_bound"].tolist()
    makespan, circuits = (tuple(zip(trees[k], trees[k + 1], strict=True)) for k in (0, 2))
    return float(bound), CircuitProof(makespan, least, circuits, paths, means)


def _parts(rows: Sequence[T], sizes: Sequence[int]) -> list[Sequence[T]]:
    ends = list(itertools.accumulate(sizes, initial=0))
    if min(sizes, default=0) < 0 or ends[-1] != len(rows):
        raise ValueError(f"{len(rows)} entries where {ends[-1]} are counted")
    return [rows[low:high] for low, high in itertools.pairwise(ends)]
