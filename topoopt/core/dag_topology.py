"""Kind `dag-topology`: circuits between pods, fixed for a job, chosen by the graph of its computation and transfers."""

from __future__ import annotations

import graphlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.search_settings import SearchSettings
from topoopt.core.shown import Shown
from topoopt.core.stated import Stated

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
class DagTopologyProblem(Stated):
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
        """int64[transfers]: place of the pair of each transfer."""
        place = {pair: k for k, pair in enumerate(self.pairs)}
        ends = [(min(m.source, m.target), max(m.source, m.target)) for m in self.transfers]
        return np.array([place[pair] for pair in ends], dtype=np.int64)

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
