"""What proves a makespan of parallel switches: prices of pairs by column generation, a tree over configurations."""

from __future__ import annotations

from collections.abc import Sequence

import highspy
import numpy as np
from scipy.optimize import linear_sum_assignment

from formulations.circuit_matching import all_targets, configuration_arrays
from formulations.programs import Families
from solvers.backends.highs import highs_model
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.regional_circuits import price_certificate, tree_certificate
from topoopt.core.result import Certificate

PRICED_SERVERS = 8
"""Servers up to which prices gain more than the bounds of lines in seconds."""

TREE_SERVERS = 4

MAX_LEAVES = 3000
"""Closed cases of a tree."""

CLOSE = 1e-6
"""Part of a makespan by which a case need not reach it."""

SHORTEST = 1e-12
CENTRE = 0.7
"""Weight of the best prices so far beside those of the program."""

OVERPRICED = 1e-7
COLUMNS = 10
"""Configurations that a round of the column generation adds, and servers more."""

MAX_PRICE_ROUNDS = 400


def _solver() -> highspy.Highs:
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("random_seed", 0)
    return solver


class Prices:
    """Column generation: the program covers all pairs by configurations, its dual prices are prices of pairs."""

    def __init__(self, demand: Floats, delay: float, longest: float) -> None:
        """Begin with configurations that cover everything.

        Args:
            demand: float64[n, n].
            longest: duration that no configuration of a better plan exceeds.
        """
        self.demand, self.delay, self.longest = demand, delay, longest
        self.cells = np.flatnonzero(demand.ravel() > 0)
        self.amounts = demand.ravel()[self.cells]
        self.index = np.full(demand.size, -1)
        self.index[self.cells] = np.arange(len(self.cells))
        self.servers = np.arange(len(demand))
        shorter = np.unique(self.amounts[self.amounts < longest])
        self.durations = np.concatenate(([SHORTEST * demand.max()], shorter, [longest]))
        program = Families()
        rows = program.rows(3 * len(self.cells), np.concatenate((self.amounts, np.ones(2 * len(self.cells)))), np.inf)
        covers = program.columns(1, cost=1e3 * (demand.sum() + delay * demand.size))  # keeps the program feasible
        program.terms(rows, covers[0], np.concatenate((self.amounts, np.ones(2 * len(self.cells)))))
        self.solver = _solver()
        self.solver.passModel(highs_model(program.arrays()))
        for shift in range(1, len(demand)):
            targets = (self.servers + shift) % len(demand)
            for duration in np.unique(np.minimum(demand[self.servers, targets], longest)).tolist():
                if duration > 0:
                    self.add(targets, duration)

    def covered(self, served: Ints, duration: float) -> Floats:
        """Return float64[3 k]: what a piece covers of the length, start and whole of k pairs."""
        amounts = self.amounts[served]
        whole = (1 + (amounts <= duration)) / 2
        return np.concatenate((np.minimum(duration, amounts), np.ones(len(served)), whole))

    def add(self, targets: Ints, duration: float) -> None:
        """Add a configuration to the program."""
        served = self.served(targets)
        if len(served):
            pairs = len(self.cells)
            rows = np.concatenate((served, pairs + served, 2 * pairs + served)).astype(np.int32)
            cost = self.delay + duration
            self.solver.addCol(cost, 0.0, np.inf, len(rows), rows, self.covered(served, duration))

    def served(self, targets: Ints) -> Ints:
        """Return the pairs that a permutation serves."""
        index = self.index[self.servers * len(self.servers) + targets]
        return np.asarray(index[index >= 0])

    def matrices(self, prices: Floats) -> Floats:
        """Return float64[3, n, n] of prices by pair."""
        made = np.zeros((3, self.demand.size))
        made[:, self.cells] = prices.reshape(3, -1)
        return made.reshape(3, *self.demand.shape)

    def dearest(self, prices: Floats) -> list[tuple[float, Ints, float]]:
        """Return (worth over time, targets, duration) of the dearest permutation of every duration."""
        length, start, whole = self.matrices(prices)
        rows = []
        for duration in self.durations.tolist():
            worths = length * np.minimum(duration, self.demand) + start + whole * (1 + (self.demand <= duration)) / 2
            sources, targets = linear_sum_assignment(worths, maximize=True)
            ratio = float(worths[sources, targets].sum()) / (self.delay + duration)
            rows.append((ratio, targets.astype(np.int64), duration))
        return rows

    def heaviest_line(self) -> Floats:
        """Return the prices that give the time of the busiest server: a microsecond costs 1, a piece the delay."""
        counts = self.demand > 0
        loads = [(self.demand + self.delay * counts).sum(axis=axis) for axis in (1, 0)]
        axis = int(loads[1].max() > loads[0].max())
        own = (self.cells % len(self.demand) if axis else self.cells // len(self.demand)) == int(np.argmax(loads[axis]))
        return np.concatenate((own.astype(np.float64), self.delay * own, np.zeros(len(own))))

    def best(self, configurations: Sequence[tuple[Ints, float]], switches: int, goal: float, stop: Stop) -> Certificate:
        """Return the prices that prove most, as far as the stop allows.

        Args:
            configurations: targets and durations of a plan.
            switches: s.
            goal: bound that need not be exceeded.
        """
        for targets, duration in configurations:
            self.add(targets, min(duration, self.longest))
        right = np.concatenate((self.amounts, np.ones(2 * len(self.cells))))
        centre = prices = self.heaviest_line()
        bound = 0.0
        for _ in range(MAX_PRICE_ROUNDS):
            self.solver.run()
            duals = np.maximum(np.array(self.solver.getSolution().row_dual), 0.0)
            added = False
            for tried in (CENTRE * centre + (1 - CENTRE) * duals, duals):
                rows = self.dearest(tried)
                worst = max(ratio for ratio, _, _ in rows)
                if worst > 0 and float(tried @ right) / worst / switches > bound * (1 + SHORTEST):
                    bound, prices = float(tried @ right) / worst / switches, tried
                    centre = tried / worst
                rows.sort(key=lambda row: -row[0])
                for _, targets, duration in rows[: max(COLUMNS, len(self.demand))]:
                    served = self.served(targets)
                    gain = self.covered(served, duration) @ duals.reshape(3, -1)[:, served].ravel()
                    if gain > (self.delay + duration) * (1 + OVERPRICED):
                        self.add(targets, duration)
                        added = True
                if added:
                    break
            if not added or bound >= goal or stop.reason() is not None:
                break
        length, start, whole = self.matrices(prices)
        return price_certificate(length, start, whole, self.longest)


def tree_of(demand: Floats, delay: float, switches: int, target: float, stop: Stop) -> Certificate | None:
    """Return the proof that no plan of few servers is below a makespan; None where the limits end it.

    Args:
        target: makespan, the delay of first configurations included.
    """
    program = configuration_arrays(demand, delay, switches, target, integral=False)
    solver = _solver()
    solver.setOptionValue("presolve", "off")
    solver.passModel(highs_model(program))
    pairs, count = int((demand > 0).sum()), switches * len(all_targets(demand))
    uses = np.arange(1 + count, 1 + 2 * count, dtype=np.int32)
    leaves: list[Floats] = []
    tree: list[int] = []
    cases = [(np.zeros(count), np.ones(count))]
    while cases:
        if len(leaves) + len(cases) > MAX_LEAVES or stop.reason() is not None:
            return None
        low, high = cases.pop()
        solver.changeColsBounds(count, uses, low, high)
        solver.run()
        solution = solver.getSolution()
        duals = np.maximum(np.array(solution.row_dual), 0.0)[: 2 * pairs + switches]
        value, used = solver.getInfo().objective_function_value, np.array(solution.col_value)[uses]
        open_part = np.where(low < high, np.minimum(used, 1 - used), -1.0)
        split = int(open_part.argmax())
        if value >= target * (1 - CLOSE) or open_part[split] < SHORTEST:
            if not duals[2 * pairs :].any():
                duals[2 * pairs :] = 1.0 / switches
            tree.append(-1)
            leaves.append(duals)
            continue
        tree.append(split)
        less, more = high.copy(), low.copy()
        less[split], more[split] = 0.0, 1.0
        cases += [(more, high), (low, less)]
    return tree_certificate(switches, target, tree, np.array(leaves))
