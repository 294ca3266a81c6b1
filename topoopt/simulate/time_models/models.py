"""The time models are `rounds`, `hop`, `flexnet` and `fluid`: segments in turn, or flows that share links."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import MIB, Floats, Int32s, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import TaskGraph
from topoopt.native import flows, jobs
from topoopt.simulate.lower import ALLREDUCE, TRANSFER, graph_arrays
from topoopt.simulate.network import Network, network_arrays
from topoopt.simulate.time_models.evaluate import (
    Outcome,
    Simulation,
    TimeModel,
    require_all_done,
    require_paths,
    simulation_of,
    whole,
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
