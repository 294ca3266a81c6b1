"""Method `joint` holds the alternating loop against the proven joint optimum of a tiny job, and takes the faster of
the two plans.

`formulations.job_plans` states the model: compute phase C, then communication phase theta. `solve_joint` finds
its optimum by branch and bound; `plan_time` evaluates a strategy on a topology in the same model, with the best rings
and routes it allows, so that any plan can be held against the optimum.

Lengths of ordered pairs of servers bound theta of every strategy on every topology; those of the cuts around single
servers rule out most strategies whatever the links, and for the rest the links of one server after another are chosen
(`topoopt.core.link_tree`): at a node, the strategy that looks fastest gets a linear program of its own, whose duals
are kept if they rule it out, and serve all others; else the node is divided.

The optimal strategy and links are then realised with the rings of the program and with those of the loop, and
simulated by `rounds` like any plan. The notes state the joint optimum, who proved it, and how far from it the plan of
the loop is in the same model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from formulations.job_plans import JointPlan, PlanOption, chosen, fixed, joint_plan_arrays
from formulations.mixtures import RingGroup
from solvers.backends import SOLVERS, LpResult, SolverLimits
from solvers.job.alternate import Alternation
from solvers.job.loop import LoopResult, LoopSettings, Progress
from solvers.job.realise import Realisation, demand_routed, realise, routes_of_pairs
from solvers.job.starts import starting_strategies
from solvers.job.strategy_program import pair_job
from solvers.network.assembly import assemble
from solvers.network.finder import candidate_topologies
from solvers.network.space import distances, open_space
from solvers.network.tree import LinkChoices, LinkRelaxation, Node
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InputError, LimitError, Problem
from topoopt.core.job import ConvergencePoint, JointBound, Plan
from topoopt.core.network import MOST_CASES, LinkTree, TopologyProblem
from topoopt.core.proofs import Status
from topoopt.core.topology import Topology
from topoopt.core.workload import GroupRings, Placement, Ring, Strategy, Workload, strided_groups
from topoopt.simulate.fabrics import direct_connect_network
from topoopt.simulate.network import build_task_graph, demand_of
from topoopt.simulate.time_models.evaluate import simulate

MOST_SERVERS = 5
MOST_DEGREE = 4
MOST_PAIRS_OF_OPTIONS = 400
"""Limits of the joint program. Pairs of options: over all pairs of operators joined by an edge, the placements of one
times those of the other. `instances/tiny-4.yaml` has 230."""


Placements = tuple[tuple[Placement, ...], ...]
"""Options of each operator of the program, in its order."""


def joint_problems(cluster: Cluster, workload: Workload) -> list[Problem]:
    """Why the joint program is not for this job; empty if it is."""
    problems = []
    if not 2 <= cluster.servers <= MOST_SERVERS:
        problems.append(_too_large("cluster.servers", cluster.servers, f"2 to {MOST_SERVERS}"))
    if cluster.degree > MOST_DEGREE:
        problems.append(_too_large("cluster.degree", cluster.degree, f"at most {MOST_DEGREE}"))
    if problems:
        return problems
    options = [len(_placements(cluster, workload, o)) for o in range(len(workload.operators))]
    pairs = {(edge.producer, v) for v, operator in enumerate(workload.operators) for edge in operator.inputs}
    size = sum(options[u] * options[v] for u, v in pairs)
    if size > MOST_PAIRS_OF_OPTIONS:
        allowed = f"at most {MOST_PAIRS_OF_OPTIONS} pairs of placements of operators joined by an edge"
        problems.append(_too_large("workload", size, allowed))
    return problems


def _too_large(path: str, value: int, allowed: str) -> Problem:
    return Problem("too large for the method `joint`", path=path, value=str(value), allowed=allowed)


def _placements(cluster: Cluster, workload: Workload, o: int) -> tuple[Placement, ...]:
    n, operator = cluster.servers, workload.operators[o]
    return tuple(
        Placement(index, offset)
        for index, split in enumerate(operator.splits)
        if n % split.parts == 0 and workload.samples % split.sample_ways == 0
        for offset in range(n // split.parts)
        if operator.pinned_offset in (None, offset)
    )


def joint_tables(cluster: Cluster, workload: Workload, theta_most: float) -> tuple[JointPlan, Placements]:
    """Data of the joint program, and the placements that its options stand for; its groups are `strided_groups`.

    Raises:
        InputError: the job is too large for it.
    """
    problems = joint_problems(cluster, workload)
    if problems:
        raise InputError(problems)
    n, rate = cluster.servers, cluster.link_bytes_per_ms
    groups = strided_groups(n)
    index = {members: g for g, members in enumerate(groups)}
    placements = tuple(_placements(cluster, workload, o) for o in range(len(workload.operators)))
    memory = cluster.server_memory_bytes
    options = []
    for o, operator in enumerate(workload.operators):
        alone = Workload("alone", workload.samples, (replace(operator, inputs=()),))
        plan_options = []
        for placement in placements[o]:
            split = operator.splits[placement.split]
            demand = demand_of(build_task_graph(cluster, alone, Strategy((placement,))))
            here = np.zeros(n)
            here[placement.offset :: n // split.parts] = 1.0
            plan_options.append(
                PlanOption(
                    forward_ms=split.forward_ms,
                    backward_ms=split.backward_ms,
                    load=here * (split.forward_ms + split.backward_ms),
                    memory=here * (0.0 if memory is None else split.server_memory_bytes / memory),
                    reduced={
                        index[reduction.members]: reduction.wire_bytes_per_member / rate
                        for reduction in demand.allreduce
                    },
                )
            )
        options.append(tuple(plan_options))
    pairs = tuple(sorted({(edge.producer, v) for v, op in enumerate(workload.operators) for edge in op.inputs}))
    demand_ms = []
    for u, v in pairs:
        job = pair_job(workload, u, v)
        table = np.zeros((len(placements[u]), len(placements[v]), n, n))
        for a, first in enumerate(placements[u]):
            for c, second in enumerate(placements[v]):
                graph = build_task_graph(cluster, job, Strategy((first, second)))
                table[a, c] = demand_of(graph).model_parallel_bytes / rate
        demand_ms.append(table)
    used = {g for of in options for option in of for g in option.reduced}
    data = JointPlan(
        servers=n,
        degree=cluster.degree,
        bidirectional=cluster.links is LinkDirection.BIDIRECTIONAL,
        options=tuple(options),
        pairs=pairs,
        demand=tuple(demand_ms),
        rings=tuple(ring_orders(members) if g in used else () for g, members in enumerate(groups)),
        theta_most=theta_most,
        memory_limited=memory is not None,
    )
    return data, placements


def ring_orders(members: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """All directed cyclic orders of a group: (k - 1)!, the first member first."""
    return tuple((members[0], *rest) for rest in permutations(members[1:]))


NODES = 50_000
"""Most nodes of the branch and bound: a count, so that results do not depend on the machine."""

SLACK = 1e-6
"""Relative room above the incumbent's theta, so that rounding does not cut it off."""


