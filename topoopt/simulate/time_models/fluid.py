"""Time model `fluid`: traffic as flows that share links max-min fairly (progressive filling), an independent check.

* Compute tasks of a server run one after another, in order of readiness.
* A transfer is one flow per path of its pair, its bytes split by the shares of the paths.
* An AllReduce of S bytes over k servers with share f on a ring is one flow of 2 (k-1)/k f S bytes over the links of all
  members at once, all at the same rate; a link that appears m times in the ring carries m times the rate.
* Rates are those of max-min fairness (Bertsekas and Gallager, Data Networks, section 6.5), recomputed whenever flows
  start or end. Latency is added at the end: one per hop of a transfer, 2 (k-1) ring rounds for an AllReduce.
"""

from __future__ import annotations

from topoopt.core.arrays import Floats, Ints
from topoopt.core.workload import TaskGraph
from topoopt.native import flows
from topoopt.simulate.lower import graph_arrays
from topoopt.simulate.network import Network, network_arrays
from topoopt.simulate.time_models.time_model import (
    Outcome,
    Simulation,
    TimeModel,
    require_paths,
    simulation_of,
    whole,
)


def outcome(graph: TaskGraph, network: Network, job_ptr: Ints, *, restart: bool) -> Outcome:
    """Jobs until each has done one iteration; see `topoopt.native.flows.simulate_fluid`."""
    require_paths(graph, network)
    network.require_rings("fluid")
    return Outcome(*flows.simulate_fluid(graph_arrays(graph, network), network_arrays(network), job_ptr, restart))


def simulate(graph: TaskGraph, network: Network) -> Simulation:
    """One iteration; see `TimeModel.run`."""
    return simulation_of(outcome(graph, network, whole(graph), restart=False), graph.tasks)


def first_iterations(graph: TaskGraph, network: Network, job_ptr: Ints) -> Floats:
    """Jobs together; see `TimeModel.first_iterations`."""
    return outcome(graph, network, job_ptr, restart=True).first_end


FLUID = TimeModel("flows share links max-min fairly; an independent check", simulate, first_iterations)
