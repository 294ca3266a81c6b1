"""Programs of an instance of objective latency as `topoopt export` writes them: data from the instance alone.

The solvers build the same programs from better data: a makespan they know, orders of a schedule they found. Here the
makespan known is that of everything run one after another, and the placement, where one is needed, cuts the operators
in topological order into parts of equal work.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from formulations import placed_graphs, placement_joint
from formulations.placed_graphs import RateProblem
from formulations.placement_joint import JointPlacement, JointTensor, Pair
from formulations.programs import LpArrays
from topoopt.core.arrays import bytes_per_ms
from topoopt.core.errors import InputError, Problem
from topoopt.core.placement import Latency, PlacementProblem

if TYPE_CHECKING:
    import networkx as nx


FACTORS = (0.5, 1.0, 2.0)
"""Tangents lie at these multiples of an equal split."""


def alone_ms(problem: PlacementProblem, tensor: int, source: int, target: int) -> float:
    """Time of a transfer between two devices at the full rate of their servers, 0 on the same device."""
    if source == target:
        return 0.0
    size = problem.tensors[tensor].size_bytes
    s, t = problem.devices[source].server, problem.devices[target].server
    if s == t:
        inside = size / bytes_per_ms(problem.servers[s].inside_gbps) if size else 0.0
        return problem.intra_latency_ms + inside
    rate = min(problem.servers[s].network_gbps, problem.servers[t].network_gbps)
    return problem.transfer_latency_ms + (size / bytes_per_ms(rate) if size else 0.0)


def serial_ms(problem: PlacementProblem, slower: float = 1.0) -> float:
    """A makespan that some order of every placement reaches: all operators and transfers one after another.

    Parameters
    ----------
    slower : how much slower than alone a transfer may be.
    """
    devices = range(len(problem.devices))
    work = sum(max(time for time in operator.times_ms if np.isfinite(time)) for operator in problem.operators)
    sent = 0.0
    for t, tensor in enumerate(problem.tensors):
        worst = max(alone_ms(problem, t, d, e) for d in devices for e in devices)
        sent += worst * min(len(tensor.consumers), len(problem.devices))
    return work + slower * sent


def _latency(problem: PlacementProblem, *, shared: bool) -> Latency:
    """The objective.

    Raises
    ------
    InputError
        Another one; with `shared`, transfers without rates of their own; servers without links.
    """
    settings = problem.objective
    problems = []
    if not isinstance(settings, Latency):
        problems.append(Problem("this formulation is of objective latency", path="objective", value=settings.name))
    elif shared and settings.sharing != "static":
        text = "this formulation is of rates for pairs of servers"
        problems.append(Problem(text, path="latency.sharing", value=settings.sharing, allowed="static"))
    used = sorted({device.server for device in problem.devices})
    bare = [problem.servers[s].name for s in used if problem.servers[s].network_gbps <= 0]
    if len(used) > 1 and bare:
        problems.append(Problem("no link to the other servers", path="servers", value=", ".join(bare)))
    if problems:
        raise InputError(problems)
    assert isinstance(settings, Latency)
    return settings


def makespan_program(problem: PlacementProblem, options: Mapping[str, float]) -> LpArrays:
    """Rows of `placement_makespan`.

    Raises
    ------
    InputError
        See `_latency`; or transfers that contend (then it is a relaxation, unless option `relax` is 1).
    """
    settings = _latency(problem, shared=False)
    if settings.sharing != "none" and not options["relax"]:
        text = "this formulation has no contention; --option relax=1 takes it as a relaxation"
        raise InputError([Problem(text, path="latency.sharing", value=settings.sharing, allowed="none")])

    def send(t: int, d: int, e: int) -> float:
        return alone_ms(problem, t, d, e)

    return placed_graphs.placement_makespan_arrays(problem, serial_ms(problem), send)


def equal_split(problem: PlacementProblem, unit: float) -> dict[Pair, float]:
    """Inverse rates of pairs of servers with devices, when each shares its links equally."""
    used = sorted({device.server for device in problem.devices})
    links = {s: bytes_per_ms(problem.servers[s].network_gbps) / unit for s in used}
    return {(s, u): (len(used) - 1) / min(links[s], links[u]) for s in used for u in used if s != u}


def joint_data(
    problem: PlacementProblem, upper_ms: float, points: Mapping[Pair, tuple[float, ...]], *, least: float = 0.0
) -> JointPlacement:
    """Data of `placement_joint`; the unit of rates is the fastest server's links.

    Parameters
    ----------
    points : inverse rates, in that unit; none: tangents about an equal split.
    least : tensors of no more bytes count as empty, which leaves a relaxation.
    """
    groups = problem.colocated()
    of = {i: g for g, members in enumerate(groups) for i in members}
    links = np.array([bytes_per_ms(server.network_gbps) for server in problem.servers])
    unit = float(links.max()) or 1.0
    split = equal_split(problem, unit) if len({device.server for device in problem.devices}) > 1 else {}

    def inside(size: int, s: int) -> float:
        rate = bytes_per_ms(problem.servers[s].inside_gbps)
        return problem.intra_latency_ms + (size / rate if size and rate > 0 else 0.0)

    tensors = tuple(
        JointTensor(
            tensor.producer,
            tensor.consumers,
            tensor.size_bytes / unit if tensor.size_bytes > least else 0.0,
            tuple(inside(tensor.size_bytes, s) for s in range(len(problem.servers))),
        )
        for tensor in problem.tensors
    )
    kinds = {(device.class_index, device.memory_bytes) for device in problem.devices}
    homes = {
        (problem.servers[device.server].network_gbps, problem.servers[device.server].inside_gbps)
        for device in problem.devices
    }
    own = len({device.server for device in problem.devices}) in (1, len(problem.devices))
    return JointPlacement(
        time=np.array([[problem.time_ms(i, d) for d in range(len(problem.devices))] for i in range(len(of))]),
        group=tuple(of[i] for i in range(len(of))),
        memory=tuple(float(sum(problem.operators[i].memory_bytes for i in members)) for members in groups),
        limit=tuple(np.inf if d.memory_bytes is None else float(d.memory_bytes) for d in problem.devices),
        server=tuple(device.server for device in problem.devices),
        tensors=tensors,
        alpha_ms=problem.transfer_latency_ms,
        capacity=links / unit,
        upper_ms=upper_ms,
        points={pair: points.get(pair) or tuple(f * r for f in FACTORS) for pair, r in split.items()},
        alike=len(kinds) == 1 and len(homes) == 1 and own,
    )


def joint_program(problem: PlacementProblem, options: Mapping[str, float]) -> LpArrays:
    """Rows of `placement_joint`.

    Raises
    ------
    InputError
        See `_latency`; or rates that are given.
    """
    settings = _latency(problem, shared=True)
    if settings.rates != "optimised":
        text = "this formulation chooses the rates"
        raise InputError([Problem(text, path="latency.rates", value=settings.rates, allowed="optimised")])
    servers = len({device.server for device in problem.devices})
    upper = serial_ms(problem, max(1.0, servers - 1.0))
    return placement_joint.build_arrays(joint_data(problem, upper, {}))


def sliced(problem: PlacementProblem) -> tuple[list[int], list[int]]:
    """A topological order, and devices that cut it into parts of equal work, co-located operators together.

    Where a device cannot run its part, the next one that can does. Memory is not looked at.

    Raises
    ------
    InputError
        Operators that together run nowhere.
    """
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(problem.operators)))
    graph.add_edges_from((tensor.producer, user) for tensor in problem.tensors for user in tensor.consumers)
    order = list(nx.lexicographical_topological_sort(graph))
    work = [min(operator.times_ms) for operator in problem.operators]
    total, done = sum(work) or 1.0, 0.0
    home: dict[int, int] = {}
    groups, k = problem.colocated(), len(problem.devices)
    of = {i: g for g, members in enumerate(groups) for i in members}
    for i in order:
        part = min(k - 1, int(done / total * k))
        able = [d for d in (*range(part, k), *range(part)) if all(problem.supports(j, d) for j in groups[of[i]])]
        if not able:
            name = problem.operators[i].name
            raise InputError([Problem("no device runs all of its co-located group", path="operators", value=name)])
        home.setdefault(of[i], able[0])
        done += work[i]
    return order, [home[of[i]] for i in range(len(problem.operators))]


def rates_program(problem: PlacementProblem, options: Mapping[str, float]) -> LpArrays:
    """Rows of `placement_rates` for `sliced`, all orders topological.

    Raises
    ------
    InputError
        See `_latency` and `sliced`; or nothing is sent between servers.
    """
    _latency(problem, shared=True)
    order, device = sliced(problem)
    position = {i: at for at, i in enumerate(order)}
    links = np.array([bytes_per_ms(server.network_gbps) for server in problem.servers])
    unit = float(links.max()) or 1.0
    fixed = [problem.time_ms(i, d) for i, d in enumerate(device)]
    volume, pair = [0.0] * len(fixed), [None] * len(fixed)
    pairs: list[Pair | None] = [*pair]
    arcs: dict[tuple[int, int], float] = {}
    lines: dict[object, list[int]] = {}
    for i in order:
        lines.setdefault(device[i], []).append(i)
    for t, tensor in sorted(enumerate(problem.tensors), key=lambda entry: position[entry[1].producer]):
        i = tensor.producer
        for e in sorted({device[j] for j in tensor.consumers}):
            s, u = problem.devices[device[i]].server, problem.devices[e].server
            readers = [j for j in tensor.consumers if device[j] == e]
            if s == u or not tensor.size_bytes:
                arcs |= {(i, j): max(arcs.get((i, j), 0.0), alone_ms(problem, t, device[i], e)) for j in readers}
                continue
            activity = len(fixed)
            fixed.append(problem.transfer_latency_ms)
            volume.append(tensor.size_bytes / unit)
            pairs.append((s, u))
            lines.setdefault((s, u), []).append(activity)
            arcs |= {(i, activity): 0.0, **{(activity, j): 0.0 for j in readers}}
    for line in lines.values():
        arcs |= {(a, b): arcs.get((a, b), 0.0) for a, b in pairwise(line)}
    data = RateProblem(
        np.array(fixed), np.array(volume), tuple(pairs), tuple((*ends, lag) for ends, lag in arcs.items()), links / unit
    )
    if not data.pairs:
        raise InputError([Problem("nothing is sent between servers by the placement of this formulation")])
    split = equal_split(problem, unit)
    return placed_graphs.placement_rates_arrays(data, [{q: f * split[q] for q in data.pairs} for f in FACTORS])


def packing_program(problem: PlacementProblem, options: Mapping[str, float]) -> LpArrays:
    """Rows of `link_packing` for an equal split of each server's links.

    Raises
    ------
    InputError
        See `_latency`; or one server only.
    """
    _latency(problem, shared=True)
    if len({device.server for device in problem.devices}) < 2:
        raise InputError([Problem("one server has no rates to others", path="servers")])
    size, most = len(problem.servers), max(len(server.links) for server in problem.servers)
    rate, capacity = np.zeros((size, size)), np.zeros((size, most))
    for (s, u), slow in equal_split(problem, bytes_per_ms(1.0)).items():
        rate[s, u] = 1.0 / slow
    for s, server in enumerate(problem.servers):
        capacity[s, : len(server.links)] = [link.gbps for link in server.links]
    return placed_graphs.link_packing_arrays(rate, capacity, options["scale"] or None)