@dataclass(frozen=True, eq=False)
class JointOptimum:
    """Outcome of the joint program.

    Attributes:
        strategy: placements.
        counts: int64[n, n], links; the network is connected.
        ring_ms: per group of `strided_groups(n)` that all-reduces: its orders and the ms of a hop in each.
        time_ms: C + theta of the plan, recomputed by `plan_time`.
        compute_ms: C.
        bound_ms: HiGHS claims that no plan takes less in this model.
    """

    strategy: Strategy
    counts: Ints
    rings: tuple[tuple[tuple[tuple[int, ...], float], ...], ...]
    time_ms: float
    compute_ms: float
    bound_ms: float


def plan_time(cluster: Cluster, workload: Workload, strategy: Strategy, topology: Topology) -> float:
    """C + theta of a strategy on a topology with the best rings and routes, ms, in the model of the joint program.

    Raises:
        InputError: the job is too large for the joint program.
    """
    data, placements = joint_tables(cluster, workload, _any_theta(cluster, workload))
    return _evaluate(data, placements, strategy, topology.adjacency())[0]


def _any_theta(cluster: Cluster, workload: Workload) -> float:
    """A theta that no plan on a connected network exceeds: every byte of the largest demands crosses one link."""
    data, _ = joint_tables(cluster, workload, 1.0)
    groups = strided_groups(cluster.servers)
    moved = sum(float(table.sum(axis=(2, 3)).max()) for table in data.demand)
    sent = [
        [sum(len(groups[g]) * ms for g, ms in option.reduced.items()) for option in options] for options in data.options
    ]
    return (moved + sum(max(of, default=0.0) for of in sent)) * (1 + SLACK) or 1.0


