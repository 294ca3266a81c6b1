"""Annealing runs from one topology for several demands and seeds: one after another, or in processes at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from solvers.network.search.anneal import AnnealPlan, anneal
from solvers.network.search.links import LinkTable
from solvers.processes import Team, Tell
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Ints

Run = tuple[Floats, int]
"""Demand, float64[n, n], and seed."""


class AnnealRuns:
    """What the runs have in common; a member of a team does one when it is called."""

    def __init__(self, stop: Stop, start: LinkTable, allowed: Bools, plan: AnnealPlan, parallel: bool) -> None:
        self.stop, self._given = stop, (start, allowed, plan, parallel)

    def __call__(self, run: Run, tell: Tell | None = None) -> Ints:
        start, allowed, plan, parallel = self._given
        demand, seed = run
        return anneal(start, demand, allowed, plan, parallel=parallel, seed=seed, stop=self.stop)

    def in_order(self, runs: Sequence[Run], jobs: int) -> Iterator[Ints]:
        """int64[n, d] of every run, heads of its best topology; the same for any number of processes."""
        if min(jobs, len(runs)) == 1:
            yield from map(self, runs)
            return
        with Team(min(jobs, len(runs)), AnnealRuns, self._given, self.stop) as team:
            yield from team.in_order(runs, lambda: None)
