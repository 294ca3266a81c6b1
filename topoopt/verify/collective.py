"""The checker of collectives executes the schedule, and derives again in rationals what limits any schedule."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from topoopt.core.arrays import Ints
from topoopt.core.collective import (
    CircuitSchedule,
    CollectiveOp,
    CollectivePlan,
    CollectiveProblem,
    CollectiveResult,
    SwitchedCollective,
    TimeLine,
)
from topoopt.core.process import end_if_left
from topoopt.core.proofs import Argument, Tolerance, beats
from topoopt.core.rated_network import RatedNetwork
from topoopt.core.result import Certificate
from topoopt.verify.checker import Checker, CheckFindings, Derivation, ViolationLog, differs, float_array, int_array
from topoopt.verify.laws.schedules import LAWS, Law, busy_us, of_group, step_time_us, step_traffic

Number = int | float
Limits = Sequence[Certificate]

TURNED = frozenset({CollectiveOp.REDUCE_SCATTER, CollectiveOp.REDUCE})
"""Collectives that are another one on the transposed network, backward."""


# Constraints of a plan.


def columns_fit(problem: CollectiveProblem, plan: CollectivePlan) -> Iterator[str]:
    """Columns are of equal length, and their entries are blocks, nodes and routes that exist; steps ascend."""
    nodes, routes = problem.network.nodes, plan.routes
    ends = nodes + len(plan.switch_groups)
    blocks, sends = len(plan.block_units), len(plan.send_step)
    columns = (
        ("block_units", blocks, 1, 1 << 60),
        ("block_owner", blocks, 0, nodes - 1),
        ("block_target", blocks, -1, nodes - 1),
        ("send_step", sends, 0, 1 << 30),
        ("send_block", sends, 0, blocks - 1),
        ("send_route", sends, 0, len(routes) - 1),
        ("send_reduce", sends, 0, 1),
    )
    for name, length, least, largest in columns:
        values = int_array(getattr(plan, name), 1)
        if values is None or len(values) != length:
            yield f"{name} is not a column of {length} whole numbers"
        elif length and not (least <= values.min() and values.max() <= largest):
            yield f"{name} has entries outside {least} to {largest}"
    if any(not 0 <= node < ends for route in routes for node in route) or min(map(len, routes), default=2) < 2:
        yield f"routes of fewer than two nodes, or of others than 0 to {ends - 1}"
    elif any(route[0] >= nodes or route[-1] >= nodes for route in routes):
        yield "routes from or to groups of switches"
    if sum(plan.block_units.tolist()) > 1 << 60:
        yield "more units than can be counted"
    if (np.diff(plan.send_step) < 0).any():
        yield "sends that are not in the order of their steps"


def groups_fit(problem: CollectiveProblem, plan: CollectivePlan) -> Iterator[str]:
    """Groups of switches are disjoint, have weights above 0, and are not used where switches copy."""
    switches = [switch for group in plan.switch_groups for switch, _ in group]
    if len(set(switches)) < len(switches) or not set(switches) <= set(range(problem.network.nodes)):
        yield "groups of switches that share one, or of nodes that do not exist"
    if any(weight < 1 for group in plan.switch_groups for _, weight in group):
        yield "a switch of a group without weight"
    if plan.switch_groups and problem.multicast:
        yield "messages are divided over groups of switches that copy"


def routes_used(problem: CollectiveProblem, plan: CollectivePlan) -> Iterator[str]:
    """Every route is taken by some send."""
    for route in np.setdiff1d(np.arange(len(plan.routes)), plan.send_route):
        yield f"route {list(plan.routes[route])} is not used"


def steps_limited(problem: CollectiveProblem, plan: CollectivePlan) -> Iterator[str]:
    """No more steps than the instance allows, in the schedule and in those of other sizes."""
    if problem.steps is None:
        return
    if plan.schedule.steps > problem.steps:
        yield f"{plan.schedule.steps} steps, at most {problem.steps}"
    for index, line in enumerate(plan.front):
        if line.steps > problem.steps:
            yield f"entry {index} of the front takes {line.steps} steps, at most {problem.steps}"


def front_consistent(problem: CollectiveProblem, plan: CollectivePlan) -> Iterator[str]:
    """Each entry of a front is best for some size; the schedule of the plan is the entry of its own size."""
    lines = plan.front
    if (problem.objective == "pareto") != bool(lines):
        yield "best schedules by size where they are not sought" if lines else "no schedules by size"
    if not lines or problem.objective != "pareto":
        return
    numbers = float_array([(line.latency_us, line.us_per_mbyte) for line in lines], 2)
    if numbers is None or not np.isfinite(numbers).all():
        yield "times that are no numbers"
        return
    starts = [1]
    for index, (slow, fast) in enumerate(itertools.pairwise(lines), start=1):
        if not (fast.us_per_mbyte < slow.us_per_mbyte and fast.latency_us > slow.latency_us):
            yield f"entry {index} of the front is better than entry {index - 1} for all sizes, or for none"
            return
        starts.append(_takes_over(slow, fast))
        if starts[-1] <= starts[-2]:
            yield f"entry {index - 1} of the front is best for no size"
    size = problem.vector_bytes
    line = next(line for start, line in zip(starts[::-1], lines[::-1], strict=True) if start <= size)
    time, expected = _step_time_us(problem, plan), line.time_us(size)
    if differs(time, expected, Tolerance.LONG_SUMS.relative):
        yield f"the schedule takes {time!r} us, the best one of its size {expected!r}"
    if plan.schedule.steps != line.steps:
        yield f"the schedule takes {plan.schedule.steps} steps, the best one of its size {line.steps}"


def _takes_over(slow: TimeLine, fast: TimeLine) -> int:
    return max(math.ceil((fast.latency_us - slow.latency_us) / (slow.us_per_mbyte - fast.us_per_mbyte) * 1e6), 1)


def front_within_bounds(problem: CollectiveProblem, result: CollectiveResult) -> Iterator[str]:
    """No entry of a front beats the bounds on what messages and bytes take."""
    if not result.plan.front:
        return
    least_us, tolerance = slowest_message_us(problem), Tolerance.LONG_SUMS
    least_per_mbyte = float(bandwidth_us(problem, result.certificates)) / problem.vector_bytes * 1e6
    for index, line in enumerate(result.plan.front):
        if beats(line.latency_us, least_us, tolerance):
            yield f"entry {index} takes {line.latency_us!r} us of messages, at least {least_us!r} expected"
        if beats(line.us_per_mbyte, least_per_mbyte, tolerance):
            yield f"entry {index} takes {line.us_per_mbyte!r} us/MB, at least {least_per_mbyte!r} expected"


def front_unchecked(problem: CollectiveProblem, plan: CollectivePlan) -> Iterator[tuple[str, str]]:
    """Name what of a front no other figure confirms."""
    if plan.front:
        others = "" if len(plan.front) == 1 else ", steps of other sizes than that of the instance"
        yield f"front: method, pieces{others}", "of the schedules behind it only that of the solution is kept"


# Objective.


def objective_name(problem: CollectiveProblem) -> tuple[str, str]:
    """Return name and unit of the objective."""
    names = {"latency": ("steps", "steps"), "throughput": ("algbw", "GB/s")}
    return names.get(problem.objective, ("time", "us"))


def objective_value(problem: CollectiveProblem, plan: CollectivePlan) -> float:
    """Return the steps of the schedule, its bytes a second on the fullest link, or the time of all its steps."""
    schedule = plan.schedule
    if problem.objective == "latency":
        return float(schedule.steps)
    if problem.objective == "throughput":
        traffic = step_traffic(problem.network, schedule, multicast=problem.multicast)
        return problem.vector_bytes / busy_us(problem, schedule, traffic) / 1e3
    return _step_time_us(problem, plan)


def _step_time_us(problem: CollectiveProblem, plan: CollectivePlan) -> float:
    traffic = step_traffic(problem.network, plan.schedule, multicast=problem.multicast)
    return step_time_us(problem, plan.schedule, traffic)


# Bounds.


def expected_certificates(problem: CollectiveProblem) -> tuple[tuple[Argument, ...], ...]:
    """Return what the certificates of a problem may be; of each, the first argument bounds what bytes take."""
    if problem.collective is CollectiveOp.ALL_TO_ALL or not (problem.relaying or problem.multicast):
        return ((Argument.PAIR_LENGTHS,),)
    if problem.multicast or problem.collective in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE):
        return ((Argument.NETWORK_CUT,),)
    if problem.groups:
        return ((Argument.TREE_LENGTHS,),)
    both = (Argument.TREE_LENGTHS, Argument.NETWORK_CUT)
    return (both,) if problem.collective is CollectiveOp.ALLREDUCE else ((Argument.NETWORK_CUT,), both)


def arguments(problem: CollectiveProblem) -> Mapping[Argument, Derivation]:
    """Return the arguments that count for a problem: the first ones of what its certificates may be."""
    if problem.objective == "latency":
        return {Argument.RANK_DISTANCES: proven_value}
    return {own[0]: partial(_proven_first, own[0]) for own in expected_certificates(problem)}


def _proven_first(argument: Argument, problem: CollectiveProblem, certificates: Limits) -> float:
    """The bound of the first certificate; nothing where that is of another argument."""
    if not certificates or certificates[0].argument is not argument:
        return math.inf if problem.objective == "throughput" else 0.0
    return proven_value(problem, certificates)


def proven_value(problem: CollectiveProblem, certificates: Limits) -> float:
    """Return the bound on the objective, in its unit.

    Raises:
        ValueError: a cut, multipliers or lengths that prove nothing.
    """
    bandwidth = float(bandwidth_us(problem, certificates))
    if problem.objective == "latency":
        return float(fewest_steps(problem.network, problem))
    if problem.objective == "throughput":
        return problem.vector_bytes / bandwidth / 1e3
    message_us = problem.message_us + float(problem.network.latency_us.min())
    return max(bandwidth + message_us, slowest_message_us(problem))


def bandwidth_us(problem: CollectiveProblem, certificates: Limits) -> Fraction:
    """Return the us that the bytes of any schedule take: through the cut, by the multipliers, or over the lengths.

    Raises:
        ValueError: the certificates are not those of the problem, or prove nothing.
    """
    expected = expected_certificates(problem)
    if tuple(certificate.argument for certificate in certificates) not in expected:
        allowed = " or ".join(", ".join(own) for own in expected)
        raise ValueError(f"certificates for {allowed} expected, in this order")
    network, collective, certificate = problem.network, problem.collective, certificates[0]
    per_unit = Fraction(problem.vector_bytes) / network.unit_gbytes_per_s / 1000
    ranks, root = len(problem.members[0]), int(network.ranks[problem.root])
    if collective is CollectiveOp.ALL_TO_ALL:
        lengths = _lengths(certificate)
        if not problem.groups:
            return per_unit / ranks / all_to_all_units(network, lengths, relaying=problem.relaying)
        return per_unit / group_units(problem, lengths)
    if certificate.argument is Argument.TREE_LENGTHS:
        for other in certificates[1:]:  # the cut for people is one, too
            forward = network.transposed() if collective in TURNED else network
            allgather_ratio(forward, _cut(other))
        units = tree_units(problem, *map(tuple, _vectors(certificate, "lengths", "symmetries")))
        return per_unit / units
    if certificate.argument is Argument.PAIR_LENGTHS:
        return per_unit / straight_units(network, _lengths(certificate), collective, root)
    cut = _cut(certificate)
    if collective is CollectiveOp.ALLREDUCE:
        return per_unit / whole_vector_units(network, cut)
    forward = network.transposed() if collective in TURNED else network
    if collective in (CollectiveOp.ALLGATHER, CollectiveOp.REDUCE_SCATTER):
        return per_unit / ranks * allgather_ratio(forward, cut)
    inside = set(cut)
    if root not in inside or ranks_in(network, cut) == set(network.ranks.tolist()) or units_out(forward, inside) == 0:
        raise ValueError("a cut has the root inside and some rank outside")
    return per_unit / units_out(forward, inside)


def _cut(certificate: Certificate) -> list[int]:
    (nodes,) = _vectors(certificate, "nodes")
    if sorted(set(nodes)) != nodes:
        raise ValueError("the nodes of a cut ascend")
    return nodes


def _lengths(certificate: Certificate) -> list[int]:
    return _vectors(certificate, "lengths")[0]


def _vectors(certificate: Certificate, *names: str) -> list[list[int]]:
    vectors = [int_array(certificate[name], 1) for name in names]
    if set(certificate.arrays) != set(names) or any(vector is None for vector in vectors):
        raise ValueError(f"vectors of whole numbers expected: {', '.join(names)}")
    return [vector.tolist() for vector in vectors if vector is not None]


def fewest_steps(network: RatedNetwork, problem: CollectiveProblem) -> int:
    """Return the messages that some byte needs one after the other: a link into a rank, or between ranks, is one."""
    lengths = [int(not network.is_switch[head]) for head in network.arcs[:, 1]]
    return int(_farthest(problem, lengths))


def slowest_message_us(problem: CollectiveProblem) -> float:
    """Return the least time in which something can come from the farthest rank, whatever its size."""
    network = problem.network
    lengths = [
        float(latency) + (0.0 if network.is_switch[head] else problem.message_us)
        for head, latency in zip(network.arcs[:, 1], network.latency_us, strict=True)
    ]
    return float(_farthest(problem, lengths))


def _farthest(problem: CollectiveProblem, lengths: list[int] | list[float]) -> float:
    network, collective = problem.network, problem.collective
    root = int(network.ranks[problem.root])
    rooted = collective in (CollectiveOp.BROADCAST, CollectiveOp.REDUCE)
    forward, along = transposed_with(network, lengths) if collective is CollectiveOp.REDUCE else (network, lengths)
    return max(
        farthest(forward.with_members(own), along, [root] if rooted else own.tolist(), relaying=problem.relaying)
        for own in problem.members
    )


def units_out(network: RatedNetwork, inside: Collection[int]) -> int:
    """Units of the links that leave a set."""
    return sum(
        int(units)
        for (tail, head), units in zip(network.arcs.tolist(), network.units.tolist(), strict=True)
        if tail in inside and head not in inside
    )


def ranks_in(network: RatedNetwork, nodes: Iterable[int]) -> set[int]:
    """The ranks of a set of nodes.

    Raises:
        ValueError: a node that does not exist.
    """
    given = set(nodes)
    if not given <= set(range(network.nodes)):
        raise ValueError("a set with nodes that do not exist")
    return {node for node in given if not network.is_switch[node]}


def allgather_ratio(network: RatedNetwork, nodes: Iterable[int]) -> Fraction:
    """Ranks in a set over the units out of it: an AllGather of M bytes takes (M/N) times this at least.

    Raises:
        ValueError: all ranks are inside, or none.
    """
    inside = set(nodes)
    ranks = ranks_in(network, inside)
    if not 0 < len(ranks) < len(network.ranks):
        raise ValueError("a cut has some ranks inside and some outside")
    out = units_out(network, inside)
    if out == 0:
        raise ValueError("nothing leaves the set")
    return Fraction(len(ranks), out)


def whole_vector_units(network: RatedNetwork, nodes: Iterable[int]) -> int:
    """Units out of a set with ranks inside and outside: the vector of an AllReduce leaves it once at least.

    What ranks outside end with holds what is inside; even where switches copy no set of bytes says it in less.

    Raises:
        ValueError: all ranks are inside, or none.
    """
    inside = set(nodes)
    if not 0 < len(ranks_in(network, inside)) < len(network.ranks):
        raise ValueError("a cut has some ranks inside and some outside")
    out = units_out(network, inside)
    if out == 0:
        raise ValueError("nothing leaves the set")
    return out


LONGEST = 1 << 34
"""Lengths of links are below this, so that lengths of paths stay within 64 bits."""

OUT_OF_REACH = 1 << 48
"""Length in place of infinity, where ranks reach each other through other ranks alone."""


def tree_units(problem: CollectiveProblem, lengths: Sequence[int], symmetries: Sequence[int] = ()) -> Fraction:
    """Upper bound on a rate, in units, that lengths of links prove.

    A tree of a root loads the links, times their lengths, by a least arborescence over the shortest paths between ranks
    at least. The bound is on the rate of the vector: of an AllGather or a ReduceScatter with trees of all roots, of an
    AllReduce with a tree to and a tree from the root where both are shortest. Vectors of process groups count as often
    as they are larger.

    Args:
        lengths: of links, whole numbers.
        symmetries: permutations of the nodes, one after the other; of ranks alike under them one is looked at.

    Raises:
        ValueError: negative lengths, another number of them than links, symmetries that keep not everything, a rank out
            of reach.
    """
    network, collective = problem.network, problem.collective
    if len(lengths) != len(network.arcs) or min(lengths, default=0) < 0 or max(lengths, default=0) >= LONGEST:
        raise ValueError(f"one length for each link expected, from 0 to {LONGEST - 1}")
    own = np.array(lengths, dtype=np.int64)
    capacity = sum(int(units) * int(length) for units, length in zip(network.units, lengths, strict=True))
    orbit = _orbits(problem, own, np.array(symmetries, dtype=np.int64))
    cost: dict[int, int] = {}
    total = Fraction(0)
    for members, vector in zip(problem.members, problem.vectors, strict=True):
        for root in dict(zip(orbit[members].tolist(), members.tolist(), strict=True)).values():
            number = int(orbit[root])
            if number in cost:
                continue
            between = network.with_members(members)
            distance = _distances(between, own, members, relaying=False, infinite=OUT_OF_REACH)[members].T
            index, directions = int(np.searchsorted(members, root)), []
            if collective is not CollectiveOp.REDUCE_SCATTER:
                directions.append(distance)
            if collective is not CollectiveOp.ALLGATHER:
                directions.append(distance.T)
            cost[number] = sum(least_arborescence(matrix, index) for matrix in directions)
        of_roots = [cost[number] for number in orbit[members].tolist()]
        same = collective is CollectiveOp.ALLREDUCE
        total += vector * (Fraction(min(of_roots)) if same else Fraction(sum(of_roots), len(members)))
    if not 0 < total < OUT_OF_REACH:
        raise ValueError("no ranks are apart by these lengths, or a rank is out of reach")
    return Fraction(capacity, total)


def _orbits(problem: CollectiveProblem, lengths: Ints, symmetries: Ints) -> Ints:
    """int64[V], the least node of the orbit of every node under permutations that are verified.

    Raises:
        ValueError: no permutations of the nodes, or some that do not keep ranks, process groups, units and lengths.
    """
    network = problem.network
    nodes, arcs = network.nodes, network.arcs.astype(np.int64)
    if len(symmetries) % nodes:
        raise ValueError("symmetries that are no permutations of the nodes")
    codes = arcs[:, 0] * nodes + arcs[:, 1]
    number = np.full(nodes, -1)
    for index, members in enumerate(problem.members):
        number[members] = index
    label = np.arange(nodes)
    permutations = symmetries.reshape(-1, nodes)
    for image in permutations:
        if not np.array_equal(np.sort(image), np.arange(nodes)):
            raise ValueError("symmetries that are no permutations of the nodes")
        moved = image[arcs[:, 0]] * nodes + image[arcs[:, 1]]
        order = np.argsort(moved)
        kept = np.array_equal(moved[order], codes)  # arcs are in the order of their codes
        if not kept or any((row[order] != row).any() for row in (network.units, lengths)):
            raise ValueError("symmetries that do not keep links, their units and their lengths")
        groups = {(int(a), int(b)) for a, b in zip(number, number[image], strict=True)}
        alike = len(groups) == len({a for a, _ in groups}) and all((a < 0) == (b < 0) for a, b in groups)
        alike = alike and all(problem.vectors[a] == problem.vectors[b] for a, b in groups if min(a, b) >= 0)
        if not alike or (network.is_switch[image] != network.is_switch).any():
            raise ValueError("symmetries that do not keep ranks and process groups")
    while True:
        before = label.copy()
        for image in permutations:
            least = np.minimum(label, label[image])
            label = least.copy()
            np.minimum.at(label, image, least)
        if np.array_equal(label, before):
            return label


def least_arborescence(cost: Ints, root: int) -> int:
    """Least total cost of arcs by which a root reaches all nodes: cheapest arcs in, cycles contracted (Edmonds 1967).

    Args:
        cost: int64[n, n], of the arc from row to column, below 2^49.
    """
    cost, total, large = cost.copy(), 0, np.int64(1 << 55)
    while True:
        n = len(cost)
        np.fill_diagonal(cost, large)
        parent = cost.argmin(axis=0)
        least = cost[parent, np.arange(n)]
        least[root], parent[root] = 0, root
        total += int(least.sum())
        end = parent
        for _ in range(n.bit_length()):  # where the path up from every node ends: the root, or a cycle
            end = end[end]
        on_cycle = np.zeros(n, dtype=np.bool_)
        on_cycle[end] = True
        while not on_cycle[parent[on_cycle]].all():
            on_cycle[parent[on_cycle]] = True
        on_cycle[root] = False
        if not on_cycle.any():
            return total
        label = np.arange(n)
        while True:  # the least number on the cycle
            lower = np.where(on_cycle, np.minimum(label, label[parent]), label)
            if np.array_equal(lower, label):
                break
            label = lower
        kept, group = np.unique(label, return_inverse=True)
        rows = np.full((len(kept), n), large)
        np.minimum.at(rows, group, cost - least[None, :])
        reduced = np.full((len(kept), len(kept)), large)
        np.minimum.at(reduced.T, group, rows.T)
        cost, root = reduced, int(group[root])


def group_units(problem: CollectiveProblem, lengths: Sequence[int]) -> Fraction:
    """Upper bound on the rate of the vector of a rank in All-to-Alls of process groups at once; larger ones count so.

    Raises:
        ValueError: as `all_to_all_units`.
    """
    cost = Fraction(0)
    for members, vector in zip(problem.members, problem.vectors, strict=True):
        distance = _sum_of_distances(problem.network.with_members(members), lengths, relaying=problem.relaying)
        cost += Fraction(vector * distance, len(members))
    return _over(problem.network, lengths, cost)


def all_to_all_units(network: RatedNetwork, lengths: Sequence[int], *, relaying: bool) -> Fraction:
    """Upper bound on the rate of every ordered pair, in units, that lengths of links prove.

    What all pairs send at rate lambda takes lambda times the sum of their distances, of the sum of units times lengths.

    Raises:
        ValueError: negative lengths, another number of them than links, no distance at all.
    """
    return _over(network, lengths, Fraction(_sum_of_distances(network, lengths, relaying=relaying)))


def _over(network: RatedNetwork, lengths: Sequence[int], cost: Fraction) -> Fraction:
    """Units times lengths of the links over what a rate of 1 costs."""
    if cost <= 0:
        raise ValueError("no ranks are apart by these lengths")
    return sum(int(units) * int(length) for units, length in zip(network.units, lengths, strict=True)) / cost


def _sum_of_distances(network: RatedNetwork, lengths: Sequence[int], *, relaying: bool) -> int:
    if len(lengths) != len(network.arcs) or min(lengths, default=0) < 0:
        raise ValueError("one length for each link expected, none below 0")
    ranks = network.ranks
    if max(lengths, default=0) >= LONGEST:
        return sum(int(sum(distances(network, rank, lengths, relaying=relaying).values())) for rank in ranks.tolist())
    matrix = _distances(network, np.array(lengths, dtype=np.int64), ranks, relaying, infinite=OUT_OF_REACH)[ranks]
    if matrix.max() >= OUT_OF_REACH:
        raise ValueError("a rank out of reach")
    return int(matrix.sum())


def straight_units(network: RatedNetwork, lengths: Sequence[int], collective: CollectiveOp, root: int) -> Fraction:
    """Upper bound on the rate of the vector, in units, where ranks do not relay, that lengths of links prove.

    Every rank sends each other one its shard (AllGather; a ReduceScatter the same backward), the root its vector to all
    (broadcast; a reduction backward). In an AllReduce all send what is rooted at a rank there and get it back: of all
    ranks the one for which that is shortest counts.

    Raises:
        ValueError: as `all_to_all_units`.
    """
    if collective in (CollectiveOp.ALLGATHER, CollectiveOp.REDUCE_SCATTER):
        return all_to_all_units(network, lengths, relaying=False) * len(network.ranks)
    if len(lengths) != len(network.arcs) or min(lengths, default=0) < 0:
        raise ValueError("one length for each link expected, none below 0")
    capacity = sum(int(units) * int(length) for units, length in zip(network.units, lengths, strict=True))
    backward, turned = transposed_with(network, lengths)

    def back(rank: int) -> Number:
        return sum(distances(network, rank, lengths, relaying=False).values())

    def there(rank: int) -> Number:
        return sum(distances(backward, rank, turned, relaying=False).values())

    if collective is CollectiveOp.ALLREDUCE:
        distance = min(there(rank) + back(rank) for rank in network.ranks.tolist())
    else:
        distance = back(root) if collective is CollectiveOp.BROADCAST else there(root)
    if distance <= 0:
        raise ValueError("no ranks are apart by these lengths")
    return Fraction(capacity) / Fraction(distance)


def transposed_with(network: RatedNetwork, lengths: Sequence[Number]) -> tuple[RatedNetwork, list[Number]]:
    """Every link turned round, and their lengths in the order they have then."""
    turned = network.transposed()
    length = {(head, tail): own for (tail, head), own in zip(network.arcs.tolist(), lengths, strict=True)}
    return turned, [length[tail, head] for tail, head in turned.arcs.tolist()]


def distances(
    network: RatedNetwork, source: int, lengths: Sequence[Number], *, relaying: bool = True
) -> dict[int, Number]:
    """Return the shortest distance from a rank to every other one (Dijkstra, in the numbers of the lengths).

    Args:
        relaying: whether paths may lead through other ranks.

    Raises:
        ValueError: a rank is out of reach.
    """
    out: dict[int, list[tuple[int, Number]]] = {}
    for (tail, head), length in zip(network.arcs.tolist(), lengths, strict=True):
        out.setdefault(tail, []).append((head, length))
    final: dict[int, Number] = {}
    heap: list[tuple[Number, int]] = [(0, source)]
    while heap:
        distance, node = heapq.heappop(heap)
        if node in final:
            continue
        final[node] = distance
        if relaying or node == source or network.is_switch[node]:
            for head, length in out.get(node, ()):
                if head not in final:
                    heapq.heappush(heap, (distance + length, head))
    others = {int(rank): final[rank] for rank in network.ranks.tolist() if rank in final and rank != source}
    if len(others) < len(network.ranks) - 1:
        raise ValueError("a rank out of reach")
    return others


def farthest(network: RatedNetwork, lengths: Sequence[float], sources: Sequence[int], *, relaying: bool) -> float:
    """Largest distance from one of some ranks to any other rank.

    Args:
        lengths: not negative, one for each arc.
        relaying: whether ways may lead through other ranks.

    Raises:
        ValueError: a rank out of reach.
    """
    far = _distances(network, np.array(lengths, dtype=np.float64), np.array(sources), relaying)[network.ranks]
    if not np.isfinite(far).all():
        raise ValueError("a rank out of reach")
    return float(far.max())


def _distances(
    network: RatedNetwork, lengths: Any, sources: np.ndarray, relaying: bool, infinite: float = np.inf
) -> Any:
    """[V, sources], in the type of the lengths: from each source; `infinite` where there is no path."""
    order = np.argsort(network.arcs[:, 1], kind="stable")
    tails, heads = network.arcs[order].T
    reached, first = np.unique(heads, return_index=True)
    far = np.full((network.nodes, len(sources)), infinite, dtype=lengths.dtype)
    far[sources, np.arange(len(sources))] = 0
    # Over these links and from these sources nothing is passed on.
    ends_here = (not relaying) & ~network.is_switch[tails][:, None] & (tails[:, None] != sources)
    while True:
        end_if_left()
        over = far[tails] + lengths[order][:, None]
        over[ends_here] = infinite
        less = np.minimum(np.minimum(far[reached], np.minimum.reduceat(over, first, axis=0)), infinite)
        if np.array_equal(less, far[reached]):
            return far
        far[reached] = less


# Collectives on circuits.

ROUNDING = 1e-9


def check_circuits(problem: SwitchedCollective, schedule: CircuitSchedule) -> CheckFindings:
    """Steps, time, and that no schedule of circuits is faster (backwards from the last step)."""
    log = ViolationLog()
    steps = _steps(problem)
    same = len(steps) == len(schedule.steps) and all(
        a[0] == b[0] and not differs(a[1], b[1], ROUNDING) for a, b in zip(steps, schedule.steps, strict=True)
    )
    if not same or len(schedule.circuits) != len(steps):
        log.add("steps", "the steps are not those of the collective")
        return log.findings()
    states = {1, *(distance for distance, _ in steps)}
    if not set(schedule.circuits) <= states:
        log.add("circuits", "circuits of distances that no step has")
        return log.findings()
    table = [{state: _seconds(problem, *step, state) for state in states} for step in steps]
    time_s, before = 0.0, 1
    for row, circuits in zip(table, schedule.circuits, strict=True):
        time_s += row[circuits] + (schedule.delay_s if circuits != before else 0.0)
        before = circuits
    least = dict.fromkeys(states, 0.0)
    for row in reversed(table):
        behind = {state: row[state] + least[state] for state in states}
        best = min(behind.values()) + schedule.delay_s
        least = {state: min(behind[state], best) for state in states}
    never = sum(row[1] for row in table)
    for name, declared, value in (("time_s", schedule.time_s, time_s), ("never_s", schedule.never_s, never)):
        if differs(declared, value, ROUNDING):
            log.add("figure", f"{name} comes to {value!r}, not {declared!r}")
    if differs(schedule.time_s, least[1], ROUNDING):
        log.add("optimum", f"{least[1]!r} s can be reached, not {schedule.time_s!r}")
    return log.findings()


def _steps(problem: SwitchedCollective) -> list[tuple[int, float]]:
    n, size = problem.ranks, problem.vector_bytes
    if problem.collective == "ring":
        return [(1, 0.5 * size / n) for _ in range(2 * n - 2)]
    if problem.collective == "all-to-all":
        return [(s, size / n) for s in range(1, n) if 2 * s <= n]
    halving, part, distance = [], size, 1
    while distance < n:
        part /= 2
        halving.append((-distance, part))
        distance *= 2
    return halving + halving[::-1]


def _seconds(problem: SwitchedCollective, distance: int, size: float, circuits: int) -> float:
    """Of a step: the fullest circuit, every rank's bytes passed on the shorter way, half each where both are alike."""
    n, load = problem.ranks, defaultdict[tuple[int, int], float](float)
    if circuits < 0:
        if distance != circuits:
            return float("inf")
        return problem.step_s + size / (problem.ports * problem.bytes_per_s)
    for rank in range(n):
        targets = [rank ^ -distance] if distance < 0 else [(rank + distance) % n, (rank - distance) % n]
        part = size / 2 if len(set(targets)) < len(targets) else size
        for target in targets:
            if not _pass_on(load, rank, target, part, circuits, n):
                return float("inf")
    return problem.step_s + max(load.values()) / (problem.ports / 2 * problem.bytes_per_s)