def _evaluate(
    data: JointPlan, placements: Placements, strategy: Strategy, counts: Ints
) -> tuple[float, float, tuple[tuple[float, ...], ...]]:
    """(C + theta, C, ms per ring) with strategy and links fixed: a linear program."""
    options = tuple(of.index(p) for of, p in zip(placements, strategy.placements, strict=True))
    program = fixed(data, joint_plan_arrays(data), options, counts)
    result = SOLVERS["highs-simplex"](replace(program, integer=None))
    if result.x is None or result.objective is None:
        raise LimitError(f"the routing program of a given plan was not solved: {result.message}")
    assert program.column_names is not None
    compute = float(result.x[program.column_names.index("C")])
    return float(result.objective), compute, chosen(data, program, result.x)[2]


def incumbent(cluster: Cluster, workload: Workload, extra: Sequence[tuple[Strategy, Topology]] = ()) -> float:
    """C + theta of the best of some plans: every start on the topology found for it, and `extra`."""
    data, placements = joint_tables(cluster, workload, _any_theta(cluster, workload))
    plans = [(strategy, topology) for strategy, topology in extra]
    for start in starting_strategies(cluster, workload):
        demand = demand_of(build_task_graph(cluster, workload, start.strategy))
        plans += [(start.strategy, topology) for topology in candidate_topologies(cluster, demand, limit=1, seed=0)]
    memory = cluster.server_memory_bytes
    values = [
        _evaluate(data, placements, strategy, topology.adjacency())[0]
        for strategy, topology in plans
        if memory is None or _fits(data, placements, strategy)
    ]
    return min(values, default=np.inf)


def _fits(data: JointPlan, placements: Placements, strategy: Strategy) -> bool:
    used = sum(
        options[of.index(p)].memory
        for options, of, p in zip(data.options, placements, strategy.placements, strict=True)
    )
    return bool(np.max(used) <= 1.0)


def solve_joint(
    cluster: Cluster,
    workload: Workload,
    *,
    extra: Sequence[tuple[Strategy, Topology]] = (),
    time_s: float | None = None,
    nodes: int = NODES,
) -> JointOptimum | None:
    """The joint optimum; None if no plan fits the memory.

    Args:
        cluster, workload: the job.
        extra: plans known; the program looks for nothing that is worse.
        time_s: limit of the solver; with one the result may depend on the machine.
        nodes: limit of the branch and bound; where it is met, `bound_ms` stays below `time_ms`.

    Raises:
        InputError: the job is too large.
        LimitError: a limit came before any plan was found.
    """
    best = incumbent(cluster, workload, extra)
    anything = _any_theta(cluster, workload)
    data, placements = joint_tables(cluster, workload, anything)
    work = sum(min((float(option.load.sum()) for option in of), default=0.0) for of in data.options)
    least = work / data.servers
    most = min(anything, best - least + SLACK * best) if np.isfinite(best) else anything
    data = replace(data, theta_most=most)
    program = joint_plan_arrays(data)
    result: LpResult = SOLVERS["highs"](program, SolverLimits(time_s=time_s), {"mip_max_nodes": nodes})
    if result.status is Status.INFEASIBLE:
        return None
    if result.x is None:
        raise LimitError(f"the joint program gave no plan: {result.message}")
    options, counts, _ = chosen(data, program, result.x)
    strategy = Strategy(tuple(of[a] for of, a in zip(placements, options, strict=True)))
    time_ms, compute_ms, ring_ms = _evaluate(data, placements, strategy, counts)
    rings = tuple(
        tuple((order, ms) for order, ms in zip(orders, spent, strict=True) if ms > 0)
        for orders, spent in zip(data.rings, ring_ms, strict=True)
    )
    bound = result.bound if result.bound is not None else 0.0
    return JointOptimum(strategy, counts, rings, time_ms, compute_ms, min(max(bound, least), time_ms))


