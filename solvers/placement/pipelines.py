"""Pipelines of least load: exact reductions, order slicing, local search, proofs by a program or by all assignments.

Pipelines of least load: exact reductions, order slicing and local search, and proof by the stage-order program.

Reductions keep an optimal solution of a stage graph:

* B1: a block without work whose only neighbour is one consumer (or one producer) joins it: that removes cost and adds
  none. Valid where all blocks together fit every device, so that memory never decides.
* B4, dominated cut: u has a single order successor v, and cutting the tensors that go from u to v alone costs at least
  the work of u and all its other tensors together. Moving u to the stage of v then lowers or keeps both loads: the new
  stage gains p(u) + other - comm <= 0, the old one loses p(u) + comm and gains at most other. The same mirrored for a
  single predecessor (only if the tensor goes to u alone). Valid for identical devices without a CPU pool, memory never
  deciding, communication added to compute, forward and backward in one maximum, and contiguous stages.

All assignments of blocks to devices, cut off by bounds: exact where no two devices or links are alike.

Blocks are assigned one after the other, thousands of partial assignments at a time, with exact loads. A partial
assignment is dropped if

* its busiest device alone, or work and transfers spread over all devices, are no better than the incumbent;
* a device lacks memory, or cannot run a block;
* no order of the devices (contiguous) or of their stages (interleaved) has every tensor run forwards;
* it uses a device before another one that is as good (not where devices have a fixed order).

The most promising are followed first. When time is over, the remaining ones bound the optimum from below.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from formulations.placed_graphs import BlockCut, block_cut_arrays
from formulations.stage_order import (
    Net,
    StageGraph,
    StageOrder,
    build_arrays,
    data_of,
    device_slots,
    first_slots,
    merged_nets,
    positions_of,
    reduced_order,
    rounded_down,
    stage_graph,
    start_values,
)
from solvers.backends import SOLVERS, LpResult, SolverLimits, solve_guarded
from solvers.placement.slices import COARSE, THRESHOLDS, Positions, improved, late_sources, random_order, slice_order
from solvers.stop import Stop
from topoopt.core.arrays import Bools, Floats, Int32s, Ints
from topoopt.core.errors import InfeasibleError, LimitError
from topoopt.core.placement import PlacementProblem, Throughput
from topoopt.core.proofs import Status, StopReason
from topoopt.simulate.placement import device_loads, max_load_ms

if TYPE_CHECKING:
    import networkx as nx


def contracted(graph: StageGraph, pairs: list[tuple[int, int]]) -> StageGraph:
    """The graph with each first block joined to the second one; no block stands in two pairs."""
    joins = dict(pairs)
    kept = [block for block in range(graph.size) if block not in joins]
    new = np.empty(graph.size, dtype=np.int64)
    new[kept] = np.arange(len(kept))
    for block, into in joins.items():
        new[block] = new[into]
    members: list[list[int]] = [[] for _ in kept]
    for block, operators in enumerate(graph.blocks):
        members[new[block]] += operators
    times = np.zeros((2, len(kept), len(graph.groups)))
    memory = np.zeros(len(kept), dtype=np.int64)
    for block in range(graph.size):
        times[:, new[block]] += graph.time_ms[:, block]
        memory[new[block]] += graph.memory_bytes[block]
    nets = [
        replace(net, source=int(new[net.source]), targets=tuple(int(new[target]) for target in net.targets))
        for net in graph.nets
    ]
    order = {(int(new[a]), int(new[b])) for a, b in graph.order.tolist()} - {(b, b) for b in range(len(kept))}
    return replace(
        graph,
        blocks=tuple(tuple(sorted(operators)) for operators in members),
        time_ms=times,
        memory_bytes=memory,
        order=reduced_order(order, len(kept)),
        nets=merged_nets(nets, graph.costs),
    )


def memory_never_decides(graph: StageGraph) -> bool:
    """Whether every device holds all blocks together."""
    total = int(graph.memory_bytes.sum())
    return all(group.memory_bytes is None or total <= group.memory_bytes for group in graph.groups)


def _neighbours(graph: StageGraph) -> list[tuple[list[Net], list[int], list[int]]]:
    rows: list[tuple[list[Net], list[int], list[int]]] = [([], [], []) for _ in range(graph.size)]
    for net in graph.nets:
        for block in (net.source, *net.targets):
            rows[block][0].append(net)
    for a, b in graph.order.tolist():
        rows[b][1].append(a)
        rows[a][2].append(b)
    return rows


def _idle_target(graph: StageGraph, block: int, nets: list[Net], before: list[int], after: list[int]) -> int | None:
    if graph.time_ms[:, block].any():
        return None
    out = [net for net in nets if net.source == block]
    into = [net for net in nets if net.source != block]
    consumers = {target for net in out for target in net.targets}
    producers = {net.source for net in into}
    ordered = {*before, *after}
    if len(consumers) == 1 and not producers and not before and ordered <= consumers:
        return next(iter(consumers))
    if len(producers) == 1 and not consumers and not after and ordered <= producers:
        return next(iter(producers))
    return None


def _dominated_target(
    graph: StageGraph, block: int, nets: list[Net], before: list[int], after: list[int]
) -> int | None:
    """Where B4 lets a block go; all devices and links are alike."""
    work = float(graph.time_ms[:, block, 0].sum())
    cost = graph.costs.least(nets)[:, 0].tolist()
    total = sum(cost)
    for neighbours in (after, before):
        if len(neighbours) != 1:
            continue
        other = neighbours[0]
        ends = {(block, (other,)), (other, (block,))}  # backward tensors run the other way
        pairs = zip(nets, cost, strict=True)
        shared = sum(ms for net, ms in pairs if (net.source, net.targets) in ends)
        if shared >= work + (total - shared) and shared > 0:
            return other
    return None


def reduced(graph: StageGraph, settings: Throughput) -> StageGraph:
    """The graph after B1 and B4, as far as they are exact for it."""
    if not memory_never_decides(graph) or settings.stages == "free":
        return graph
    alike = len(graph.groups) == 1 and not graph.groups[0].host and graph.costs.uniform
    dominated = (
        alike and settings.schedule == "1f1b" and settings.communication == "added" and settings.stages == "contiguous"
    )
    while True:
        pairs: list[tuple[int, int]] = []
        used: set[int] = set()
        for block, neighbours in enumerate(_neighbours(graph)):
            target = _idle_target(graph, block, *neighbours)
            if target is None and dominated:
                target = _dominated_target(graph, block, *neighbours)
            if target is not None and not {block, target} & used:
                used |= {block, target}
                pairs.append((block, target))
        if not pairs:
            return graph
        graph = contracted(graph, pairs)


CLOSED = 1e-7
"""Relative gap at which nothing is left to prove."""

ORDER_WORK = 4e8
"""Table entries that the orders tried may take together: about a second."""

MOST_ORDERS = 60

POLISHES = 6
"""Rounds of local search, each from the best so far."""


def program_columns(problem: PlacementProblem) -> int:
    """About how many columns the stage-order program has, before reductions."""
    settings = settings_of(problem)
    return (len(problem.colocated()) * settings.stages_per_device + len(problem.tensors)) * len(problem.devices)


def settings_of(problem: PlacementProblem) -> Throughput:
    """The objective; anything else is our own mistake."""
    assert isinstance(problem.objective, Throughput)
    return problem.objective


def work_bound(graph: StageGraph, settings: Throughput) -> float:
    """Mean work over the devices and the largest block, each on its fastest class."""
    phases = [[0], [1]] if settings.schedule == "gpipe" else [[0, 1]]
    total = 0.0
    for phase in phases:
        fastest = graph.time_ms[phase].sum(axis=0).min(axis=1)
        total += max(float(fastest.sum()) / graph.devices, float(fastest.max(initial=0.0)))
    return total


def to_devices(graph: StageGraph, settings: Throughput, positions: Positions) -> Int32s:
    """Device of every operator; stages take the devices of their group in file order."""
    k = graph.devices
    if settings.stages == "contiguous":
        left = [list(group.devices) for group in graph.groups]
        device_of = np.array([left[q].pop(0) for q in positions.group.tolist()])
    else:
        device_of = np.arange(max(k, int(positions.stage.max()) + 1)) % k
    n = sum(len(block) for block in graph.blocks)
    device = np.empty(n, dtype=np.int32)
    for block, operators in enumerate(graph.blocks):
        device[list(operators)] = device_of[positions.stage[block]]
    return device


class Search:
    """One problem being solved: the reduced graph and the best placement so far, valued on the original graph.

    Attributes:
        better: called after each placement that is better than those before.
    """

    def __init__(self, problem: PlacementProblem) -> None:
        self.problem, self.settings = problem, settings_of(problem)
        self.graph = reduced(stage_graph(problem), self.settings)
        self.best: Positions | None = None
        self.value = np.inf
        self.better: Callable[[], None] | None = None

    def offer(self, positions: Positions | None) -> None:
        """Keep a placement if it is the best."""
        if positions is None:
            return
        device = to_devices(self.graph, self.settings, positions)
        value = max_load_ms(self.settings, device_loads(self.problem, device))
        if value < self.value:
            self.best, self.value = positions, value
            if self.better is not None:
                self.better()

    def closed(self) -> bool:
        """Whether the best placement meets the work bound."""
        return self.value <= work_bound(self.graph, self.settings) * (1 + CLOSED)

    def placement(self) -> Int32s:
        """Device of every operator, of the best placement.

        Raises:
            LimitError: Nothing was found.
        """
        if self.best is None:
            raise LimitError("no placement was found within the limit")
        return to_devices(self.graph, self.settings, self.best)


def slice_orders(search: Search, seed: int, stop: Stop, most: int | None = None) -> int:
    """Offer the best slices of several topological orders, at most so many; free sets start from contiguous ones.

    Returns the number of orders, which is one at least.
    """
    graph, settings = search.graph, search.settings
    free = settings.stages == "free"
    if free:
        contiguous = replace(settings, stages="contiguous")
        graph = stage_graph(replace(search.problem, objective=contiguous))
    tables = graph.devices * (THRESHOLDS if settings.schedule == "gpipe" else 1)
    count = int(np.clip(ORDER_WORK / max(min(graph.size, COARSE) ** 2 * tables, 1), 3, MOST_ORDERS))
    if most is not None:
        count = max(1, min(count, most))
    rng = np.random.default_rng(seed)
    for trial in range(count):
        order = random_order(graph, None if trial == 0 else rng)
        if trial % 2:
            order = late_sources(graph, order)
        offer_order(search, graph, order)
        if stop.reason() is not None:
            return trial + 1
    return count


def offer_order(search: Search, graph: StageGraph, order: list[int]) -> None:
    """Offer the best slices of one topological order of the graph, which for free sets is the contiguous one."""
    settings = search.settings
    fixed = None if settings.stages == "contiguous" else device_slots(graph)
    for average in (False,) if graph.costs.uniform else (False, True):
        slices = slice_order(graph, settings, order, fixed, average=average)
        if slices is not None:
            own = graph is search.graph
            search.offer(slices if own else replace(slices, stage=_onto(search.graph, graph, slices.stage)))


def _onto(graph: StageGraph, other: StageGraph, stage: Ints) -> Ints:
    """Stages of the blocks of one graph as those of another, whose blocks are parts of the first one's."""
    at = {operator: int(stage[b]) for b, operators in enumerate(other.blocks) for operator in operators}
    return np.array([at[operators[0]] for operators in graph.blocks], dtype=np.int64)


