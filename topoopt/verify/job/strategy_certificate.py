"""Evaluate a proof that no strategy is faster than a bound, without a solver and whoever found it.

For a case (the states every operator may still have), any unit flow from `start` to `end` of the events weighs the laws
of `strategy_laws`: what flows into an event flows out of it, so that the weighted sum of the laws reads

    end >= sum over laws of flow * cost(states).

The right side is a sum of terms of single operators and of pairs of operators. With any prices m of the states at the
two ends of each pair, added to the pair and taken off the operators, and any price of memory mu >= 0,

    end >= constants - mu + sum over o of min over its states s of (term_o(s) + mu room_o(s) - prices of s)
                          + sum over pairs of min over states s, t of (term(s, t) + price(s) + price(t)),

since prices cancel for every choice of states and the rooms of a strategy add up to 1 at most. So any numbers at all
prove what they prove: weights become a unit flow by dividing what reaches an event in proportion to them. The bound of
a tree of cuts is the least of its cases, as every strategy belongs to one.

Where exchanging the two classes of servers, and the residues of all offsets, leaves every table as it is, a strategy
and its mirror image have the same laws; so the offset of one operator may be taken to be even.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Floats, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.proofs import Argument, Bound
from topoopt.core.result import Certificate
from topoopt.core.workload import StrategyCase, StrategyCertificate, StrategyCut, Workload
from topoopt.verify.job.least_times import choices_of
from topoopt.verify.job.strategy_laws import StrategyLaws, mirrored, strategy_laws
from topoopt.verify.laws.findings import float_array, int_array
from topoopt.verify.laws.rounding import MARGIN

Allowed = tuple[Bools, ...]

CLASSES = (1, 2)
"""Into how many classes a certificate may divide the servers."""


@lru_cache(maxsize=2)
def laws_of(cluster: Cluster, workload: Workload, classes: int) -> StrategyLaws:
    """Return the laws of a workload with so many classes of servers; a weight of a certificate has the index of one."""
    return strategy_laws(cluster, workload, choices_of(cluster, workload), classes)


def certified_bound(cluster: Cluster, workload: Workload, certificate: Certificate) -> float:
    """Return what the arrays of a certificate prove about the iteration time of every plan, ms.

    Raises
    ------
    ValueError
        The certificate does not fit the instance, or its cuts are no tree.
    """
    classes = int(_integers(certificate, "classes", 1)[0])
    choices = choices_of(cluster, workload)
    if cluster.servers < 2 or any(not choice.splits for choice in choices):
        return 0.0
    if classes not in CLASSES or cluster.servers % classes:
        raise ValueError(f"{cluster.servers} servers in {classes} classes")
    laws = laws_of(cluster, workload, classes)
    return evaluate_certificate(laws, strategy_proof(certificate, laws))


def strategy_proof(certificate: Certificate, laws: StrategyLaws) -> StrategyCertificate:
    """Return the tree of cuts and cases that the arrays of a certificate state (`core.job.strategy_certificate`).

    Raises
    ------
    ValueError
        An array is missing, has another length, or names a law that does not exist.
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
    """Return the runs of an array between offsets."""
    if ptr[0] != 0 or ptr[-1] != len(array) or (np.diff(ptr) < 0).any():
        raise ValueError("offsets of the certificate do not fit its arrays")
    return np.split(array, ptr[1:-1])


def strategy_bound(cluster: Cluster, workload: Workload, certificate: StrategyCertificate) -> Bound:
    """What a certificate proves about the iteration time of every plan, ms.

    Raises:
        ValueError: the certificate does not fit the instance, or its cuts are no tree.
    """
    choices = choices_of(cluster, workload)
    if cluster.servers < 2 or any(not choice.splits for choice in choices):
        return Bound(0.0, Argument.STRATEGY_PROGRAM)
    if certificate.classes not in CLASSES or cluster.servers % certificate.classes:
        raise ValueError(f"{cluster.servers} servers in {certificate.classes} classes")
    laws = laws_of(cluster, workload, certificate.classes)
    return Bound(evaluate_certificate(laws, certificate), Argument.STRATEGY_PROGRAM)


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
    known = {law.name for law in laws.laws}
    if not known.issuperset(weights):
        raise ValueError(f"the certificate names a law {min(set(weights) - known)!r} that does not exist")
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
    if laws.room is not None and case.memory > 0:
        total -= case.memory
        for o, room in enumerate(laws.room):
            node[o] += case.memory * room
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
    return total - MARGIN * size


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