MOST_STRATEGIES = 20_000
"""Of those that cuts around servers do not rule out."""

MOST_NUMBERS = 5_000_000
"""Strategies at hand times the figures of each, while they are listed: half of what a checker takes."""

MOST_PROGRAMS = 1000
"""Linear programs solved before the proof is given up."""

LARGEST_LENGTH = 2**24
"""Lengths are rounded to whole numbers up to this."""

AIM = 5e-10
"""Part of a time by which a bound to be proven stays below it: `SAFE` twice and more, half of what counts as equal."""

SAFE = 1e-10
"""Relative room that a checker needs for rounding."""


@dataclass(frozen=True, eq=False)
class Strategies:
    """Choices of the first operators, a row each.

    Attributes:
        chosen: int64[y, operators], options.
        load, memory: float64[y, n], of servers, ms and shares.
        moved: float64[y, n, n], transfers; reduced: float64[y, groups], what a member of each sends; ms of a link.
    """

    chosen: Ints
    load: Floats
    memory: Floats
    moved: Floats
    reduced: Floats

    def part(self, which: Ints) -> Strategies:
        load, memory, moved, reduced = (t[which] for t in (self.load, self.memory, self.moved, self.reduced))
        return Strategies(self.chosen[which], load, memory, moved, reduced)

    def carried(self, data: JointPlan, lengths: Floats) -> Floats:
        """float64[y]: transfers times distance, and AllReduces times the shortest ring."""
        far = distances(lengths)
        rings = [
            min((sum(far[a, b] for a, b in zip(r, (*r[1:], r[0]), strict=True)) for r in orders), default=0.0)
            for orders in data.rings
        ]
        return np.asarray(np.einsum("yij,ij->y", self.moved, far) + self.reduced @ np.array(rings))


class JointProof:
    """What is known while the tree is walked."""

    def __init__(self, data: JointPlan, bound_ms: float) -> None:
        n = data.servers
        links = LinkDirection.BIDIRECTIONAL if data.bidirectional else LinkDirection.UNIDIRECTIONAL
        # Servers of a plan reach each other; all look the same here, so that they choose in order.
        problem = TopologyProblem("joint", n, data.degree, links, np.ones((n, n)) - np.eye(n), max_hops=n - 1)
        self.choices = LinkChoices(open_space(problem))
        self.data, self.bound_ms = data, bound_ms
        self.tables: list[Ints] = []
        self.programs = 0
        groups = tuple(RingGroup(tuple(orders[0]), 1.0, orders) for orders in data.rings if orders)
        self.used = [g for g, orders in enumerate(data.rings) if orders]
        self.relaxation = LinkRelaxation(self.choices, groups)

    def longest(self, node: Node, table: Ints) -> int:
        """Length of all links at most."""
        prices = table.diagonal()
        value = table - np.diag(prices) - prices[None]
        if self.data.bidirectional:
            value = value + (table - np.diag(prices)).T - prices[:, None]
        row_values = [rows @ value[server] for server, rows in enumerate(self.choices.rows)]
        fixed = sum(int(row_values[server][row]) for server, row in enumerate(node.rows))
        rest = sum(int(values.max()) for values in row_values[node.chosen :])
        return self.data.degree * int(prices.sum()) + fixed + rest

    def cuts(self) -> list[Ints]:
        """Around every server: all it sends, all it receives."""
        n, cuts = self.data.servers, []
        for server in range(n):
            out, into = np.zeros((n, n), dtype=np.int64), np.zeros((n, n), dtype=np.int64)
            out[server], into[:, server] = 1, 1
            out[server, server], into[server, server] = int(self.data.bidirectional), 1
            cuts += [out, into]
        return cuts


