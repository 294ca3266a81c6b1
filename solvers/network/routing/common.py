"""One routing for a set of demand matrices: the program of `formulations.network.common_routing`, matrix by matrix.

Few matrices decide: the program is solved for those that were worst so far, and grows by those its routing serves
worse, until there is none. Its optimum for the few is a bound for all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from formulations.network.common_routing import CommonRoutingProgram, build_arrays, prices_of, split_of
from solvers.backends.backend import Options, SolverLimits
from solvers.backends.table import solve_guarded, solver_named
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.topology import Topology

MOST_COLUMNS = 400_000
"""Pairs times arcs of the largest program."""

SAME = 1e-7
"""A matrix this little worse than the program's theta does not enter."""

TOGETHER = 4
"""Matrices that enter at once."""

MOST_EVENED = 2_000_000
"""Matrices times pairs times arcs of the largest program for the mean."""

ROUNDING = 1e-9

_SIMPLEX = 4_000
"""Columns up to which the simplex method is the quicker one."""

_GUARDED = 20_000
"""Columns from which on a program runs in a process that can be stopped; fewer take a second or so."""

_TIGHT: Options = {
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
    "ipm_optimality_tolerance": 1e-9,
}


@dataclass(frozen=True, eq=False)
class CommonRouting:
    """One routing for several demands, and prices that prove how good it can be.

    Attributes:
        pairs: int64[P, 2], ordered pairs with demand in some matrix, sorted.
        amounts: float64[k, P], their demand in each.
        split: float64[P, m], part of each pair's traffic over each arc.
        prices: float64[k, m], not negative.
    """

    pairs: Ints
    amounts: Floats
    split: Floats
    prices: Floats


def route_in_common(topology: Topology, demands: Floats, *, stop: Stop | None = None) -> CommonRouting:
    """The common routing of least worst theta (conserving exactly), and the prices of the last program.

    Of the routings with that worst theta, one of least mean theta where the program for it is not too large.

    Raises:
        InputError: too many pairs and arcs.
        LimitError: the time was up before the first program was solved.
    """
    found = _Common(topology, demands, stop or Stop()).run()
    if found is None:
        raise LimitError("the time was up before a common routing was found")
    return found