def polish(search: Search, seed: int, stop: Stop, moves: int | None = None) -> None:
    """Offer what local search makes of the best placement; `moves`: limit on the moves tried."""
    if search.best is None:
        return
    graph, settings, k = search.graph, search.settings, search.graph.devices
    stages = k * settings.stages_per_device if settings.stages == "interleaved" else k
    slots = [stage % k for stage in range(stages)]
    contiguous = settings.stages == "contiguous"
    steps = int(np.clip(500_000 // (graph.size + 10 * k), 1_000, 10_000))
    rng = np.random.default_rng(seed)
    left = POLISHES * steps if moves is None else min(moves, POLISHES * steps)
    while left > 0:
        if stop.reason() is not None or search.closed():
            return
        trials = min(steps, left)
        left -= trials
        start = search.best
        if not contiguous:
            start = replace(start, group=np.array(device_slots(graph)))
        swaps = contiguous and len(graph.groups) > 1
        stage, group = improved(graph, settings, start.stage, slots, start.group.tolist(), rng, trials, swaps=swaps)
        search.offer(Positions(stage, group))


LEAST_S = 0.2
"""Time below which a solver is not started."""

KEPT_S = 0.3
"""Time kept from a solver, besides that of building its program, for handing programs over and looking at results."""

GRACE_S = 1.5
"""After the limit so much later a solver is killed; what it had found stays."""


def everything(graph: StageGraph) -> float:
    """What no objective exceeds: all work on the slowest class and all nets, for both phases."""
    work = np.where(np.isfinite(graph.time_ms), graph.time_ms, 0.0).sum(axis=0).max(axis=1).sum()
    nets = (float(np.nan_to_num(graph.costs.between(net), posinf=0.0).max()) for net in graph.nets)
    return 1.1 * (float(work) + sum(nets))


def normal_form(data: StageOrder, best: Positions) -> Positions:
    """The same placement with like slots of free sets in order of their first blocks, as the program wants it."""
    if data.slot_of_stage is not None or data.group_of_slot is None:
        return best
    new: dict[int, int] = {}
    for slots in first_slots(data):
        used = [s for s in dict.fromkeys(best.stage.tolist()) if s in slots]
        rest = [s for s in slots if s not in used]
        new.update(zip([*used, *rest], slots, strict=True))
    return Positions(np.array([new[s] for s in best.stage.tolist()]), best.group)


def prove(search: Search, backend: str, seed: int, stop: Stop) -> tuple[float, StopReason]:
    """Solve the stage-order program, offer what it finds; the bound it claims, and why it stopped.

    For CP-SAT times are rounded down to whole units, so that the least load of the program is a lower bound in exact
    arithmetic; if the gap that rounding leaves is too large, once more with smaller units.

    Raises:
        InfeasibleError: Proven that nothing fits.
    """
    best, stopped_by = 0.0, StopReason.CONVERGED
    for rounding in (1e-6, 1e-8) if backend == "cp-sat" else (0.0,):
        left = stop.remaining_s()
        if stop.interrupted.is_set() or (left is not None and left < LEAST_S):
            return best, stop.reason() or StopReason.TIME
        bound, stopped_by = _proven(search, backend, rounding, seed, stop)
        best = max(best, bound)
        if stopped_by is not StopReason.CONVERGED or search.value - best <= CLOSED * search.value:
            break
    return best, stopped_by


def _proven(search: Search, backend: str, rounding: float, seed: int, stop: Stop) -> tuple[float, StopReason]:
    """One solve: (bound, why it stopped); times in whole units unless `rounding` is 0."""
    graph = search.graph
    upper = search.value if math.isfinite(search.value) else everything(graph)
    data = data_of(graph, search.settings, lower=work_bound(graph, search.settings), upper=upper)
    unit = 1.0
    if rounding:
        terms = 2 * (data.blocks + len(data.nets)) + 1
        unit = float(2.0 ** math.floor(math.log2(upper * rounding / terms) if upper > 0 else 0.0))
        data = rounded_down(data, unit)
    began = time.monotonic()
    program = build_arrays(data)
    start = None
    if search.best is not None:
        best = normal_form(data, search.best)
        start = start_values(data, program, best.stage, best.group)
    kept = KEPT_S + time.monotonic() - began

    def solved(options: dict[str, int]) -> LpResult:
        left = stop.remaining_s()
        limits = SolverLimits(time_s=None if left is None else max(LEAST_S, left - kept), seed=seed % 2**31)
        return solve_guarded(backend, program, limits, options, start, stop=stop, grace_s=kept + GRACE_S)

    result = solved({})
    for options in ({"cp_model_probing_level": 0}, {"cp_model_presolve": 0}) if backend == "cp-sat" else ():
        # seen with large coefficients: infeasible, although the start is feasible; not so without probing or presolve
        if result.stopped_by is StopReason.ERROR:
            result = solved(options)
    if result.status is Status.INFEASIBLE and search.best is None:
        raise InfeasibleError("no placement fits: memory, co-location and device classes leave none")
    if result.x is not None:
        search.offer(Positions(*positions_of(data, program, result.x)))
    return (0.0 if result.bound is None else result.bound * unit), result.stopped_by


@dataclass(frozen=True, eq=False)
class Partial:
    """Partial assignments, one a row.

    Attributes:
        device: int64[rows, blocks assigned].
        compute, sent: float64[rows, 2, devices], by phase.
        memory: int64[rows, devices].
        after: int64[rows, devices], the devices that come later in the pipeline, as bits (contiguous).
        stage: int64[rows, blocks assigned], earliest stages (interleaved).
        bound: float64[rows], below the objective of whatever follows.
    """

    device: Ints
    compute: Floats
    sent: Floats
    memory: Ints
    after: Ints
    stage: Ints
    bound: Floats

    def rows(self, which: Ints | Bools | slice) -> Partial:
        """Return the partial assignments of some rows."""
        return Partial(**{name: table[which] for name, table in vars(self).items()})


def _payments(graph: StageGraph, net: Net, group: list[int]) -> Floats:
    """float64[devices, sets of devices, devices]: what each device pays, by source and set of consumers' devices."""
    k = len(group)
    pair = graph.costs.between(net)[np.ix_(group, group)]
    pair[np.arange(k), np.arange(k)] = 0.0
    inside = (np.arange(2**k)[:, None] >> np.arange(k)) & 1 == 1
    paid = np.where(inside[None], pair[:, None, :], 0.0)
    slowest = paid.max(axis=2)
    paid[np.arange(k), :, np.arange(k)] = slowest
    paid[:, :, [graph.groups[q].host for q in group]] = 0.0
    return np.asarray(paid)


def _sequence(graph: StageGraph) -> list[int]:
    """Blocks in a topological order; of those that may come next, the one with most work and traffic."""
    import networkx as nx

    weight = np.where(np.isfinite(graph.time_ms), graph.time_ms, 0.0).sum(axis=0).mean(axis=1)
    for net, cost in zip(graph.nets, graph.costs.mean(graph.nets).mean(axis=1).tolist(), strict=True):
        weight[[net.source, *net.targets]] += cost
    order: nx.DiGraph[int] = nx.DiGraph()
    order.add_nodes_from(range(graph.size))
    order.add_edges_from(graph.order.tolist())
    return list(nx.lexicographical_topological_sort(order, key=lambda block: (-weight[block], block)))


class AssignmentTree:
    """What does not change while the assignments of one problem are looked through; `order`: blocks as they come."""

    def __init__(self, graph: StageGraph, settings: Throughput) -> None:
        self.graph, self.settings = graph, settings
        self.group = list(device_slots(graph))
        self.k = len(self.group)
        self.order = _sequence(graph)
        self._place = {block: i for i, block in enumerate(self.order)}
        self._nets: list[list[int]] = [[] for _ in self.order]
        for t, net in enumerate(graph.nets):
            for block in (net.source, *net.targets):
                self._nets[self._place[block]].append(t)
        self._paid = [_payments(graph, net, self.group) for net in graph.nets]
        self._before: list[list[int]] = [[] for _ in self.order]
        for a, b in graph.order.tolist():
            self._before[self._place[b]].append(self._place[a])
        phases = [[0], [1]] if settings.schedule == "gpipe" else [[0, 1]]
        fastest = np.array([graph.time_ms[phase].sum(axis=0).min(axis=1)[self.order] for phase in phases])
        self._phases = phases
        self._left = np.concatenate([np.cumsum(fastest[:, ::-1], axis=1)[:, ::-1], np.zeros((len(phases), 1))], axis=1)
        limits = [graph.groups[q].memory_bytes for q in self.group]
        self._capacity = [np.iinfo(np.int64).max if limit is None else limit for limit in limits]

    def root(self) -> Partial:
        """The partial assignment in which no block has a device."""
        none, idle = np.zeros((1, 0), dtype=np.int64), np.zeros((1, 2, self.k))
        zero = np.zeros((1, self.k), dtype=np.int64)
        return Partial(none, idle, idle, zero, zero, none, np.zeros(1))

    def extended(self, part: Partial, below: float) -> Partial:
        """All ways to assign the next block that may lead to an objective below this."""
        parts = [extended for d in range(self.k) if (extended := self._with(part, d)) is not None]
        if not parts:
            parts = [self._put(part.rows(slice(0, 0)), 0)]
        joined = Partial(**{name: np.concatenate([vars(part)[name] for part in parts]) for name in vars(part)})
        joined = replace(joined, bound=np.maximum(joined.bound, self._bound(joined)))
        return joined.rows(joined.bound < below)

    def _with(self, part: Partial, d: int) -> Partial | None:
        """The next block on one device, in the rows where that is allowed; None if it is nowhere."""
        block, q = self.order[part.device.shape[1]], self.group[d]
        if not np.isfinite(self.graph.time_ms[:, block, q]).all():
            return None
        keep = part.memory[:, d] + self.graph.memory_bytes[block] <= self._capacity[d]
        peers = [e for e in range(d) if self.group[e] == q]
        if peers and self.settings.stages != "interleaved":
            keep &= (part.device == peers[-1]).any(axis=1)  # like devices are used in file order
        keep &= self._in_order(part, d)
        return self._put(part.rows(keep), d) if keep.any() else None

    def _in_order(self, part: Partial, d: int) -> Bools:
        """bool[rows]: whether what the next block needs can come before it."""
        at = part.device.shape[1]
        if self.settings.stages == "interleaved":
            return np.asarray(self._earliest(part, d) < self.k * self.settings.stages_per_device)
        good = np.ones(len(part.bound), dtype=bool)
        if self.settings.stages == "contiguous":
            for i in self._before[at]:
                good &= (part.after[:, d] >> part.device[:, i]) & 1 == 0
        return good

    def _earliest(self, part: Partial, d: int) -> Ints:
        """int64[rows]: first stage of a device not before the stages of what the next block needs."""
        low = part.stage[:, self._before[part.device.shape[1]]].max(axis=1, initial=0)
        return np.asarray(low + (d - low) % self.k)

    def _put(self, part: Partial, d: int) -> Partial:
        at, rows = part.device.shape[1], len(part.bound)
        block = self.order[at]
        compute, memory = part.compute.copy(), part.memory.copy()
        compute[:, :, d] += self.graph.time_ms[:, block, self.group[d]]
        memory[:, d] += self.graph.memory_bytes[block]
        after, stage = part.after.copy(), part.stage
        if self.settings.stages == "contiguous":
            for i in self._before[at]:
                source = part.device[:, i]
                later = after[:, d] | 1 << d
                leads = ((after >> source[:, None]) & 1 == 1) | (np.arange(self.k) == source[:, None])
                leads &= (source != d)[:, None]
                after |= np.where(leads, later[:, None], 0)
        elif self.settings.stages == "interleaved":
            stage = np.column_stack([stage, self._earliest(part, d)])
        device = np.column_stack([part.device, np.full(rows, d)])
        return Partial(device, compute, self._sent(part, device), memory, after, stage, part.bound)

    def _sent(self, part: Partial, device: Ints) -> Floats:
        at, sent = device.shape[1] - 1, part.sent.copy()
        for t in self._nets[at]:
            net = self.graph.nets[t]
            source = self._place[net.source]
            if source > at:
                continue
            users = np.zeros(len(device), dtype=np.int64)
            for position in (self._place[v] for v in net.targets):
                if position < at:
                    users |= 1 << device[:, position]
            if source != at:
                sent[:, net.phase] -= self._paid[t][device[:, source], users]
                users |= 1 << device[:, at]
            sent[:, net.phase] += self._paid[t][device[:, source], users]
        return sent

    def _bound(self, part: Partial) -> Floats:
        """float64[rows]: busiest device so far, and all work and transfers over all devices."""
        left = self._left[:, part.device.shape[1]]
        total = np.zeros(len(part.bound))
        for phase, rest in zip(self._phases, left.tolist(), strict=True):
            compute, sent = part.compute[:, phase].sum(axis=1), part.sent[:, phase].sum(axis=1)
            if self.settings.communication == "added":
                load = compute + sent
                mean = load.sum(axis=1)
            else:
                load, mean = np.maximum(compute, sent), compute.sum(axis=1)
            total += np.maximum(load.max(axis=1), (mean + rest) / self.k)
        return total


MOST_DEVICES = 8
"""Costs of a net are tabulated for all sets of devices."""

PIECE = 4096
"""Partial assignments extended at once."""

MOST_ROWS = 4_000_000
"""Partial assignments extended at most; 10 blocks on 4 devices have 1.4 million without any cut off."""

ROUNDING = 1e-12
"""What is not better by more than this part of the objective is not better."""


def _positions(tree: AssignmentTree, leaves: Partial, row: int) -> Positions:
    """A complete assignment as stages (slots of free sets) and groups of slots."""
    import networkx as nx

    device, stage = np.empty(tree.graph.size, dtype=np.int64), np.empty(tree.graph.size, dtype=np.int64)
    device[tree.order] = leaves.device[row]
    if tree.settings.stages == "interleaved":
        stage[tree.order] = leaves.stage[row]
        return Positions(stage, np.array(tree.group))
    if tree.settings.stages == "free":
        return Positions(device, np.array(tree.group))
    later: nx.DiGraph[int] = nx.DiGraph()
    used = set(device.tolist())
    later.add_nodes_from(range(tree.k))
    later.add_edges_from((d, e) for d in used for e in used if int(leaves.after[row, d]) >> e & 1)
    pipeline = list(nx.lexicographical_topological_sort(later, key=lambda d: (d not in used, d)))
    position = np.argsort(pipeline)
    return Positions(position[device], np.array([tree.group[d] for d in pipeline]))


def enumerate_assignments(search: Search, stop: Stop, most_rows: int = MOST_ROWS) -> tuple[float, StopReason]:
    """Offer the best of all assignments; a lower bound on the objective, and why it ended.

    The bound is the value of the best placement where all were looked at, infinite if there is none.
    """
    if search.graph.devices > MOST_DEVICES:
        return 0.0, StopReason.BUDGET
    tree = AssignmentTree(search.graph, search.settings)
    left, rows = [tree.root()], 0
    while left:
        reason = stop.reason() or (StopReason.BUDGET if rows >= most_rows else None)
        if reason is not None:
            return min([search.value, *(float(part.bound.min()) for part in left)]), reason
        part = left.pop()
        part = part.rows(part.bound < search.value * (1 - ROUNDING))
        rows += len(part.bound)
        part = tree.extended(part, search.value * (1 - ROUNDING))
        if not len(part.bound):
            continue
        if part.device.shape[1] == search.graph.size:
            search.offer(_positions(tree, part, int(np.argmin(part.bound))))
            continue
        part = part.rows(np.argsort(-part.bound, kind="stable"))
        left += [part.rows(slice(i, i + PIECE)) for i in range(0, len(part.bound), PIECE)]
    return search.value, StopReason.CONVERGED


def block_prices(problem: PlacementProblem, limit_ms: float, stop: Stop) -> tuple[Floats, Floats] | None:
    """Return prices that bound the cut around every co-located group, by linear programs; None if time is over.

    Returns:
        Of the load, float64[groups], and of the ends of tensors, float64[groups, ends]; 0 for groups without work.
    """
    data = BlockCut.of(problem, limit_ms, 0)
    load = np.zeros(len(data.work_ms))
    ends = np.zeros((len(load), sum(map(len, data.cost_ms))))
    for block in np.flatnonzero(data.work_ms).tolist():
        result = SOLVERS["highs"](block_cut_arrays(replace(data, block=block)), SolverLimits(time_s=stop.remaining_s()))
        if result.row_dual is None or stop.reason() is not None:
            return None
        *high_and_low, price = result.row_dual.tolist()
        load[block] = -price
        ends[block] = np.array(high_and_low[::2]) - np.array(high_and_low[1::2])
    return load, ends