def prove_joint(data: JointPlan, bound_ms: float, stop: Stop) -> LinkTree | None:
    """A proof that no plan takes less than `bound_ms`; None if there is none, or it takes too long or too much room."""
    proof = JointProof(data, bound_ms)
    proof.tables = proof.cuts()
    every = _strategies(proof)
    if every is None:
        return None
    strategies, compute = every
    gap = np.maximum(bound_ms - compute, 0.0) * (1 + SAFE) + SAFE * bound_ms
    carried = [_carried(strategies, data, table) for table in proof.tables]
    stack = [(proof.choices.root(), np.arange(len(compute)))]
    while stack:
        node, open_cases = stack.pop()
        divided = False
        while len(open_cases) and not divided:
            longest = [proof.longest(node, table) for table in proof.tables]
            theta = np.array([s[open_cases] / max(u, 1) for s, u in zip(carried, longest, strict=True)]).max(axis=0)
            still = theta < gap[open_cases]
            open_cases, theta = open_cases[still], theta[still]
            if not len(open_cases):
                break
            if proof.programs >= MOST_PROGRAMS or len(proof.tables) >= MOST_CASES or stop.reason() is not None:
                return None
            worst = int(open_cases[np.argmin(compute[open_cases] + theta)])
            table = _multipliers(proof, node, strategies, worst)
            sums = _carried(strategies, data, table)
            if sums[worst] >= gap[worst] * proof.longest(node, table):
                proof.tables.append(table)
                carried.append(sums)
            elif node.chosen == data.servers:
                return None
            else:
                divided = True
        if divided:
            rows = proof.choices.fitting(node)
            stack += [(child, open_cases) for child in proof.choices.children(node, rows)]
    return LinkTree(np.arange(data.servers), np.array(proof.tables, dtype=np.int64))


def _carried(strategies: Strategies, data: JointPlan, table: Ints) -> Floats:
    return strategies.carried(data, (table - np.diag(table.diagonal())).astype(np.float64))


def _multipliers(proof: JointProof, node: Node, strategies: Strategies, which: int) -> Ints:
    """Lengths and prices from the linear program of a strategy at a node, as whole numbers."""
    proof.programs += 1
    proof.relaxation.carry(strategies.moved[which], strategies.reduced[which][proof.used])
    _, lengths, prices = proof.relaxation.solve(node)
    scale = LARGEST_LENGTH / max(float(lengths.max()), 1e-300)
    table = np.rint(lengths * scale)
    np.fill_diagonal(table, np.minimum(np.rint(prices * scale), LARGEST_LENGTH))
    return table.astype(np.int64)


