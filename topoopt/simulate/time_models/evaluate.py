"""A time model simulates an iteration; critical path, link loads and timeline explain it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import MIB, Bools, Floats, Int32s, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.job import Breakdown, Evaluation, Span
from topoopt.core.workload import TaskGraph, TaskKind
from topoopt.native import flows, jobs
from topoopt.simulate.network import ALLREDUCE, TRANSFER, Network, graph_arrays, network_arrays
from topoopt.simulate.time_models import TIME_MODELS


@dataclass(frozen=True, eq=False)
class Simulation:
    """One simulated iteration.

    Attributes:
        iteration_time_ms: latest end.
        start_ms, end_ms: float64[T].
        cause: int32[T], the task whose end let each task start, -1 for none.
        link_bytes, link_busy_ms: float64[L] of the network's links.
    """

    iteration_time_ms: float
    start_ms: Floats
    end_ms: Floats
    cause: Int32s
    link_bytes: Floats
    link_busy_ms: Floats


@dataclass(frozen=True)
class TimeModel:
    """A line of the table of time models.

    Attributes:
        summary: how links are shared, in one line.
        run: simulates one iteration. Raises InputError where the network lacks a path of a transfer, or tasks wait for
            each other in a circle; ValueError where it lacks the rings of a group.
        first_iterations: runs jobs (the tasks of job j are job_ptr[j]..job_ptr[j+1] of int64[J+1]), each beginning
            again when it is done, until the last one has done its first iteration; the end of that of each, -1: never.
            None: not several jobs.
        by_sharing: links are shared as the network says; False: in a way of its own.
    """

    summary: str
    run: Callable[[TaskGraph, Network], Simulation]
    first_iterations: Callable[[TaskGraph, Network, Ints], Floats] | None = None
    by_sharing: bool = False


def whole(graph: TaskGraph) -> Ints:
    """The tasks of a graph as those of one job."""
    return np.array([0, graph.tasks], dtype=np.int64)


Outcome = tuple[float, Floats, Floats, Int32s, Floats, Floats, Floats, int]
"""What a simulation of a task graph did: one iteration of every job, or the last one begun where jobs begin again.

