"""Evaluate a proof that no plan of a tiny job takes less than a bound by the bulk-synchronous model, without a solver.

The model (that of method `joint`): a compute phase C, then a communication phase theta; C is the largest load of a
server, or the longest chain of forward and backward parts where that is longer, theta the largest time a link is busy
with all bytes of the iteration: transfers split over any routes, AllReduces over any ring orders of their members.

Whatever the links x of a plan, lengths l of ordered pairs of servers (dist: shortest by them, linked or not) have

    theta >= S / sum l_ij x_ij,   S = sum of transfers i -> j times dist(i, j), plus for every AllReduce what a member
    sends times the length of the shortest ring of its members, in ms of a link.

So a strategy takes B at least where its C does, or where sum l x <= S / (B - C) for one of the lengths; all strategies
are listed, those apart for which the lengths say so of any links, and the tree over the links is walked for the others
(`topoopt.verify.laws.link_tree`). All servers of a plan reach each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.errors import InputError
from topoopt.core.job import CoOptimisation
from topoopt.core.network import LinkTree
from topoopt.core.proofs import Tolerance
from topoopt.core.result import Certificate
from topoopt.core.workload import Placement, Workload
from topoopt.verify.job.parts import Parts, place, split_problems
from topoopt.verify.job.traffic import BYTES_PER_MS_OF_ONE_GBPS, edge_transfers, reductions_of
from topoopt.verify.laws.findings import ViolationLog, differs, float_array, int_array
from topoopt.verify.laws.link_tree import LeafCases, LinkRules, distances, longest, parts_of, proven_by_leaves

MOST_SERVERS = 5
"""Rings of more members are too many to be listed."""

MOST_NUMBERS = 10_000_000
"""Strategies at hand times the figures of each."""

_SAFE = 1 - 1e-12
"""For sums of fewer than 1000 positive doubles."""


@dataclass(frozen=True, eq=False)
class _Strategies:
    """Choices of the first operators, a row each: int64[y, operators], what they are; float64[y, n] load of servers;
    int64[y, n] memory; float64[y, k] S of the multipliers.
    """

    options: Ints
    load: Floats
    memory: Ints
    carried: Floats

    def part(self, which: Ints) -> _Strategies:
        """Some of them."""
        return _Strategies(self.options[which], self.load[which], self.memory[which], self.carried[which])


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
        room = np.maximum(claimed - compute * _SAFE, 0.0) + claimed * (1 - _SAFE)
        limit = np.where(carried > 0, np.minimum(np.floor(carried * _SAFE / room[:, None]), 2.0**62), -1.0)
        cases = LeafCases(limit.T.astype(np.int64), compute, carried.T)
        proven = min(proven, proven_by_leaves(rules, lengths, prices, cases))
    return max(claimed, proven)


def joint_proof(certificate: Certificate, servers: int) -> tuple[float, LinkTree]:
    """Return the bound that a certificate states, ms, and its tree (`core.job.joint_certificate`).

    Raises
    ------
    ValueError
        An array is missing, or has another length.
    """
    stated = float_array(certificate["bound_ms"], 1)
    order, multipliers = int_array(certificate["order"], 1), int_array(certificate["multipliers"], 1)
    if stated is None or len(stated) != 1 or order is None or multipliers is None or len(multipliers) % servers**2:
        raise ValueError("the proof of the bulk-synchronous model has arrays of other lengths")
    return float(stated[0]), LinkTree(order, multipliers.reshape(-1, servers, servers))


def check_joint(findings: ViolationLog, problem: CoOptimisation, certificate: Certificate) -> None:
    """A stated bound by the bulk-synchronous model is what its proof shows."""
    try:
        stated, tree = joint_proof(certificate, problem.cluster.servers)
        proven = joint_bound(problem.cluster, problem.workload, tree, stated)
    except (InputError, ValueError) as error:
        findings.add("joint", f"nothing is proven of the bulk-synchronous model: {error}")
        return
    if differs(stated, proven, Tolerance.ROUNDING.relative):
        text = f"no plan takes less than {proven!r} ms by the bulk-synchronous model, the solution states {stated!r}"
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
    known = _Strategies(
        np.zeros((1, 0), dtype=np.int64),
        np.zeros((1, n)),
        np.zeros((1, n), dtype=np.int64),
        np.zeros((1, len(far))),
    )
    for o, own in enumerate(options):
        count = len(known.options) * len(own)
        if count * (len(far) + 3 * n) > MOST_NUMBERS:
            raise InputError("joint bound: more strategies than can be looked at")
        before, choice = np.divmod(np.arange(count), max(1, len(own)))
        known = known.part(before)
        load, used, reduced = _tables(cluster, workload, own, far)
        chosen = np.column_stack((known.options, choice))
        carried = known.carried + reduced[choice] / rate
        for edge in workload.operators[o].inputs:
            table = _between(workload, options[edge.producer], own, edge.fraction, far)
            carried = carried + table[chosen[:, edge.producer], choice] / rate
        known = _Strategies(chosen, known.load + load[choice], known.memory + used[choice], carried)
        if memory is not None:
            known = known.part(np.flatnonzero(known.memory.max(axis=1, initial=0) <= memory))
        low = known.load.max(axis=1, initial=0.0) + _theta(known.carried, root)
        proven = min(proven, float(low[low * _SAFE >= claimed].min(initial=np.inf)))
        known = known.part(np.flatnonzero(low * _SAFE < claimed))
    compute = np.maximum(known.load.max(axis=1, initial=0.0), _chain(workload, options, known.options))
    low = compute + _theta(known.carried, root)
    good = low * _SAFE < claimed
    return min(proven, float(low[~good].min(initial=np.inf))), compute[good], known.carried[good]


def _theta(carried: Floats, root: Floats) -> Floats:
    """float64[y]: theta at least, whatever the links."""
    return np.asarray((carried / np.maximum(root, 1.0)).max(axis=1, initial=0.0))


def _options(cluster: Cluster, workload: Workload, o: int) -> list[Parts]:
    """Every legal placement of an operator."""
    operator, found = workload.operators[o], []
    for index, split in enumerate(operator.splits):
        if split_problems(cluster, workload, operator, split):
            continue
        for offset in range(cluster.servers // (split.sample_ways * split.channel_ways * split.reduce_ways)):
            if operator.pinned_offset in (None, offset):
                found.append(place(o, operator, Placement(index, offset), cluster.servers))
    return found


def _tables(cluster: Cluster, workload: Workload, own: list[Parts], far: Floats) -> tuple[Floats, Ints, Floats]:
    """Of the options of an operator: float64[o, n] load, int64[o, n] memory, float64[o, k] bytes times length."""
    load, used = np.zeros((len(own), cluster.servers)), np.zeros((len(own), cluster.servers), dtype=np.int64)
    reduced = np.zeros((len(own), len(far)))
    for at, parts in enumerate(own):
        load[at, parts.server] = parts.split.forward_ms + parts.split.backward_ms
        used[at, parts.server] = parts.split.server_memory_bytes
        for each in reductions_of(cluster, workload, parts):
            if len(each.members) > 1:
                reduced[at] += each.wire_bytes * _shortest_ring(each.members, far)
    return load, used, reduced


def _shortest_ring(members: tuple[int, ...], far: Floats) -> Floats:
    """float64[k]: the least length of a round through all members."""
    rounds = [(members[0], *rest) for rest in permutations(members[1:])]
    return np.asarray(np.min([far[:, list(r), [*r[1:], r[0]]].sum(axis=1) for r in rounds], axis=0))


def _between(workload: Workload, first: list[Parts], second: list[Parts], fraction: float, far: Floats) -> Floats:
    """float64[options of the producer, of the consumer, k]: bytes both ways times length."""
    table = np.zeros((len(first), len(second), len(far)))
    both_ways = far + far.transpose(0, 2, 1)
    for a, producer in enumerate(first):
        for c, consumer in enumerate(second):
            edge = edge_transfers(workload, producer, consumer, fraction)
            table[a, c] = both_ways[:, edge.source, edge.target] @ edge.bytes.astype(np.float64)
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