def _strategies(proof: JointProof) -> tuple[Strategies, Floats] | None:
    """Those that no cut around a server rules out, with their compute time, ms; None: too many."""
    data, n = proof.data, proof.data.servers
    root = proof.choices.root()
    longest = [(table, proof.longest(root, table)) for table in proof.tables]
    rows = Strategies(
        np.zeros((1, 0), dtype=np.int64),
        np.zeros((1, n)),
        np.zeros((1, n)),
        np.zeros((1, n, n)),
        np.zeros((1, len(data.rings))),
    )
    for o, options in enumerate(data.options):
        if len(rows.load) * len(options) * (n * n + 3 * n + len(longest)) > MOST_NUMBERS:
            return None
        before, choice = np.divmod(np.arange(len(rows.load) * len(options)), max(1, len(options)))
        rows = rows.part(before)
        chosen = np.column_stack((rows.chosen, choice))
        moved = rows.moved
        for table, (u, v) in zip(data.demand, data.pairs, strict=True):
            if v == o:
                moved = moved + table[chosen[:, u], choice]
        sent = np.array([[option.reduced.get(g, 0.0) for g in range(len(data.rings))] for option in options])
        rows = Strategies(
            chosen,
            rows.load + np.array([option.load for option in options])[choice],
            rows.memory + np.array([option.memory for option in options])[choice],
            moved,
            rows.reduced + sent[choice],
        )
        theta = np.max([_carried(rows, data, table) / most for table, most in longest], axis=0)
        good = rows.load.max(axis=1) + theta < proof.bound_ms * (1 + SAFE)
        if data.memory_limited:
            good &= rows.memory.max(axis=1) <= 1.0
        rows = rows.part(np.flatnonzero(good))
    compute = np.maximum(rows.load.max(axis=1, initial=0.0), _chain(data, rows.chosen))
    return (rows, compute) if len(compute) <= MOST_STRATEGIES else None


def _chain(data: JointPlan, chosen: Ints) -> Floats:
    """float64[y]: the longest chain of parts, forward and back, ms."""
    forward = [np.array([option.forward_ms for option in of])[chosen[:, o]] for o, of in enumerate(data.options)]
    backward = [np.array([option.backward_ms for option in of])[chosen[:, o]] for o, of in enumerate(data.options)]
    first = [np.zeros(len(chosen)) for _ in data.options]
    for u, v in sorted(data.pairs, key=lambda pair: pair[1]):
        first[v] = np.maximum(first[v], first[u] + forward[u])
    turned = [start + own for start, own in zip(first, forward, strict=True)]
    for u, v in sorted(data.pairs, key=lambda pair: -pair[1]):
        turned[u] = np.maximum(turned[u], turned[v] + backward[v])
    return np.asarray(np.max([time + own for time, own in zip(turned, backward, strict=True)], axis=0, initial=0.0))


def run_joint(
    cluster: Cluster,
    workload: Workload,
    settings: LoopSettings,
    *,
    seed: int,
    stop: Stop,
    progress: Progress | None,
    jobs: int = 1,
) -> LoopResult:
    """Run the loop, then the joint program with the loop's plan as incumbent, and return the faster plan by `rounds`.

    Raises:
        InputError: the job is too large for the joint program; the limits are named.
        InfeasibleError, LimitError: as the loop.
    """
    problems = joint_problems(cluster, workload)
    if problems:
        raise InputError(problems)
    loop = Alternation(cluster, workload, settings, seed=seed, stop=stop, progress=progress, jobs=jobs).run()
    if stop.reason() is not None:
        return replace(loop, notes=(*loop.notes, "stopped before the joint program"))
    try:
        plans = [(loop.plan.strategy, loop.plan.topology)]
        optimum = solve_joint(cluster, workload, extra=plans, time_s=stop.remaining_s())
    except LimitError as error:
        return replace(loop, notes=(*loop.notes, str(error)))
    if optimum is None:  # contradicts the plan at hand
        return replace(loop, notes=(*loop.notes, "the joint program finds no plan that fits the memory"))
    ours = plan_time(cluster, workload, loop.plan.strategy, loop.plan.topology)
    realisation, time_ms = realised(cluster, workload, optimum, seed=seed)
    joint = proven(cluster, workload, optimum, stop)
    claim = f"{optimum.bound_ms:.6g} (claimed by HiGHS, not verified)"
    least = claim if joint is None else f"{joint.bound_ms:.6g} (proven)"
    notes = (
        f"joint program: {optimum.time_ms:.6g} ms by the bulk-synchronous model, no plan below {least}; "
        f"simulated {time_ms:.6g} ms",
        f"alternating loop: {ours:.6g} ms by the same model, {_above(ours, optimum.time_ms)} the joint optimum; "
        f"simulated {loop.iteration_time_ms:.6g} ms",
    )
    if time_ms >= loop.iteration_time_ms:
        return replace(loop, notes=(*loop.notes, *notes), joint=joint, stopped_by=stop.reason() or loop.stopped_by)
    return replace(
        loop,
        plan=realisation,
        iteration_time_ms=time_ms,
        convergence=(*loop.convergence, ConvergencePoint(loop.proposals, "joint program", time_ms)),
        stopped_by=stop.reason() or loop.stopped_by,
        notes=("start: joint program", *notes),
        joint=joint,
    )


