"""The best mean of paths for a box: a linear program over circuits, whose paths are added as they are needed.

Between whole numbers one over circuits is replaced by its chord, which is never above it there. The multipliers of the
rows of paths are the weights of the mean, those of the ports their prices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solvers.dag_topology.box import BoxLaws
from solvers.dag_topology.paths import PathGraph
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.dag_topology_solution import PathMean, StepPath

ENOUGH = 1e-9
"""Part of the unit of time (that of a plan) by which a row may be missed."""

EXCESS = 1e3
"""Circuits that a plan would take for one unit of time beyond the limit."""

MOST_ROUNDS = 60


@dataclass
class PathPool:
    """Paths found so far, shared by all programs of a problem.

    Attributes:
        graph: that they are of.
        paths: as they are written.
        fixed: constant part of each.
        moved: float64[pairs] of each, time over one circuit by pair.
        known: the paths once more.
    """

    graph: PathGraph
    paths: list[StepPath]
    fixed: list[float]
    moved: list[Floats]
    known: set[StepPath]

    @staticmethod
    def of(graph: PathGraph) -> PathPool:
        """With nothing in it."""
        return PathPool(graph, [], [], [], set())

    def add(self, path: StepPath, pairs: int, length: Floats) -> None:
        """A path, with lengths of steps over one circuit."""
        moved, fixed = np.zeros(pairs), 0.0
        for step in (step for group in path for step in group):
            pair = int(self.graph.pair[step])
            if pair >= 0:
                moved[pair] += length[step]
            else:
                fixed += float(self.graph.fixed[step])
        self.paths.append(path)
        self.known.add(path)
        self.fixed.append(fixed)
        self.moved.append(moved)


@dataclass(frozen=True, eq=False)
class BoxRelaxation:
    """What the program says of a box.

    Attributes:
        bound: evaluated from the mean, not the word of the solver.
        mean: that gives it.
        circuits: float64[pairs], its choice.
    """

    bound: float
    mean: PathMean
    circuits: Floats


class PathProgram:
    """Least makespan of a box, or, with a limit of time, fewest circuits."""

    def __init__(self, laws: BoxLaws, pool: PathPool, unit: float, limit: float | None = None) -> None:
        import highspy

        self.laws, self.pool, self.unit, self.limit = laws, pool, unit, limit
        pairs = self.pairs = len(laws.most)
        solver = self._solver = highspy.Highs()
        for name, value in {"output_flag": False, "threads": 1, "presolve": "off"}.items():
            solver.setOptionValue(name, value)
        few = limit is not None
        cost = [EXCESS if few else 1.0, *[1.0 if few else 0.0] * pairs, *[0.0] * pairs]
        for each in cost:
            solver.addCol(each, 0.0, highspy.kHighsInf, 0, [], [])
        for pod, ports in enumerate(laws.ports.tolist()):
            own = [1 + p for p in np.flatnonzero((laws.ends == pod).any(axis=1)).tolist()]
            solver.addRow(-highspy.kHighsInf, float(ports), len(own), own, [1.0] * len(own))
        self._inf = highspy.kHighsInf
        self._rows: list[int] = [-1] * len(laws.ports)
        self._chords: set[tuple[int, int]] = set()
        self._handed = 0

    def relaxed(self, least: Ints, most: Ints, stop: Stop) -> BoxRelaxation:
        """Of a box; rows that it needs are added. Left in the middle it says less, and no less true."""
        solver, pairs = self._solver, self.pairs
        for p in range(pairs):
            solver.changeColBounds(1 + p, float(least[p]), float(most[p]))
            solver.changeColBounds(1 + pairs + p, 1.0 / float(most[p]), 1.0 / float(least[p]))
        for _ in range(MOST_ROUNDS):
            self._hand_over()
            solver.run()
            x = np.array(solver.getSolution().col_value)
            if not self._extended(x, least, most) or stop.reason() is not None:
                break
        return self._said(x, least, most)

    def _hand_over(self) -> None:
        shift = 0.0 if self.limit is None else self.limit
        while self._handed < len(self.pool.paths):
            path = self._handed
            moved = self.pool.moved[path]
            used = np.flatnonzero(moved).tolist()
            columns = [0, *(1 + self.pairs + p for p in used)]
            values = [1.0, *(-float(moved[p]) / self.unit for p in used)]
            self._solver.addRow((self.pool.fixed[path] - shift) / self.unit, self._inf, len(columns), columns, values)
            self._rows.append(path)
            self._handed += 1

    def _extended(self, x: Floats, least: Ints, most: Ints) -> bool:
        """Chords and a path that the choice misses."""
        pairs, added = self.pairs, False
        circuits, slowness = x[1 : 1 + pairs], x[1 + pairs :]
        low = np.clip(np.floor(circuits + 1e-9), least, np.maximum(most - 1, least)).astype(np.int64)
        chord = 1.0 / low - (circuits - low) / (low * (low + 1.0))
        for p in np.flatnonzero((slowness < chord - 1e-9) & (least < most)).tolist():
            k = int(low[p])
            if (p, k) not in self._chords:
                self._chords.add((p, k))
                step = 1.0 / (k * (k + 1.0))
                self._solver.addRow(1.0 / k + k * step, self._inf, 2, [1 + p, 1 + pairs + p], [step, 1.0])
                self._rows.append(-1)
                added = True
        length, path = self.pool.graph.longest(np.maximum(slowness, chord))
        reached = float(x[0]) * self.unit + (0.0 if self.limit is None else self.limit)
        if length > reached + 10 * ENOUGH * self.unit and path not in self.pool.known:
            self.pool.add(path, pairs, self.pool.graph.moved)
            added = True
        return added

    def _said(self, x: Floats, least: Ints, most: Ints) -> BoxRelaxation:
        dual = np.array(self._solver.getSolution().row_dual)
        pods = len(self.laws.ports)
        weights = tuple(
            (path, float(dual[row])) for row, path in enumerate(self._rows) if path >= 0 and dual[row] > 1e-12
        )
        scale = 1.0 if self.limit is None else 1.0 / self.unit
        prices = np.maximum(-dual[:pods], 0.0) * (self.unit if self.limit is None else 1.0)
        mean = PathMean(tuple((path, value * scale) for path, value in weights), tuple(prices.tolist()))
        return BoxRelaxation(self.value(mean, least, most), mean, x[1 : 1 + self.pairs])

    def weights(self, mean: PathMean) -> Floats:
        """float64[pairs]: time over one circuit in the mean."""
        moved: Floats = np.zeros(self.pairs)
        for path, weight in mean.weights:
            moved = moved + weight * self.pool.moved[path]
        return moved

    def value(self, mean: PathMean, least: Ints, most: Ints) -> float:
        """What a mean says of a box: a least makespan, or fewest circuits of plans done by the limit."""
        total = sum(weight for _, weight in mean.weights)
        if total <= 0.0:
            return 0.0
        moved = self.weights(mean)
        fixed = sum(weight * self.pool.fixed[path] for path, weight in mean.weights)
        prices = np.array(mean.prices)
        price = prices[self.laws.ends].sum(axis=1) + (0.0 if self.limit is None else 1.0)
        best = np.where(price > 0, np.sqrt(moved / np.maximum(price, 1e-300)), most)
        low = np.clip(np.floor(np.minimum(best, 1e9)), least, most)
        high = np.minimum(low + 1, most)
        each = np.minimum(moved / low + price * low, moved / high + price * high)
        said = float(each.sum() + fixed - prices @ self.laws.ports)
        return said / total if self.limit is None else said - total * self.limit
