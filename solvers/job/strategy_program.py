"""Branch and bound solves the strategy program (`strategy_choice`) with a proof, and gives a starting strategy from
its bulk-synchronous form.

The proof is a tree of cuts with the duals of a linear relaxation at every leaf; `strategy_certificate` evaluates it
from the instance, so no claim of the solver is trusted. Work is limited by counts, never by the clock. Operators to
divide are chosen by strong branching with a memory (reliability branching: Achterberg, Koch and Martin, 2005): those
that were never divided are tried, the others are judged by what their divisions gave in the mean.

For the starting strategy, an iteration is taken as a compute phase and then a communication phase, all servers
equally loaded (n servers, degree d, link rate B):

    T = C + N,   C = max(work, chain),   N = (reduced + moved * h) / (n d B)

work: time of all parts over n; chain: longest path of forward tasks and back; reduced: 2 (k-1) S bytes of every
AllReduce of S bytes over k servers; moved: forward and backward bytes between operators that are joined by an edge,
both at offset 0 (none between equal splits, whose parts meet on the same servers); h: the least mean number of hops
that d interfaces allow (Moore). Chosen splits are placed as the model assumes: operators of equal split joined by
edges form a block and share an offset, blocks are spread over the servers, the longest first.

The estimate is no bound (`strategy_laws` has those): it leaves out overlap, which makes it too high, and imbalance,
which makes it too low. It only offers a strategy; the search keeps what it simulates to be better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from formulations.job_plans import EventLaw, StrategyChoice, chosen_splits, longest_path, strategy_choice_arrays
from formulations.programs import LpArrays
from solvers.backends import SOLVERS, SolverLimits
from solvers.backends.backend import Scaling, scaling_of
from solvers.backends.highs import load
from solvers.network.space import layer_sizes
from solvers.stop import BestFirst
from topoopt.core.arrays import Bools, Floats
from topoopt.core.cluster import Cluster
from topoopt.core.workload import (
    GRADIENT_BYTES,
    Operator,
    OperatorInput,
    Placement,
    Strategy,
    StrategyCase,
    StrategyCut,
    TaskKind,
    Workload,
)
from topoopt.simulate.network import build_task_graph

if TYPE_CHECKING:
    import highspy


WHOLE = 1e-6
TRIED = 6
"""Operators without a memory that are tried at a case."""

LEAST = 1e-4
"""What a half counts that did not rise, as a part of the value of the case."""

Allowed = tuple[Bools, ...]


Relaxed = tuple[float, tuple[Floats, ...], StrategyCase]
"""The linear relaxation of a case: optimum as duals prove it, ms, z, float64[states] per operator, and the duals."""

Division = tuple[int, Bools, tuple[tuple[Relaxed | None, Allowed], ...], float]
"""A case in two: the operator, its states inside, of each half its relaxation and the states allowed, and the gain."""


class Branching:
    """Divides cases; remembers what came of it."""

    def __init__(self, relax: Callable[[Allowed], Relaxed | None], operators: int) -> None:
        self._relax = relax
        self._gain, self._times = np.zeros(operators), np.zeros(operators)
        self.solved = 0

    def best(self, case: Relaxed, allowed: Allowed) -> Division | None:
        """The division that promises most; None if all operators are decided."""
        undecided = np.array([1.0 - float(share.max()) for share in case[1]])
        if undecided.max() <= WHOLE:
            return None
        candidates = np.flatnonzero(undecided > WHOLE)
        evaluated = candidates[self._times[candidates] > 0]
        new = [o for o in candidates[np.argsort(-undecided[candidates], kind="stable")] if not self._times[o]]
        tried = [self._divided(case, allowed, int(operator)) for operator in new[:TRIED]]
        if len(evaluated):
            expected = self._gain[evaluated] / self._times[evaluated]
            if not tried or expected.max() >= max(gain for *_, gain in tried):
                return self._divided(case, allowed, int(evaluated[int(np.argmax(expected))]))
        return max(tried, key=lambda division: division[3])

    def _divided(self, case: Relaxed, allowed: Allowed, operator: int) -> Division:
        share = case[1][operator]
        inside: Bools = np.arange(len(share)) == int(np.argmax(share))
        halves: list[tuple[Relaxed | None, Allowed]] = []
        for mask in (inside, ~inside):
            part = (*allowed[:operator], allowed[operator] & mask, *allowed[operator + 1 :])
            halves.append((self._relax(part), part))
            self.solved += 1
        # a half without a strategy counts as much as the case
        value = case[0]
        rises = [value if half is None else half[0] - value for half, _ in halves]
        gain = float(np.prod([max(rise / value, LEAST) for rise in rises])) if value > 0 else 0.0
        self._gain[operator] += gain
        self._times[operator] += 1
        return operator, inside, tuple(halves), gain


class WarmProgram:
    """The relaxation of a program, in units that suit the solver; as it is given where none do."""

    def __init__(self, program: LpArrays) -> None:
        self._program = program
        self._integers = np.flatnonzero(program.is_integer).astype(np.int32)
        self._scaling = scaling_of(program)
        self._solver = _loaded(program, self._scaling)
        self._suits = False

    def solve(self, allowed: Bools) -> tuple[float, Floats, Floats] | None:
        """Least value, the integer columns, and duals of the rows; None where there is no optimum.

        Args:
            allowed: of each integer column whether it may be above 0.
        """
        solved = self._solved(allowed)
        if solved is None and self._scaling is not None and not self._suits:
            # No units suit numbers that lie too far apart; as they are given they may do.
            self._scaling = None
            self._solver = _loaded(self._program, None)
            solved = self._solved(allowed)
        self._suits = self._suits or solved is not None
        return solved

    def _solved(self, allowed: Bools) -> tuple[float, Floats, Floats] | None:
        import highspy

        upper = np.where(allowed, self._program.upper[self._integers], 0.0)
        self._solver.changeColsBounds(len(upper), self._integers, np.zeros(len(upper)), upper)
        self._solver.run()
        solution = self._solver.getSolution()
        if self._solver.getModelStatus() != highspy.HighsModelStatus.kOptimal or not solution.dual_valid:
            return None
        self._solver.setOptionValue("presolve", "off")  # from here on there is a basis to begin from
        value = float(self._solver.getInfo().objective_function_value)
        # The units of integer columns are their own.
        chosen, dual = np.array(solution.col_value)[self._integers], np.array(solution.row_dual)
        if self._scaling is None:
            return value, chosen, dual
        return value / self._scaling.cost, chosen, dual * self._scaling.row / self._scaling.cost


def _loaded(program: LpArrays, scaling: Scaling | None) -> highspy.Highs:
    import highspy

    solver: Any = highspy.Highs()
    for option, value in {"output_flag": False, "threads": 1, "solver": "simplex"}.items():
        solver.setOptionValue(option, value)
    load(solver, replace(program if scaling is None else scaling.applied(program), integer=None))
    return solver


Tree = tuple[StrategyCut | StrategyCase, ...]

MOST_COEFFICIENTS = 200_000
"""Programs with more are not solved. Of the jobs in `instances` the largest have 150 000 (gpt-16, 1.0 s of one core by
HiGHS dual simplex) and 100 000 (bert-128, 2.9 s)."""

QUICK_COEFFICIENTS = 20_000
"""Where time is up, programs with more are not solved: what is left takes some tenths of a second."""

SOLVED_COEFFICIENTS = 6_000_000
"""Linear programs of a proof times their coefficients, at most about; one program at least, `MOST_PROGRAMS` at most."""

MOST_PROGRAMS = 150

IN_VAIN, RISE = 24, 1e-5
"""A proof ends when so many programs in a row raised the bound by less than this part of it."""


def prove(
    data: StrategyChoice,
    most_coefficients: int = MOST_COEFFICIENTS,
    *,
    fewer: StrategyChoice | None = None,
    allowed: Allowed | None = None,
    programs: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Tree | None:
    """Best proof within the limits: the relaxation, then the case of least value is cut in two, again and again.

    A case whose relaxation is whole cannot be improved, and ends the search when it is the least. None if the program
    has more than `most_coefficients` or its relaxation has no optimum (nothing is proven then).

    Args:
        fewer: the program with fewer laws. Its relaxation is no better, but its cases may be, as it has more of them;
            the better tree counts. Weights of laws in its cases tell which list of laws it is of.
        allowed: bool[states] per operator, those that the proof is for; None: all.
        programs: linear programs solved, about; None: by the size of the program, and no more where they are in vain.
        stop: whether time is up; the tree so far is a proof.
    """
    every = allowed or tuple(np.ones(count, dtype=np.bool_) for count in data.splits)
    best: tuple[float, Tree] | None = None
    for laws in (data,) if fewer is None else (data, fewer):
        program = strategy_choice_arrays(laws)
        warm = WarmProgram(program) if program.nonzeros <= most_coefficients else None
        first = None if warm is None else _relax(laws, warm, every)
        if warm is None or first is None or (best is not None and _rounded_ms(laws, first) <= best[0]):
            continue
        most = programs or max(1, min(MOST_PROGRAMS, SOLVED_COEFFICIENTS // max(1, program.nonzeros)))
        tree = _branched(laws, warm, first, most, every, stop, patient=programs is not None)
        best = tree if best is None or tree[0] > best[0] else best
    return None if best is None else best[1]


def _rounded_ms(data: StrategyChoice, relaxed: Relaxed) -> float:
    """What no proof of the program exceeds, ms: the laws of the likeliest states, where these fit the memory."""
    states = tuple(int(share.argmax()) for share in relaxed[1])
    shares = data.memory_share
    if shares is not None and sum(float(of[s]) for of, s in zip(shares, states, strict=True)) > 1.0:
        return np.inf
    return longest_path(data, states)


def _branched(
    data: StrategyChoice,
    warm: WarmProgram,
    first: Relaxed,
    most: int,
    every: Allowed,
    stop: Callable[[], bool],
    *,
    patient: bool,
) -> tuple[float, Tree]:
    """What the tree from a relaxation proves, about, ms, and the tree.

    Args:
        most: linear programs, the first among them.
        patient: go on where they are in vain.
    """
    nodes: list[StrategyCut | StrategyCase] = [first[2]]
    tree: BestFirst[tuple[float, int, Relaxed, Allowed]] = BestFirst()
    tree.add(first[0], (first[0], 0, first, every))
    branching = Branching(lambda allowed: _relax(data, warm, allowed), len(data.splits))
    risen, risen_at, settled = first[0], 0, np.inf
    while branching.solved < most - 1 and tree.bound < settled and not stop():
        value, at, here, part = tree.pop()
        if value > risen * (1.0 + RISE):
            risen, risen_at = value, branching.solved
        vain = not patient and branching.solved - risen_at > IN_VAIN
        cut = None if vain else branching.best(here, part)
        if cut is None:
            settled = value
            break
        operator, inside, halves, _ = cut
        nodes[at] = StrategyCut(operator, tuple(np.flatnonzero(inside).tolist()), len(nodes), len(nodes) + 1)
        for child, states in halves:
            if child is None:  # the multipliers of the case above hold in this one, too: any do
                nodes.append(here[2])
                settled = min(settled, here[0])
            else:
                nodes.append(child[2])
                bound = max(child[0], here[0])
                tree.add(bound, (bound, len(nodes) - 1, child, states))
    return min(tree.bound, settled), tuple(nodes)


def _relax(data: StrategyChoice, warm: WarmProgram, allowed: Allowed) -> Relaxed | None:
    """The relaxation with only some states allowed; None: the solver found no optimum (nothing fits, or it failed)."""
    result = warm.solve(np.concatenate(allowed))
    if result is None:
        return None
    value, chosen, dual = result
    shares = tuple(chosen[low:high] for low, high in pairwise(data.split_start.tolist()))
    return value, shares, _case(data, dual)


def _case(data: StrategyChoice, dual: Floats) -> StrategyCase:
    rows = data.rows_of_pairs
    law_at = int(rows[-1]) + len(data.quantities)
    weights = dual[law_at : law_at + len(data.laws)]
    prices = []
    for (u, _), low, high in zip(data.pairs, rows[:-1], rows[1:], strict=True):
        cut = low + data.splits[u]
        ends = [-dual[low:cut], -dual[cut:high]]
        prices.append((tuple(map(_short, ends[0].tolist())), tuple(map(_short, ends[1].tolist()))))
    return StrategyCase(
        laws=tuple((law.name, _short(w)) for law, w in zip(data.laws, weights.tolist(), strict=True) if w > 0.0),
        memory=max(0.0, -_short(float(dual[-1]))) if data.memory_share is not None else 0.0,
        prices=tuple(prices),
    )


def _short(number: float) -> float:
    """A multiplier to nine digits: any number proves what it proves, and a file of many cases is half as long."""
    return float(f"{number:.9g}") + 0.0


def choose_splits(data: StrategyChoice, nodes: int) -> tuple[int, ...] | None:
    """Splits of a good strategy by branch and bound with at most `nodes` nodes; None: none found, or too large.

    The value of the result is `longest_path`; how far it is from the least is not claimed here.
    """
    program = strategy_choice_arrays(data)
    if program.nonzeros > MOST_COEFFICIENTS:
        return None
    options = {"mip_max_nodes": nodes, "mip_rel_gap": 1e-4}
    result = SOLVERS["highs"](program, SolverLimits(), options)
    return None if result.x is None else chosen_splits(data, result.x)


MOST_PAIR_SPLITS = 1_000
"""No start is looked for where the pairs of operators have more pairs of splits in all: branch and bound takes some
2 s there. DLRM on 16 servers has 655, CANDLE 1 750; the jobs of a few operators in `instances` have 33 to 200."""

NODES = 20
"""Nodes of the branch and bound: a count, so that the same instance gives the same start."""


def program_start(cluster: Cluster, workload: Workload) -> Strategy | None:
    """The placed strategy of least estimated time that few nodes of branch and bound find; None: too large, or none."""
    n, operators = cluster.servers, workload.operators
    pairs = sorted({(edge.producer, v) for v, operator in enumerate(operators) for edge in operator.inputs})
    sizes = [len(operators[u].splits) * len(operators[v].splits) for u, v in pairs]
    if n < 2 or sum(sizes) > MOST_PAIR_SPLITS:
        return None
    chosen = choose_splits(bulk_synchronous(cluster, workload), NODES)
    return None if chosen is None else place_blocks(n, workload, chosen)


def bulk_synchronous(cluster: Cluster, workload: Workload) -> StrategyChoice:
    """The program of the cost model in the module text; event 1 + o: forward of o may start, then backward, C, T."""
    n, operators = cluster.servers, workload.operators
    count = len(operators)
    rate = n * cluster.degree * cluster.link_bytes_per_ms
    pairs = sorted({(edge.producer, v) for v, operator in enumerate(operators) for edge in operator.inputs})
    parts = [np.array([split.parts for split in operator.splits], dtype=np.float64) for operator in operators]
    forward = [np.array([split.forward_ms for split in operator.splits]) for operator in operators]
    backward = [np.array([split.backward_ms for split in operator.splits]) for operator in operators]
    quantities = [(o, forward[o]) for o in range(count)]
    quantities += [(o, backward[o]) for o in range(count)]
    quantities += [(o, (forward[o] + backward[o]) * parts[o] / n) for o in range(count)]
    quantities += [(o, _reduced(operator) / rate) for o, operator in enumerate(operators)]
    hops = mean_hops(cluster)
    cached: dict[object, Floats] = {}
    for e, (u, v) in enumerate(pairs):
        quantities.append((e, moved_bytes(cluster, workload, u, v, cached) * hops / rate))
    back, done, end = 2 * count, 2 * count + 1, 2 * count + 2
    laws = []
    for o in range(count):
        laws.append(EventLaw(f"begin {o}", 0, 1 + o, 0.0, ()))
        laws.append(EventLaw(f"turn {o}", 1 + o, back - o, 0.0, ((o, 1.0),)))
        laws.append(EventLaw(f"finish {o}", back - o, done, 0.0, ((count + o, 1.0),)))
    for u, v in pairs:
        laws.append(EventLaw(f"forward {u}>{v}", 1 + u, 1 + v, 0.0, ((u, 1.0),)))
        laws.append(EventLaw(f"backward {v}>{u}", back - v, back - u, 0.0, ((count + v, 1.0),)))
    laws.append(EventLaw("work", 0, done, 0.0, tuple((2 * count + o, 1.0) for o in range(count))))
    traffic = [(3 * count + o, 1.0) for o in range(count)] + [(4 * count + e, 1.0) for e in range(len(pairs))]
    laws.append(EventLaw("traffic", done, end, 0.0, tuple(traffic)))
    limits = None
    memory = cluster.server_memory_bytes
    if memory is not None:
        limits = tuple(
            np.array([split.parts * split.server_memory_bytes / (n * memory) for split in operator.splits])
            for operator in operators
        )
    return StrategyChoice(
        tuple(len(operator.splits) for operator in operators),
        tuple(pairs),
        tuple(quantities),
        tuple(laws),
        end + 1,
        limits,
    )


def mean_hops(cluster: Cluster) -> float:
    """Least mean distance between servers that the degree allows (Moore)."""
    within = [0, *layer_sizes(cluster.servers, cluster.degree, cluster.links)]
    reached = np.diff(within)
    left = cluster.servers - 1 - within[-1]  # out of reach: one hop more is as good a guess as any
    total = float((reached * np.arange(1, len(reached) + 1)).sum()) + left * (len(reached) + 1)
    return total / (cluster.servers - 1)


def _reduced(operator: Operator) -> Floats:
    """float64[splits]: bytes all members send in the AllReduces of an operator."""
    return np.array(
        [
            sum(
                2.0 * (split.sample_ways - 1) * blocks * (GRADIENT_BYTES * elements // blocks)
                for elements in operator.weight_elements
            )
            for split in operator.splits
            for blocks in (split.channel_ways * split.reduce_ways,)
        ]
    )


def moved_bytes(
    cluster: Cluster, workload: Workload, producer: int, consumer: int, cached: dict[object, Floats]
) -> Floats:
    """float64[splits of producer, splits of consumer]: bytes moved both ways, parts from offset 0; kept in `cached`."""
    job = pair_job(workload, producer, consumer)
    first, second = job.operators
    key = first.output_elements, first.element_bytes, first.splits, second.inputs, second.mixes_channels, second.splits
    if key not in cached:
        table = np.zeros((len(first.splits), len(second.splits)))
        for s in range(len(first.splits)):
            for t in range(len(second.splits)):
                graph = build_task_graph(cluster, job, Strategy((Placement(s, 0), Placement(t, 0))))
                table[s, t] = float(graph.bytes[graph.kind == TaskKind.TRANSFER].sum())
        cached[key] = table
    return cached[key]


def pair_job(workload: Workload, producer: int, consumer: int) -> Workload:
    """A job of two operators joined by an edge, without weights: what it transfers is what the two exchange."""
    second = workload.operators[consumer]
    reads = tuple(OperatorInput(0, edge.fraction) for edge in second.inputs if edge.producer == producer)
    pair = (
        replace(workload.operators[producer], name="", inputs=(), weight_elements=(), pinned_offset=None),
        replace(second, name="", inputs=reads, weight_elements=(), pinned_offset=None),
    )
    return Workload("pair", workload.samples, pair)


def place_blocks(n: int, workload: Workload, chosen: Sequence[int]) -> Strategy:
    """Operators of equal split joined by edges on one offset, blocks on the least loaded cosets, the longest first."""
    splits = [operator.splits[index] for operator, index in zip(workload.operators, chosen, strict=True)]
    block = list(range(len(splits)))

    def root(o: int) -> int:
        while block[o] != o:
            block[o] = block[block[o]]
            o = block[o]
        return o

    for v, operator in enumerate(workload.operators):
        for edge in operator.inputs:
            same = splits[edge.producer].label == splits[v].label
            if same and workload.operators[edge.producer].pinned_offset == operator.pinned_offset:
                block[root(v)] = root(edge.producer)
    members: dict[int, list[int]] = {}
    for o in range(len(splits)):
        members.setdefault(root(o), []).append(o)
    load = [0.0] * n
    offset = [0] * len(splits)
    spans = {b: sum(splits[o].forward_ms + splits[o].backward_ms for o in of) for b, of in members.items()}
    pinned = {b for b, of in members.items() if workload.operators[of[0]].pinned_offset is not None}
    for b in sorted(members, key=lambda b: (b not in pinned, -spans[b], b)):
        stride = n // splits[b].parts
        fixed = workload.operators[members[b][0]].pinned_offset
        target = min(range(stride), key=lambda at: (max(load[at::stride]), at)) if fixed is None else fixed
        for o in members[b]:
            offset[o] = target
        for server in range(target, n, stride):
            load[server] += spans[b]
    return Strategy(tuple(Placement(s, at) for s, at in zip(chosen, offset, strict=True)))