Latest end of a task, ms, infinity if it passed the threshold; float64[T] start and end, ms, end -1: never ran;
int32[T] cause; float64[J] end of the first iteration of each job, -1: none; float64[L] bytes over each link, and ms in
which it carries them; how many tasks of first iterations could never run, or not yet when it was stopped.
"""


def simulation_of(outcome: Outcome, tasks: int) -> Simulation:
    """An iteration in which every task ran.

    Raises:
        InputError: some did not.
    """
    time_ms, start, end, cause, _, carried, busy, left = outcome
    require_all_done(left, tasks)
    return Simulation(time_ms, start, end, cause, carried, busy)


def require_all_done(left: int, tasks: int) -> None:
    """Refuse a simulation that got stuck.

    Raises:
        InputError: some tasks are left.
    """
    if left:
        raise InputError(f"{left} of {tasks} tasks can never run: they wait for each other in a circle")


def require_paths(graph: TaskGraph, network: Network) -> None:
    """Refuse transfers between servers without a path.

    Raises:
        InputError: lists the first pairs.
    """
    if graph.servers != network.servers:
        raise InputError(f"task graph of {graph.servers} servers on a network of {network.servers}")
    moved = (graph.kind == TaskKind.TRANSFER) & (graph.source != graph.target)
    pair = np.unique(graph.source[moved].astype(np.int64) * network.servers + graph.target[moved])
    missing = pair[network.pair_ptr[pair + 1] == network.pair_ptr[pair]]
    if len(missing):
        raise InputError(
            [
                Problem(f"no path from server {p // network.servers} to {p % network.servers}", path="routes")
                for p in missing[:5].tolist()
            ]
        )


MOST_SPANS = 8000
"""Bars that a timeline has room for; see `timeline_of`."""

SHORTEST = 2.0**-12
"""Part of the iteration below which passes of a server are merged first."""


def span_of(graph: TaskGraph, simulation: Simulation, task: int) -> Span:
    kind = TaskKind(graph.kind[task])
    operator = int(graph.operator[task])
    name = graph.operator_names[operator] if 0 <= operator < len(graph.operator_names) else f"task {task}"
    if kind is TaskKind.TRANSFER:
        name += f" {graph.source[task]}→{graph.target[task]}"
    start_ms, end_ms = float(simulation.start_ms[task]), float(simulation.end_ms[task])
    return Span(int(graph.source[task]), kind.name.lower(), name, start_ms, end_ms)


def timeline_of(graph: TaskGraph, simulation: Simulation, critical: tuple[Span, ...]) -> tuple[tuple[Span, ...], int]:
    """A bar for every task that takes time, by their starts, and how many servers there was no room for.

    Where these are more than `MOST_SPANS`, the transfers of a server become the times in which it sends any, and passes
    of one direction that follow each other without a gap become one bar, those first that are shortest. Where that is
    not enough, servers are left out whole: the last ones that are not on the critical path.
    """
    shown = np.flatnonzero(simulation.end_ms > simulation.start_ms)
    left_out = 0
    if len(shown) <= MOST_SPANS:
        spans = [span_of(graph, simulation, int(task)) for task in shown]
    else:
        moved = graph.kind[shown] == TaskKind.TRANSFER
        reduced = graph.kind[shown] == TaskKind.ALLREDUCE
        spans = _merged_transfers(graph, simulation, shown[moved])
        spans += [span_of(graph, simulation, int(task)) for task in shown[reduced]]
        spans += _merged_passes(graph, simulation, shown[~moved & ~reduced], MOST_SPANS - len(spans))
        spans, left_out = _fewer_servers(spans, {span.lane for span in critical})
    return tuple(sorted(spans, key=lambda span: (span.start_ms, span.lane))), left_out


def _fewer_servers(spans: list[Span], critical: set[int]) -> tuple[list[Span], int]:
    """The bars of the critical servers, AllReduces among them, and of as many others as fit; how many do not."""
    bars = Counter(span.lane for span in spans)
    lanes = sorted(bars, key=lambda lane: (lane >= 0 and lane not in critical, lane))
    count = np.cumsum([bars[lane] for lane in lanes])
    always = sum(lane < 0 or lane in critical for lane in lanes)
    kept = set(lanes[: max(always, int(np.searchsorted(count, MOST_SPANS, side="right")))])
    return [span for span in spans if span.lane in kept], len(lanes) - len(kept)


def _merged_transfers(graph: TaskGraph, simulation: Simulation, moved: Ints) -> list[Span]:
    spans = []
    for server in range(graph.servers):
        own = moved[graph.source[moved] == server]
        own = own[np.argsort(simulation.start_ms[own], kind="stable")]
        if not len(own):
            continue
        start, reach = simulation.start_ms[own], np.maximum.accumulate(simulation.end_ms[own])
        for low, high in _runs(np.concatenate(([True], start[1:] > reach[:-1]))):
            spans.append(Span(server, "transfer", f"{high - low} transfers", float(start[low]), float(reach[high - 1])))
    return spans


def _merged_passes(graph: TaskGraph, simulation: Simulation, passes: Ints, space: int) -> list[Span]:
    """Passes that follow each other merged: the shortest first, until so many bars are left as there is room for."""
    passes = passes[np.lexsort((simulation.start_ms[passes], graph.source[passes]))]
    start, end = simulation.start_ms[passes], simulation.end_ms[passes]
    server, kind = graph.source[passes], graph.kind[passes]
    apart = (server[1:] != server[:-1]) | (kind[1:] != kind[:-1]) | (start[1:] > end[:-1])
    shortest, first = SHORTEST, np.ones(len(passes), dtype=np.bool_)
    while first.sum() > space and shortest <= 1.0:
        long = end - start > shortest * simulation.iteration_time_ms
        first = np.concatenate(([True], apart | long[1:] | long[:-1]))[: len(passes)]
        shortest *= 2.0
    spans = []
    for low, high in _runs(first):
        span = span_of(graph, simulation, int(passes[low]))
        if high - low > 1:
            span = Span(span.lane, span.kind, f"{high - low} operators", span.start_ms, float(end[high - 1]))
        spans.append(span)
    return spans


def _runs(first: Bools) -> list[tuple[int, int]]:
    """Where runs begin and end, given which elements begin one."""
    starts = np.flatnonzero(first).tolist()
    return list(zip(starts, [*starts[1:], len(first)], strict=True))


def simulate(graph: TaskGraph, network: Network, model: str = "rounds") -> Simulation:
    """Simulate one iteration.

    Args:
        graph: what to do.
        network: where.
        model: a name in `TIME_MODELS`.

    Raises:
        InputError: the network lacks a path of a transfer, or the tasks wait for each other in a circle.
        ValueError: an AllReduce group has no rings in the network.
    """
    return TIME_MODELS[model].run(graph, network)


def critical_tasks(simulation: Simulation) -> list[int]:
    """Tasks of the critical path, first to last."""
    path = []
    task = int(np.argmax(simulation.end_ms)) if len(simulation.end_ms) else -1
    while task >= 0:
        path.append(task)
        task = int(simulation.cause[task])
    return path[::-1]


def breakdown(graph: TaskGraph, simulation: Simulation) -> Breakdown:
    """Iteration time along the critical path, by kind of task."""
    return Breakdown.along(critical_path(graph, simulation), simulation.iteration_time_ms)


def critical_path(graph: TaskGraph, simulation: Simulation) -> tuple[Span, ...]:
    """Steps of the critical path, first to last."""
    return tuple(span_of(graph, simulation, task) for task in critical_tasks(simulation))


def bandwidth_tax(graph: TaskGraph, simulation: Simulation) -> float:
    """Bytes carried over links divided by bytes demanded (TopoOpt section 5.4); 1 if nothing is demanded."""
    demanded = float(graph.bytes[graph.kind == TaskKind.TRANSFER].sum())
    size = np.array([len(members) for members in graph.groups], dtype=np.float64)
    reduced = (graph.kind == TaskKind.ALLREDUCE) & (graph.group >= 0)
    demanded += float((2.0 * (size[graph.group[reduced]] - 1) * graph.bytes[reduced]).sum()) if reduced.any() else 0.0
    return float(simulation.link_bytes.sum()) / demanded if demanded > 0 else 1.0


def evaluate(graph: TaskGraph, network: Network, model: str = "rounds") -> Evaluation:
    simulation = simulate(graph, network, model)
    critical = critical_path(graph, simulation)
    timeline, servers_left_out = timeline_of(graph, simulation, critical)
    return Evaluation(
        time_model=model,
        link_bytes=simulation.link_bytes,
        timeline=timeline,
        timeline_servers_left_out=servers_left_out,
        critical_path=critical,
    )


def _simulate(graph: TaskGraph, network: Network, *, rounds: bool) -> Simulation:
    require_paths(graph, network)
    arrays, links = graph_arrays(graph, network), network_arrays(network)
    return simulation_of(jobs.simulate(arrays, links, rounds, record=True), graph.tasks)


def rounds_within(graph: TaskGraph, network: Network, at_most_ms: float) -> float:
    """Iteration time by `rounds`, ms; infinity as soon as it is sure to exceed `at_most_ms`.

    Raises:
        InputError, ValueError: see `TimeModel.run`; not where the time is exceeded before.
    """
    require_paths(graph, network)
    arrays, links = graph_arrays(graph, network), network_arrays(network)
    time_ms, *_, left = jobs.simulate(arrays, links, True, threshold=at_most_ms)
    if time_ms < float("inf"):
        require_all_done(left, graph.tasks)
    return time_ms


def _first_iterations(graph: TaskGraph, network: Network, job_ptr: Ints, *, rounds: bool) -> Floats:
    arrays, links = graph_arrays(graph, network), network_arrays(network)
    return jobs.simulate(arrays, links, rounds, job_ptr=job_ptr, restart=len(job_ptr) > 2)[4]


def _model(summary: str, *, rounds: bool) -> TimeModel:
    several = partial(_first_iterations, rounds=rounds)
    return TimeModel(summary, partial(_simulate, rounds=rounds), several, by_sharing=True)


ROUNDS = _model("links serve segments of flows in turn, an AllReduce goes round by round; for figures", rounds=True)
HOP = _model("as rounds, but an AllReduce sends the bytes of all rounds at once; fast, for proposals", rounds=False)


SEGMENT_BYTES = MIB
MAX_SEGMENTS = 1 << 30
"""Most segments simulated, which is about a minute."""

FORWARD_RING, BACKWARD_RING = 1, -1


def simulate_flexnet(graph: TaskGraph, network: Network, ring_directions: NDArray[np.int8] | None = None) -> Simulation:
    """One iteration.

    The start of a task is when it begins to compute or becomes ready to send. A pair with several paths uses its first
    one only. Events at equal times are taken in the order they were created.

    Args:
        graph: T tasks.
        network: with a path for every transfer and rings for every group.
        ring_directions: int8[T], +1 or -1 (other way round the ring) for each AllReduce, ignored for other tasks; None:
            all +1. The reference draws them at random on switched fabrics. Needs opposite links for -1.

    Raises:
        InputError: the network lacks a path of a transfer, the tasks wait for each other in a circle, or their bytes
            make more than `MAX_SEGMENTS` segments.
        ValueError: the network lacks the rings of a group, or the opposite of a link.
    """
    arrays = graph_arrays(graph, network)
    require_paths(graph, network)
    network.require_rings("flexnet")
    size = np.array([len(members) for members in graph.groups] + [1], dtype=np.float64)[graph.group]
    wire = np.where(graph.kind == TRANSFER, 1.0, 2.0 * (size - 1.0)) * graph.bytes
    if wire.sum() > float(MAX_SEGMENTS) * SEGMENT_BYTES:
        raise InputError(
            [Problem("too much traffic for this time model", value=f"{wire.sum():.3g} bytes", allowed="2^50 bytes")]
        )
    directions = np.ones(graph.tasks, dtype=np.int8) if ring_directions is None else ring_directions.astype(np.int8)
    backward = bool((directions[graph.kind == ALLREDUCE] == BACKWARD_RING).any())
    opposite = opposite_links(network) if backward else np.zeros(0, dtype=np.int32)
    outcome = flows.simulate_flexnet(arrays, network_arrays(network), directions, opposite, whole(graph))
    return simulation_of(outcome, graph.tasks)


def opposite_links(network: Network) -> Int32s:
    """int32[L]: for each link the one from its head to its tail.

    Raises:
        ValueError: a link has none.
    """
    index = {(int(tail), int(head)): link for link, (tail, head) in enumerate(network.link_ends)}
    try:
        return np.array([index[(int(head), int(tail))] for tail, head in network.link_ends], dtype=np.int32)
    except KeyError as error:
        raise ValueError(f"no link opposite to {error.args[0][::-1]}") from error


FLEXNET = TimeModel("the segment model of the TopoOpt artifact's search, only for comparison with it", simulate_flexnet)


def fluid_outcome(graph: TaskGraph, network: Network, job_ptr: Ints, *, restart: bool) -> Outcome:
    """Jobs until each has done one iteration; see `topoopt.native.flows.simulate_fluid`."""
    require_paths(graph, network)
    network.require_rings("fluid")
    return flows.simulate_fluid(graph_arrays(graph, network), network_arrays(network), job_ptr, restart)


def simulate_fluid(graph: TaskGraph, network: Network) -> Simulation:
    """One iteration; see `TimeModel.run`."""
    return simulation_of(fluid_outcome(graph, network, whole(graph), restart=False), graph.tasks)


def fluid_first_iterations(graph: TaskGraph, network: Network, job_ptr: Ints) -> Floats:
    """Jobs together; see `TimeModel.first_iterations`."""
    return fluid_outcome(graph, network, job_ptr, restart=True)[4]


FLUID = TimeModel("flows share links max-min fairly; an independent check", simulate_fluid, fluid_first_iterations)