class _Common:
    """Programs that grow by matrices, and the best routing so far."""

    def __init__(self, topology: Topology, demands: Floats, stop: Stop) -> None:
        self.topology, self.demands, self.stop = topology, demands, stop
        arcs = topology.arcs.astype(np.int64)
        capacity = topology.capacity
        self.scale = float(demands.max())
        self.data = CommonRoutingProgram(arcs[:, 0].copy(), arcs[:, 1].copy(), capacity, demands / self.scale)
        self.pairs = self.data.pairs
        self.amounts = demands[:, self.pairs[:, 0], self.pairs[:, 1]]
        if len(self.pairs) * len(arcs) > MOST_COLUMNS:
            text = f"too large for one routing in common: {len(self.pairs)} pairs times {len(arcs)} arcs"
            raise InputError([Problem(text, path="routing", value="common", allowed="adapted")])

    def run(self) -> CommonRouting | None:
        chosen = sorted(np.argsort(-self.amounts.sum(axis=1), kind="stable")[:TOGETHER].tolist())
        split, worst = None, np.inf
        prices = np.zeros((len(self.demands), len(self.topology.arcs)))
        while True:
            found = self._solved(chosen, None)
            if found is None:
                break
            theta = self._theta(found[0])
            if theta.max() < worst:
                split, worst = found[0], float(theta.max())
            prices[:] = 0.0
            prices[chosen] = found[1]
            known = float(theta[chosen].max())
            worse = [k for k in np.argsort(-theta, kind="stable").tolist() if theta[k] > known * (1 + SAME)]
            if not worse:
                break
            chosen = sorted({*chosen, *worse[:TOGETHER]})
        if split is None:
            return None
        return CommonRouting(self.pairs, self.amounts, self._evened(split, worst), prices)

    def _evened(self, split: Floats, worst: float) -> Floats:
        """A routing no worse in the worst case, and better on the mean if there is one."""
        entries = len(self.demands) * split.size
        if len(self.demands) == 1 or entries > MOST_EVENED:
            return split
        found = self._solved(list(range(len(self.demands))), worst / self.scale)
        if found is None:
            return split
        old, new = self._theta(split), self._theta(found[0])
        return found[0] if new.max() <= worst * (1 + ROUNDING) and new.sum() < old.sum() else split

    def _theta(self, split: Floats) -> Floats:
        return np.asarray((self.amounts @ split / self.data.capacity).max(axis=1))

    def _solved(self, chosen: list[int], cap: float | None) -> tuple[Floats, Floats] | None:
        """Exactly conserving parts of all pairs, float64[P, m], and prices, float64[chosen, m]; None: out of time.

        Pairs without demand in the chosen matrices get a shortest way.
        """
        if self.stop.reason() is not None:
            return None
        part = replace(self.data, demands=self.data.demands[chosen], cap=cap)
        program = build_arrays(part)
        limits = SolverLimits(time_s=self.stop.remaining_s())
        name = "highs-simplex" if program.columns < _SIMPLEX else "highs-ipx"
        options: Options = _TIGHT if name == "highs-simplex" else {**_TIGHT, "run_crossover": "off"}
        if program.columns < _GUARDED:
            answer = solver_named(name)(program, limits, options)
        else:
            answer = solve_guarded(name, program, limits, options, stop=self.stop)
        if answer.raw_x is None or answer.row_dual is None:
            return None
        rough = np.zeros((len(self.pairs), len(part.tail)))
        place = {(int(s), int(t)): row for row, (s, t) in enumerate(self.pairs)}
        rough[[place[int(s), int(t)] for s, t in part.pairs]] = split_of(part, answer.raw_x)
        rows = zip(rough, self.pairs.tolist(), strict=True)
        split = np.array([_mended(self.topology, row, s, t) for row, (s, t) in rows])
        return split.reshape(rough.shape), prices_of(part, answer.row_dual)


def _mended(topology: Topology, rough: Floats, source: int, target: int) -> Floats:
    """Parts that conserve exactly: the widest ways of the rough ones, scaled to 1; a shortest way if there is none."""
    import networkx as nx

    left = rough.copy()
    split = np.zeros(len(rough))
    total = 0.0
    while total < 1.0 - 1e-9:
        way = _widest(topology, left, source, target)
        if way is None:
            break
        width = min(float(left[way].min()), 1.0 - total)
        left[way] -= width
        split[way] += width
        total += width
    if total < 0.5:
        graph = nx.DiGraph([(int(i), int(j)) for i, j in topology.arcs])
        nodes = nx.shortest_path(graph, source, target)
        split[:] = 0.0
        ids = topology.arc_ids()
        split[[int(ids[i, j]) for i, j in pairwise(nodes)]] = 1.0
        return split
    return np.asarray(split / total)


def _widest(topology: Topology, left: Floats, source: int, target: int) -> list[int] | None:
    """Arcs of the way whose narrowest part is widest; None if nothing above dust leads there."""
    width = np.zeros(topology.servers)
    width[source] = np.inf
    over = np.full(topology.servers, -1, dtype=np.int64)
    used = np.flatnonzero(left > 1e-8)
    open_servers = {source}
    done: set[int] = set()
    while open_servers:
        at = max(open_servers, key=lambda v: (width[v], -v))
        open_servers.remove(at)
        done.add(at)
        if at == target:
            way = []
            while at != source:
                way.append(int(over[at]))
                at = int(topology.arcs[over[at], 0])
            return way[::-1]
        for a in used[topology.arcs[used, 0] == at].tolist():
            head = int(topology.arcs[a, 1])
            wide = min(width[at], left[a])
            if head not in done and wide > width[head]:
                width[head], over[head] = wide, a
                open_servers.add(head)
    return None