def _pass_on(load: dict[tuple[int, int], float], rank: int, target: int, size: float, circuits: int, n: int) -> bool:
    """Send bytes along the shorter way; False: there is none."""
    routes = []
    for step in (circuits, -circuits):
        at = rank
        route: list[tuple[int, int]] = []
        while at != target and len(route) < n:
            route.append((at, step))
            at = (at + step) % n
        if at != target:
            return False
        routes.append(route)
    least = min(map(len, routes))
    short = [route for route in routes if len(route) == least]
    for route in short:
        for arc in route:
            load[arc] += size / len(short)
    return True


def _of_schedule(law: Law) -> Callable[[CollectiveProblem, CollectivePlan], Iterator[str]]:
    def of_every_group(problem: CollectiveProblem, plan: CollectivePlan) -> Iterator[str]:
        if not problem.groups:
            yield from law(problem, plan.schedule)
        for members in problem.members if problem.groups else ():
            alone = replace(problem, network=problem.network.with_members(members), groups=())
            yield from law(alone, of_group(plan.schedule, members))

    return of_every_group


def vectors_equal(problem: CollectiveProblem, plan: CollectivePlan) -> Iterator[str]:
    """The vectors of all process groups have as many units, and every block is one of a member."""
    owner = np.asarray(plan.block_owner)
    if not np.isin(owner, np.concatenate(problem.members)).all():
        yield "a block of a node that is no member"
    sums = [int(np.asarray(plan.block_units)[np.isin(owner, members)].sum()) for members in problem.members]
    ranks = problem.collective is CollectiveOp.ALL_TO_ALL  # every rank has a vector then
    expected = [
        vector * (len(own) if ranks else 1) for vector, own in zip(problem.vectors, problem.members, strict=True)
    ]
    if len({Fraction(*pair) for pair in zip(sums, expected, strict=True)}) > 1:
        yield f"vectors of {', '.join(map(str, sums))} units, in proportion {':'.join(map(str, expected))} expected"


CHECKER = Checker(
    objective=objective_name,
    constraints=(
        ("columns", columns_fit),
        ("switch-groups", groups_fit),
        ("vectors", vectors_equal),
        *((code, _of_schedule(law)) for code, law in LAWS),
        ("route", routes_used),
        ("steps", steps_limited),
        ("front", front_consistent),
    ),
    value=objective_value,
    arguments=arguments,
    of_results=(("front", front_within_bounds),),
    unchecked=front_unchecked,
    tolerance=Tolerance.LONG_SUMS,
    optimal=Tolerance.LONG_SUMS,
    claim_tolerance=Tolerance.LONG_SUMS,
)
