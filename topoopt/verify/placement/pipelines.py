"""The least load of all contiguous pipelines over equal links, found again over sets that nothing leads into.

Where stages are contiguous, what stands in the first j of them is a set of co-located groups with all that they need;
a stage is the difference of two such sets, one within the other. What it sends and receives depends on this difference
alone if all transfers cost the same, so its load on a device does too, and a pipeline is a path from the empty set to
all groups: one step a device, each device once, the largest load of a step as small as can be (the dynamic program over
ideals of Tarnawski et al., NeurIPS 2020). Chains and graphs near one have few such sets.

GPipe adds the largest forward load to the largest backward load. Among pipelines whose forward loads are below a cap
the least backward load is found; a better one than the value known then has forward loads below the value less that,
which is the next cap, until no pipeline is left below it.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.placement import PlacementProblem, Throughput
from topoopt.core.verdict import Tolerance
from topoopt.verify.placement.loads import transfer_table
from topoopt.verify.placement.stages import order_edges

MOST_SETS = 3000
"""Sets that nothing leads into, seconds; where there are more, nothing is derived."""

MOST_STATES = 64
"""Ways to have used so many devices of each class."""

MOST_CAPS = 60
"""Caps on forward loads looked at, two walks over the sets each."""


def _closed_sets(groups: int, edges: set[tuple[int, int]], most: int) -> list[frozenset[int]]:
    """All sets of groups that hold whatever their members need, smaller ones first."""
    needs: list[set[int]] = [{g} for g in range(groups)]
    grown = True
    while grown:
        grown = False
        for before, after in edges:
            if not needs[before] <= needs[after]:
                needs[after] |= needs[before]
                grown = True
    steps = {frozenset(own) for own in needs}
    level, found = {frozenset[int]()}, [frozenset[int]()]
    seen = set(found)
    while level:
        level = {one | step for one in level for step in steps if not step <= one} - seen
        seen |= level
        if len(seen) > most:
            raise ValueError(f"more than {most} sets of operators that nothing leads into")
        found += level
    return sorted(found, key=lambda one: (len(one), sorted(one)))


def _equal_links(problem: PlacementProblem) -> bool:
    """Whether all transfers that somebody pays for cost the same."""
    host = np.array([entry.host for entry in problem.devices])
    paid = ~np.eye(len(host), dtype=bool) & ~np.logical_and.outer(host, host)
    return all(len(set(transfer_table(problem, size)[paid].tolist())) <= 1 for size in (0, 10**9))


class _Case:
    """Tables of one problem: work and bytes of groups by kind of device, and tensors between groups."""

    def __init__(self, problem: PlacementProblem, settings: Throughput) -> None:
        self.groups = problem.colocated()
        group_of = {i: g for g, members in enumerate(self.groups) for i in members}
        kinds = [(entry.class_index, entry.memory_bytes, entry.host) for entry in problem.devices]
        self.kinds = list(dict.fromkeys(kinds))
        self.counts = [kinds.count(kind) for kind in self.kinds]
        self.phases = 2 if settings.schedule == "gpipe" else 1
        self.work = np.zeros((self.phases, len(self.groups), len(self.kinds)))
        self.bytes = np.zeros(len(self.groups), dtype=np.int64)
        for i, operator in enumerate(problem.operators):
            phase = int(operator.backward) % self.phases
            self.work[phase, group_of[i]] += [operator.times_ms[kind[0]] for kind in self.kinds]
            self.bytes[group_of[i]] += operator.memory_bytes
        host = [entry.host for entry in problem.devices]
        payer = host.index(False) if False in host else 0
        other = next((d for d in range(len(host)) if d != payer), payer)
        rows, costs = [], []
        for tensor in problem.tensors:
            ends = {group_of[tensor.producer], *(group_of[user] for user in tensor.consumers)}
            if len(ends) > 1:
                rows.append([g in ends for g in range(len(self.groups))])
                cost = [0.0] * self.phases
                phase = int(problem.operators[tensor.producer].backward) % self.phases
                cost[phase] = float(transfer_table(problem, tensor.size_bytes)[payer, other])
                costs.append(cost)
        self.ends = np.array(rows, dtype=np.float64).reshape(len(rows), len(self.groups))
        self.cost = np.array(costs).reshape(len(rows), self.phases)
        self.edges = {(group_of[a], group_of[b]) for a, b in order_edges(problem)}


class _Sums:
    """Sums over every closed set, of which those of a stage are differences."""

    def __init__(self, case: _Case, member: Floats, overlapped: bool) -> None:
        self._case, self._overlapped = case, overlapped
        able = np.isfinite(case.work)
        self._member = member.astype(bool)
        self._least = (member @ case.work.min(axis=2).T).sum(axis=1)
        self._work = member @ np.where(able, case.work, 0.0)
        self._lame = member @ ~able.all(axis=0)
        self._held = member.astype(np.int64) @ case.bytes
        self._ends = (member @ case.ends.T).astype(np.int16)
        self._size = case.ends.sum(axis=1).astype(np.int16)

    def stages(self, at: int, limit: float) -> tuple[Ints, Floats]:
        """Sets int64[stages] within which a set is, and float64[phases, stages, kinds] loads of what they have more.

        Loads are inf where a stage cannot be; stages of more work than the limit are left out.
        """
        later: Ints = at + 1 + np.flatnonzero(self._least[at + 1 :] < self._least[at] + limit)
        later = later[~(self._member[at] & ~self._member[later]).any(axis=1)]
        inside = self._ends[later] - self._ends[at]
        sent = ((inside > 0) & (inside < self._size)) @ self._case.cost
        held = self._held[later] - self._held[at]
        table: Floats = self._work[:, later] - self._work[:, at, None]
        for q, (_, room, host) in enumerate(self._case.kinds):
            own = np.zeros_like(sent.T) if host else sent.T
            table[:, :, q] = np.maximum(table[:, :, q], own) if self._overlapped else table[:, :, q] + own
            if room is not None:
                table[:, held > room, q] = np.inf
        table[:, self._lame[later] - self._lame[at] > 0] = np.inf
        return later, table


def least_pipeline(problem: PlacementProblem, settings: Throughput, value: float, most_sets: int = MOST_SETS) -> float:
    """Least objective of all contiguous pipelines, ms, or the value of a known one if nothing is better.

    What is better by less than rounding counts as equal.

    Raises:
        ValueError: links differ, stages need not be contiguous, passes count apart, or there are too many sets.
    """
    if settings.stages != "contiguous" or not _equal_links(problem):
        raise ValueError("not a contiguous pipeline over equal links")
    case = _Case(problem, settings)
    if prod(count + 1 for count in case.counts) > MOST_STATES:
        raise ValueError(f"more than {MOST_STATES} ways to use the devices")
    sets = _closed_sets(len(case.groups), case.edges, most_sets)
    member = np.zeros((len(sets), len(case.groups)))
    for row, one in zip(member, sets, strict=True):
        row[sorted(one)] = 1.0
    limit = value * (1 - Tolerance.ROUNDING.relative)
    sums = _Sums(case, member, settings.communication == "overlapped")
    steps = [sums.stages(at, limit) for at in range(len(sets) - 1)]
    if case.phases == 1:
        return min(value, _least_peak(case.counts, [(later, loads[0]) for later, loads in steps], limit))
    best, cap = value, limit
    for _ in range(MOST_CAPS):
        peak = _least_peak(case.counts, [(t, np.where(f < cap, b, np.inf)) for t, (f, b) in steps], limit)
        if not peak < limit:
            return best
        if limit - peak < cap:
            cap = limit - peak
            continue
        cap = _least_peak(case.counts, [(t, np.where(b <= peak, f, np.inf)) for t, (f, b) in steps], limit)
        best = min(best, cap + peak)
        limit = min(limit, best)
    raise ValueError(f"more than {MOST_CAPS} caps of forward loads")


def _least_peak(counts: list[int], steps: list[tuple[Ints, Floats]], limit: float) -> float:
    """Least of the largest loads of all pipelines, infinite where none is below the limit.

    Args:
        counts: devices of each kind.
        steps: for each set but the last the larger ones, int64[stages], and float64[stages, kinds], the loads between.
        limit: what no load may reach.
    """
    states = list(product(*(range(count + 1) for count in counts)))
    best = {state: np.full(len(steps) + 1, np.inf) for state in states}
    best[states[0]][0] = 0.0
    for at, (later, table) in enumerate(steps):
        for state in [state for state in states if best[state][at] < limit]:
            for q, count in enumerate(counts):
                if state[q] < count:
                    after = best[(*state[:q], state[q] + 1, *state[q + 1 :])]
                    reached = np.maximum(table[:, q], best[state][at])
                    after[later] = np.where(reached < limit, np.minimum(after[later], reached), after[later])
    return float(min(reached[-1] for reached in best.values()))
