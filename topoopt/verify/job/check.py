"""The checker of jobs: constraints of a plan, its simulated iteration, and proofs that no strategy is faster than a
bound.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.job import CoOptimisation, JobPlan
from topoopt.core.network import LinkTree
from topoopt.core.proofs import Argument, Bound, Tolerance, beats
from topoopt.core.result import AllReduceChoice, Certificate, Result
from topoopt.core.workload import Placement, StrategyCase, StrategyCertificate, StrategyCut, Workload
from topoopt.verify.checker import (
    BRIEF,
    ROUNDING_MARGIN,
    CheckDepth,
    Checker,
    CheckFindings,
    Derivation,
    ViolationLog,
    as_float,
    check_bound,
    check_claim,
    differs,
    float_array,
    int_array,
)
from topoopt.verify.job.bounds import bounds_of, instance_bounds, strategies_in_turn
from topoopt.verify.job.least_times import choices_of
from topoopt.verify.job.plan import (
    BYTES_PER_MS_OF_ONE_GBPS,
    Inspection,
    Parts,
    check_strategy,
    edge_transfers,
    inspect_plan,
    place,
    reductions_of,
    split_problems,
)
from topoopt.verify.job.simulation import EventBudget, iteration_times
from topoopt.verify.job.strategy_laws import StrategyLaws, mirrored, strategy_laws
from topoopt.verify.laws.link_tree import LeafCases, LinkRules, distances, longest, parts_of, proven_by_leaves
from topoopt.verify.laws.schedules import check_choice

MOST_SERVERS = 5
"""Rings of more members are too many to be listed."""

MOST_NUMBERS = 10_000_000
"""Strategies at hand times the figures of each."""

_SAFE = 1 - 1e-12
"""For sums of fewer than 1000 positive doubles."""


def joint_bound(cluster: Cluster, workload: Workload, proof: LinkTree, claimed: float) -> float:
    """What a proof shows of the time of all plans by the bulk-synchronous model, ms, `claimed` or a little more.

    Raises:
        InputError: the proof is malformed, too large to be looked at, or leaves a plan over.
    """
    n = cluster.servers
    if not 2 <= n <= MOST_SERVERS or not 0 < claimed < np.inf:
        raise InputError(f"joint bound: more than {MOST_SERVERS} servers, or a bound that is no positive number")
    _, lengths, prices = parts_of(proof, n)
    both, none = cluster.links is LinkDirection.BIDIRECTIONAL, np.zeros((n, n), dtype=np.int64)
    rules = LinkRules(both, cluster.degree, cluster.degree, ~np.eye(n, dtype=np.bool_), none, 0, n - 1)
    back = np.argsort(proof.order)
    far = distances(lengths)[:, back[:, None], back[None, :]].astype(np.float64)
    root = longest(rules, lengths, prices).astype(np.float64)
    proven, compute, carried = _left(cluster, workload, far, root, claimed)
    if len(compute):
        budget_ms = np.maximum(claimed - compute * _SAFE, 0.0) + claimed * (1 - _SAFE)
        limit = np.where(carried > 0, np.minimum(np.floor(carried * _SAFE / budget_ms[:, None]), 2.0**62), -1.0)
        cases = LeafCases(limit.T.astype(np.int64), compute, carried.T)
        proven = min(proven, proven_by_leaves(rules, lengths, prices, cases))
    return max(claimed, proven)


def joint_proof(certificate: Certificate, servers: int) -> tuple[float, LinkTree]:
    """Return the bound that a certificate states, ms, and its tree (`core.job.joint_certificate`).

    Raises:
        ValueError: An array is missing, or has another length.
    """
    bound = float_array(certificate["bound_ms"], 1)
    order, multipliers = int_array(certificate["order"], 1), int_array(certificate["multipliers"], 1)
    if bound is None or len(bound) != 1 or order is None or multipliers is None or len(multipliers) % servers**2:
        raise ValueError("the proof of the bulk-synchronous model has arrays of other lengths")
    return float(bound[0]), LinkTree(order, multipliers.reshape(-1, servers, servers))


def check_joint(findings: ViolationLog, problem: CoOptimisation, certificate: Certificate) -> None:
    """A stated bound by the bulk-synchronous model is what its proof shows."""
    try:
        declared, tree = joint_proof(certificate, problem.cluster.servers)
        proven = joint_bound(problem.cluster, problem.workload, tree, declared)
    except (InputError, ValueError) as error:
        findings.add("joint", f"nothing is proven of the bulk-synchronous model: {error}")
        return
    if differs(declared, proven, Tolerance.ROUNDING.relative):
        text = f"no plan takes less than {proven!r} ms by the bulk-synchronous model, the solution states {declared!r}"
        findings.add("joint", text)


def _left(
    cluster: Cluster, workload: Workload, far: Floats, root: Floats, claimed: float
) -> tuple[float, Floats, Floats]:
    """C, float64[y], and S, float64[y, k], of the strategies that no lengths exclude at the root; first of all, the
    least that is proven of those they do.

    Args:
        far: float64[k, n, n], distances by the multipliers.
        root: float64[k], length of the links of any topology at most.
    """
    n, rate, proven = cluster.servers, cluster.link_gbps * BYTES_PER_MS_OF_ONE_GBPS, np.inf
    memory = None if cluster.gpu_memory_bytes is None else cluster.gpu_memory_bytes * cluster.gpus_per_server
    options = [_options(cluster, workload, o) for o in range(len(workload.operators))]
    # A row for each strategy of the first operators: their options, load and memory of servers, S of the multipliers.
    chosen, load = np.zeros((1, 0), dtype=np.int64), np.zeros((1, n))
    used, carried = np.zeros((1, n), dtype=np.int64), np.zeros((1, len(far)))
    for o, own in enumerate(options):
        count = len(chosen) * len(own)
        if count * (len(far) + 3 * n) > MOST_NUMBERS:
            raise InputError("joint bound: more strategies than can be looked at")
        before, choice = np.divmod(np.arange(count), max(1, len(own)))
        of_load, of_memory, reduced = _tables(cluster, workload, own, far)
        chosen = np.column_stack((chosen[before], choice))
        load, used = load[before] + of_load[choice], used[before] + of_memory[choice]
        carried = carried[before] + reduced[choice] / rate
        for edge in workload.operators[o].inputs:
            table = _between(workload, options[edge.producer], own, edge.fraction, far)
            carried = carried + table[chosen[:, edge.producer], choice] / rate
        fits = np.full(count, True) if memory is None else used.max(axis=1, initial=0) <= memory
        low = load.max(axis=1, initial=0.0) + _theta(carried, root)
        proven = min(proven, float(low[fits & (low * _SAFE >= claimed)].min(initial=np.inf)))
        kept = fits & (low * _SAFE < claimed)
        chosen, load, used, carried = chosen[kept], load[kept], used[kept], carried[kept]
    compute = np.maximum(load.max(axis=1, initial=0.0), _chain(workload, options, chosen))
    low = compute + _theta(carried, root)
    good = low * _SAFE < claimed
    return min(proven, float(low[~good].min(initial=np.inf))), compute[good], carried[good]


def _theta(carried: Floats, root: Floats) -> Floats:
    """float64[y]: theta at least, whatever the links."""
    return np.asarray((carried / np.maximum(root, 1.0)).max(axis=1, initial=0.0))


def _options(cluster: Cluster, workload: Workload, o: int) -> list[Parts]:
    operator, placements = workload.operators[o], []
    for index, split in enumerate(operator.splits):
        if split_problems(cluster, workload, operator, split):
            continue
        for offset in range(cluster.servers // split.parts):
            if operator.pinned_offset in (None, offset):
                placements.append(place(o, operator, Placement(index, offset), cluster.servers))
    return placements


def _tables(cluster: Cluster, workload: Workload, own: list[Parts], far: Floats) -> tuple[Floats, Ints, Floats]:
    """Of the options of an operator: float64[o, n] load, int64[o, n] memory, float64[o, k] bytes times length."""
    load, used = np.zeros((len(own), cluster.servers)), np.zeros((len(own), cluster.servers), dtype=np.int64)
    reduced = np.zeros((len(own), len(far)))
    for at, parts in enumerate(own):
        load[at, parts.server] = parts.split.forward_ms + parts.split.backward_ms
        used[at, parts.server] = parts.split.server_memory_bytes
        for reduction in reductions_of(cluster, workload, parts):
            if len(reduction.members) > 1:
                reduced[at] += reduction.wire_bytes * _shortest_ring(reduction.members, far)
    return load, used, reduced


def _shortest_ring(members: tuple[int, ...], far: Floats) -> Floats:
    """float64[k]: the least length of a round through all members."""
    rounds = [(members[0], *rest) for rest in permutations(members[1:])]
    return np.asarray(np.min([far[:, list(r), [*r[1:], r[0]]].sum(axis=1) for r in rounds], axis=0))


def _between(workload: Workload, first: list[Parts], second: list[Parts], fraction: float, far: Floats) -> Floats:
    """float64[options of the producer, of the consumer, k]: bytes both ways times length."""
    table = np.zeros((len(first), len(second), len(far)))
    round_trip = far + far.transpose(0, 2, 1)
    for a, producer in enumerate(first):
        for c, consumer in enumerate(second):
            edge = edge_transfers(workload, producer, consumer, fraction)
            table[a, c] = round_trip[:, edge.source, edge.target] @ edge.bytes.astype(np.float64)
    return table


def _chain(workload: Workload, options: list[list[Parts]], chosen: Ints) -> Floats:
    """float64[y]: longest chain of forward parts, then of backward parts, ms."""
    count, rows = len(workload.operators), len(chosen)
    forward, backward = np.zeros((count, rows)), np.zeros((count, rows))
    for o, own in enumerate(options):
        forward[o] = np.array([parts.split.forward_ms for parts in own])[chosen[:, o]]
        backward[o] = np.array([parts.split.backward_ms for parts in own])[chosen[:, o]]
    first = np.zeros((count, rows))
    for v, operator in enumerate(workload.operators):
        for edge in operator.inputs:
            first[v] = np.maximum(first[v], first[edge.producer] + forward[edge.producer])
    turned = first + forward
    for v in reversed(range(count)):
        for edge in workload.operators[v].inputs:
            turned[edge.producer] = np.maximum(turned[edge.producer], turned[v] + backward[v])
    return np.asarray((turned + backward).max(axis=0, initial=0.0))


Allowed = tuple[Bools, ...]

CLASSES = (1, 2)
"""Into how many classes a certificate may divide the servers."""


@lru_cache(maxsize=2)
def laws_of(cluster: Cluster, workload: Workload, classes: int) -> StrategyLaws:
    """Return the laws of a workload with so many classes of servers; a weight of a certificate has the index of one."""
    return strategy_laws(cluster, workload, choices_of(cluster, workload), classes)


def certified_bound(cluster: Cluster, workload: Workload, certificate: Certificate) -> float:
    """Return what the arrays of a certificate prove about the iteration time of every plan, ms.

    Raises:
        ValueError: The certificate does not fit the instance, or its cuts are no tree.
    """
    laws = _laws_to_weigh(cluster, workload, int(_integers(certificate, "classes", 1)[0]))
    return 0.0 if laws is None else evaluate_certificate(laws, strategy_proof(certificate, laws))


def _laws_to_weigh(cluster: Cluster, workload: Workload, classes: int) -> StrategyLaws | None:
    """Return the laws that a certificate weighs; None where one server, or no legal split, leaves nothing to prove."""
    if cluster.servers < 2 or any(not choice.splits for choice in choices_of(cluster, workload)):
        return None
    if classes not in CLASSES or cluster.servers % classes:
        raise ValueError(f"{cluster.servers} servers in {classes} classes")
    return laws_of(cluster, workload, classes)


def strategy_proof(certificate: Certificate, laws: StrategyLaws) -> StrategyCertificate:
    """Return the tree of cuts and cases that the arrays of a certificate state (`core.job.strategy_certificate`).

    Raises:
        ValueError: An array is missing, has another length, or names a law that does not exist.
    """
    operator = _integers(certificate, "operator")
    inside, outside = (_integers(certificate, name, len(operator)) for name in ("inside", "outside"))
    is_case = operator < 0
    cases, ends = int(is_case.sum()), [(laws.counts[u], laws.counts[v]) for u, v in laws.pairs]
    states = _split(_integers(certificate, "state"), _integers(certificate, "state_ptr", len(operator) + 1))
    law_ptr, law = _integers(certificate, "law_ptr", cases + 1), _integers(certificate, "law")
    weight, memory = _numbers(certificate, "weight", len(law)), _numbers(certificate, "memory", cases)
    if len(law) and not 0 <= law.min() <= law.max() < len(laws.laws):
        raise ValueError("the certificate weighs a law that does not exist")
    named, weights = _split(law, law_ptr), _split(weight, law_ptr)
    if any(len(np.unique(indices)) < len(indices) for indices in named):
        raise ValueError("the certificate weighs a law twice")
    lengths = [count for pair in ends for count in pair]
    price = _numbers(certificate, "price", cases * sum(lengths)).reshape(cases, sum(lengths))
    nodes: list[StrategyCut | StrategyCase] = []
    for at, cut in enumerate(operator.tolist()):
        if cut >= 0:
            nodes.append(StrategyCut(cut, tuple(states[at].tolist()), inside.item(at), outside.item(at)))
            continue
        case = int(is_case[:at].sum())
        names = [laws.laws[index].name for index in named[case].tolist()]
        prices = [tuple(part.tolist()) for part in np.split(price[case], np.cumsum(lengths)[:-1])] if lengths else []
        nodes.append(
            StrategyCase(
                tuple(zip(names, weights[case].tolist(), strict=True)),
                memory.item(case),
                tuple(zip(prices[::2], prices[1::2], strict=True)),
            )
        )
    if (
        int(inside[is_case].any())
        or int(outside[is_case].any())
        or any(len(states[at]) for at in np.flatnonzero(is_case))
    ):
        raise ValueError("a case of the certificate leads on, or has states")
    fixed = int(_integers(certificate, "fixed", 1)[0])
    return StrategyCertificate(
        tuple(nodes), int(_integers(certificate, "classes", 1)[0]), None if fixed == -1 else fixed
    )


def _integers(certificate: Certificate, name: str, length: int | None = None) -> Ints:
    array = int_array(certificate[name], 1)
    if array is None or (length is not None and len(array) != length):
        raise ValueError(f"{name} of the certificate must be {'whole numbers' if length is None else length}")
    return array


def _numbers(certificate: Certificate, name: str, length: int) -> Floats:
    array = float_array(certificate[name], 1)
    if array is None or len(array) != length:
        raise ValueError(f"{name} of the certificate must be {length} numbers")
    return array


def _split(array: NDArray[Any], ptr: Ints) -> list[NDArray[Any]]:
    if ptr[0] != 0 or ptr[-1] != len(array) or (np.diff(ptr) < 0).any():
        raise ValueError("offsets of the certificate do not fit its arrays")
    return np.split(array, ptr[1:-1])


def strategy_bound(cluster: Cluster, workload: Workload, certificate: StrategyCertificate) -> Bound:
    """What a certificate proves about the iteration time of every plan, ms.

    Raises:
        ValueError: the certificate does not fit the instance, or its cuts are no tree.
    """
    laws = _laws_to_weigh(cluster, workload, certificate.classes)
    return Bound(0.0 if laws is None else evaluate_certificate(laws, certificate), Argument.STRATEGY_PROGRAM)


def evaluate_certificate(laws: StrategyLaws, certificate: StrategyCertificate) -> float:
    """The least over the cases, ms, at least 0; see the module text.

    Raises:
        ValueError: as `strategy_bound`.
    """
    nodes = certificate.nodes
    if not nodes:
        raise ValueError("the certificate has no case")
    allowed: list[Allowed | None] = [None] * len(nodes)
    allowed[0] = at_root(laws, certificate.fixed)
    least = math.inf
    for at, node in enumerate(nodes):
        here = allowed[at]
        if here is None:
            raise ValueError(f"case {at} of the certificate is reached by no cut")
        if isinstance(node, StrategyCut):
            for to, mask in zip((node.inside, node.outside), _divided(laws, here, node), strict=True):
                if not at < to < len(nodes) or allowed[to] is not None:
                    raise ValueError(f"cut {at} of the certificate leads to {to}")
                allowed[to] = mask
        elif all(mask.any() for mask in here):
            least = min(least, _case_bound(laws, here, node))
    return max(0.0, least)


def at_root(laws: StrategyLaws, fixed: int | None) -> Allowed:
    """Every state; of the operator `fixed` those of an even offset, or that stand in both classes.

    Raises:
        ValueError: there is no such operator, or exchanging the classes changes a table.
    """
    allowed = [np.ones(count, dtype=np.bool_) for count in laws.counts]
    if fixed is not None:
        if not 0 <= fixed < len(allowed):
            raise ValueError(f"the certificate fixes operator {fixed}")
        if not mirrored(laws):
            raise ValueError(f"the certificate fixes operator {fixed} where classes cannot be exchanged")
        allowed[fixed] = laws.states[fixed].residue == 0
    return tuple(allowed)


def _divided(laws: StrategyLaws, allowed: Allowed, cut: StrategyCut) -> tuple[Allowed, Allowed]:
    if not 0 <= cut.operator < len(laws.counts) or any(not 0 <= s < laws.counts[cut.operator] for s in cut.states):
        raise ValueError(f"a cut names operator {cut.operator} and states {cut.states}")
    inside = np.zeros(laws.counts[cut.operator], dtype=np.bool_)
    inside[list(cut.states)] = True
    both = []
    for mask in (inside, ~inside):
        both.append((*allowed[: cut.operator], allowed[cut.operator] & mask, *allowed[cut.operator + 1 :]))
    return both[0], both[1]


def _case_bound(laws: StrategyLaws, allowed: Allowed, case: StrategyCase) -> float:
    weights = dict(case.laws)
    if len(case.prices) != len(laws.pairs) or any(
        (len(first), len(second)) != (laws.counts[u], laws.counts[v])
        for (first, second), (u, v) in zip(case.prices, laws.pairs, strict=True)
    ):
        raise ValueError("the prices of the certificate do not fit the pairs of operators")
    numbers = [*weights.values(), case.memory, *(p for ends in case.prices for end in ends for p in end)]
    if not all(math.isfinite(number) for number in numbers) or min(*weights.values(), case.memory, 0.0) < 0:
        raise ValueError("the certificate has weights that are not finite or below 0")
    names = {law.name for law in laws.laws}
    if not names.issuperset(weights):
        raise ValueError(f"the certificate names a law {min(set(weights) - names)!r} that does not exist")
    flow = unit_flow(laws, weights)
    total = size = 0.0
    node = [np.zeros(count) for count in laws.counts]
    pair = [np.zeros((laws.counts[u], laws.counts[v])) for u, v in laws.pairs]
    for law, amount in zip(laws.laws, flow, strict=True):
        if amount <= 0.0:
            continue
        total += amount * law.constant
        size += amount * abs(law.constant)
        for table, indices in law.operators:
            for o in indices:
                node[o] += amount * laws.operators[table][o]
        for table, indices in law.pairs:
            for e in indices:
                pair[e] += amount * laws.between[table][e]
    if laws.memory is not None and case.memory > 0:
        total -= case.memory
        for o, memory_share in enumerate(laws.memory):
            node[o] += case.memory * memory_share
        size += case.memory
    for e, ((u, v), (first, second)) in enumerate(zip(laws.pairs, case.prices, strict=True)):
        at_u, at_v = np.array(first), np.array(second)
        node[u] -= at_u
        node[v] -= at_v
        pair[e] += at_u[:, None] + at_v[None, :]
        seen = pair[e][np.ix_(allowed[u], allowed[v])]
        total += float(seen.min())
        size += float(np.abs(seen).max()) + float(np.abs(at_u).max() + np.abs(at_v).max())
    for o, cost in enumerate(node):
        total += float(cost[allowed[o]].min())
        size += float(np.abs(cost).max())
    return total - ROUNDING_MARGIN * size


def unit_flow(laws: StrategyLaws, weights: Mapping[str, float]) -> list[float]:
    """float per law: what reaches an event leaves it, divided in proportion to the weights of the laws that lead on.

    Where all of them weigh nothing, it takes the first. Every law leads to a later event, so all of it ends at `end`.
    """
    onward: list[list[int]] = [[] for _ in laws.events]
    for index, law in enumerate(laws.laws):
        onward[law.tail].append(index)
    held = [0.0] * len(laws.events)
    held[0] = 1.0
    flow = [0.0] * len(laws.laws)
    for event, leaving in enumerate(onward[:-1]):
        if held[event] <= 0.0:
            continue
        share = [weights.get(laws.laws[index].name, 0.0) for index in leaving]
        total = math.fsum(share)
        if total <= 0.0:
            share, total = [1.0] + [0.0] * (len(leaving) - 1), 1.0
        for index, part in zip(leaving, share, strict=True):
            flow[index] = held[event] * (part / total)
            held[laws.laws[index].head] += flow[index]
    return flow


JobResult = Result[CoOptimisation, JobPlan]

SIMULATED = Tolerance.EVENTS.relative
"""Rounding forgiven in sums that a simulator makes over many events."""

SUPPLEMENTS = (Argument.STRATEGY_PROGRAM, Argument.LINK_TREE)
"""Arguments of certificates: of the bound, and of what no plan of a tiny job beats in the bulk-synchronous model."""


@lru_cache(maxsize=4)
def _free_bounds(cluster: Cluster, workload: Workload) -> tuple[Bound, ...]:
    return instance_bounds(cluster, workload)


def _certified(problem: CoOptimisation, certificates: Sequence[Certificate]) -> float:
    own = [certificate for certificate in certificates if certificate.argument is Argument.STRATEGY_PROGRAM]
    if not own:
        raise ValueError("there is no certificate")
    return certified_bound(problem.cluster, problem.workload, own[0])


def _in_turn(problem: CoOptimisation, _: Sequence[Certificate]) -> float:
    on_rings = problem.search.allreduce is AllReduceChoice.RINGS
    bound = strategies_in_turn(problem.cluster, problem.workload, on_rings=on_rings)
    if bound is None:
        raise ValueError("there are too many servers or strategies to bound each")
    return bound.value


def _fixed(value: float) -> Derivation:
    return lambda *_: value


def arguments(problem: CoOptimisation) -> Mapping[Argument, Derivation]:
    """Return the arguments that count for a job: formulas of the instance, strategies in turn and their program."""
    formulas = {bound.argument: _fixed(bound.value) for bound in _free_bounds(problem.cluster, problem.workload)}
    return {**formulas, Argument.STRATEGY_PROGRAM: _certified, Argument.STRATEGIES_IN_TURN: _in_turn}


def iteration_ms(problem: CoOptimisation, plan: JobPlan) -> float:
    """Return the iteration time of a plan, simulated whatever that takes.

    Raises:
        ValueError: The plan breaks a law.
    """
    log, shared = ViolationLog(), problem.shared_as(plan.link_sharing)
    seen = inspect_plan(log, shared.cluster, shared.workload, plan)
    times = iteration_times(log, shared, plan, seen, EventBudget.of(CheckDepth(events=1 << 62))) if log.clean else None
    if times is None:
        raise ValueError("; ".join(str(violation) for violation in log.violations()))
    return times.total_ms


@dataclass(frozen=True, kw_only=True)
class JobChecker(Checker):
    """The checker of plans, which names every broken law and simulates no more than a depth allows."""

    def __call__(self, problem: Any, result: JobResult, depth: CheckDepth = BRIEF) -> CheckFindings:
        """Check a result of any content; never raises. See `Checker`."""
        log, seen, plan = ViolationLog(), Inspection(), result.plan
        log.guard("identity", "the head", lambda: self._identity(log, problem, result))
        allowed, sharing = problem.sharings, getattr(plan, "link_sharing", None)
        if sharing not in allowed:
            names = ", ".join(own.value for own in allowed)
            log.add("link-sharing", f"links are shared as {sharing!s}, allowed: {names}")
        shared = problem.shared_as(sharing if sharing in allowed else allowed[0])
        before = sum(log.counts.values())

        def inspect() -> None:
            nonlocal seen
            seen = inspect_plan(log, shared.cluster, shared.workload, plan)

        log.guard("plan-shape", "the plan", inspect)
        log.guard("allreduce", "what AllReduces run on", partial(check_choice, log, problem.search.allreduce, plan))
        lawful = sum(log.counts.values()) == before
        if lawful and seen.parts is not None:
            simulated = partial(self._simulated, log, shared, result, seen, EventBudget.of(depth))
            log.guard("iteration-time", "the iteration", simulated)
        log.guard("comparison", "the other fabrics", partial(check_comparison, log, problem, plan))
        log.guard("bound", "the bound", partial(self._all_bounds, log, shared, result, seen, lawful))
        log.guard("certificate", "the certificates", partial(self._certificates, log, shared, result))
        log.guard("status", "the status", lambda: self._status(log, problem, result))
        return log.findings()

    def _simulated(
        self, log: ViolationLog, problem: CoOptimisation, result: JobResult, seen: Inspection, budget: EventBudget
    ) -> None:
        times = iteration_times(log, problem, result.plan, seen, budget)
        if times is not None and differs(as_float(result.objective.value), times.total_ms, SIMULATED):
            text = f"the iteration takes {result.objective.value!r} ms, {times.total_ms!r} simulated"
            log.add("iteration-time", text)

    def _all_bounds(
        self, log: ViolationLog, problem: CoOptimisation, result: JobResult, seen: Inspection, lawful: bool
    ) -> None:
        value, proven = as_float(result.objective.value), _free_bounds(problem.cluster, problem.workload)
        if seen.parts is not None and seen.traffic is not None:
            on_rings, links = not result.plan.schedules, seen.links if lawful else None
            of_plan = bounds_of(problem.cluster, problem.workload, seen.parts, seen.traffic, links, on_rings=on_rings)
            proven = (*proven, *of_plan)
        for bound in proven:
            if beats(value, bound.value, self.tolerance):
                log.add("bound", f"the objective {value!r} beats the lower bound {bound.value!r} ({bound.proved_by})")
        if not as_float(result.bound.value) >= 0 or beats(value, as_float(result.bound.value), self.tolerance):
            log.add("bound", f"the bound {result.bound.value!r} is not between 0 and the objective {value!r}")
        derivations = {
            argument: partial(derive, problem, result.certificates)
            for argument, derive in self.arguments(problem).items()
        }
        check_bound(log, result.bound, derivations, value)
        check_claim(log, result, self.claims)

    @staticmethod
    def _certificates(log: ViolationLog, problem: CoOptimisation, result: JobResult) -> None:
        """Each proves something, whether the bound rests on it or not."""
        counts = Counter(certificate.argument for certificate in result.certificates)
        for argument, count in counts.items():
            if argument not in SUPPLEMENTS or count > 1:
                log.add("certificate", f"{count} certificates for {argument}")
        for certificate in result.certificates:
            if certificate.argument is Argument.LINK_TREE:
                check_joint(log, problem, certificate)
            elif result.bound.argument is not Argument.STRATEGY_PROGRAM:
                try:
                    proven = certified_bound(problem.cluster, problem.workload, certificate)
                except ValueError as error:
                    log.add("certificate", str(error))
                    continue
                if beats(as_float(result.objective.value), proven, Tolerance.ROUNDING):
                    log.add("bound", f"the objective beats {proven!r} of the strategy program")


def check_comparison(log: ViolationLog, problem: CoOptimisation, plan: JobPlan) -> None:
    """Every fabric is one of the instance, in its order, and has a legal strategy; its time is not checked."""
    if plan.comparison is None:
        return
    names = [row.fabric for row in plan.comparison.strategies]
    if names != [choice.name for choice in problem.baselines.choices if choice.name in names]:
        log.add("comparison", f"the fabrics {names} are not those of the instance, in its order")
    for row in plan.comparison.strategies:
        own = ViolationLog()
        check_strategy(own, problem.cluster, problem.workload, row.strategy)
        for violation in own.violations():
            log.add("comparison", f"{row.fabric}: {violation.message}")


CHECKER = JobChecker(
    objective=lambda _: ("iteration_time", "ms"),
    constraints=(),
    value=iteration_ms,
    arguments=arguments,
    optimal=Tolerance.ROUNDING,
)
