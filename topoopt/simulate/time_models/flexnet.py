"""Time model `flexnet`: the segment model of the reference search (TopoOpt artifact), only for comparison with it.

Transfers go in segments of 1 MiB. A segment books every link of its path when it leaves the sender, so links further
along are held for the future and idle meanwhile; on direct-connect networks with forwarding this overstates the time
(up to 2.5 times). Each member of a ring AllReduce sends all its bytes as one such transfer, without rounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import MIB, Int32s
from topoopt.core.errors import InputError, Problem
from topoopt.core.workload import TaskGraph
from topoopt.native import flows
from topoopt.simulate.lower import ALLREDUCE, TRANSFER, graph_arrays
from topoopt.simulate.network import Network, network_arrays
from topoopt.simulate.time_models.time_model import (
    Outcome,
    Simulation,
    TimeModel,
    require_paths,
    simulation_of,
    whole,
)

SEGMENT_BYTES = MIB
MAX_SEGMENTS = 1 << 30
"""Most segments simulated, which is about a minute."""

FORWARD_RING, BACKWARD_RING = 1, -1


def simulate(graph: TaskGraph, network: Network, ring_directions: NDArray[np.int8] | None = None) -> Simulation:
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
    return simulation_of(Outcome(*outcome), graph.tasks)


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


FLEXNET = TimeModel("the segment model of the TopoOpt artifact's search, only for comparison with it", simulate)