def proven(cluster: Cluster, workload: Workload, optimum: JointOptimum, stop: Stop) -> JointBound | None:
    """A proof that nothing is faster than the joint optimum, by its model; None where none is found."""
    bound_ms = optimum.time_ms * (1 - AIM)
    tree = prove_joint(joint_tables(cluster, workload, optimum.time_ms)[0], bound_ms, stop)
    return None if tree is None else JointBound(bound_ms, tree)


def _above(value: float, least: float) -> str:
    return f"{100 * (value - least) / least:.2f} % above" if least > 0 else "not compared with"


def realised(cluster: Cluster, workload: Workload, optimum: JointOptimum, *, seed: int) -> tuple[Plan, float]:
    """The plan of a joint optimum, and its time by `rounds`: the best of several rings and routes."""
    graph = build_task_graph(cluster, workload, optimum.strategy)
    demand = demand_of(graph)
    topology = topology_of(cluster, optimum.counts)
    weights = demand.model_parallel_bytes
    best: tuple[float, Realisation] | None = None
    for base in _realisations(cluster, topology, [group.members for group in demand.allreduce], optimum):
        for routed in (base, *demand_routed(cluster, base, weights, seed=seed)):
            time_ms = simulate(graph, routed.network).iteration_time_ms
            if best is None or time_ms < best[0]:
                best = (time_ms, routed)
    assert best is not None
    time_ms, chosen = best
    return Plan(optimum.strategy, topology, routes_of_pairs(chosen.routes, weights > 0), chosen.rings), time_ms


def _realisations(
    cluster: Cluster, topology: Topology, groups: list[tuple[int, ...]], optimum: JointOptimum
) -> Iterator[Realisation]:
    import networkx as nx

    base = realise(cluster, topology, groups)
    yield base
    paths = dict(nx.all_pairs_shortest_path(nx.DiGraph([tuple(arc) for arc in topology.arcs.tolist()])))
    orders = dict(zip(strided_groups(cluster.servers), optimum.rings, strict=True))
    rings = []
    for members in groups:
        total = sum(ms for _, ms in orders[members])
        if total <= 0:
            return
        rings.append(
            GroupRings(
                members,
                tuple(
                    Ring(order, ms / total, tuple(tuple(paths[a][b]) for a, b in _hops(order)))
                    for order, ms in orders[members]
                ),
            )
        )
    network = direct_connect_network(cluster, topology, base.routes, tuple(rings))
    yield replace(base, rings=tuple(rings), network=network)


def _hops(order: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    return zip(order, (*order[1:], order[0]), strict=True)


def topology_of(cluster: Cluster, counts: Ints) -> Topology:
    """The topology of link counts, with links added where two servers have interfaces to spare (they do no harm)."""
    counts = counts.copy()
    n, both = cluster.servers, cluster.links is LinkDirection.BIDIRECTIONAL
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            spare = cluster.degree - max(int(counts[i].sum()), int(counts[:, j].sum()))
            if both:
                spare = cluster.degree - max(int(counts[i].sum()), int(counts[j].sum()))
                counts[j, i] += max(0, spare)
            counts[i, j] += max(0, spare)
    arcs = np.repeat(np.argwhere(counts > 0), counts[counts > 0], axis=0).astype(np.int64)
    return assemble(n, cluster.degree, cluster.links, [arcs], "joint program")
