"""Time models `rounds` (for figures) and `hop` (for proposals): links serve segments, of several flows in turn.

Both process traffic hop by hop: a segment asks for a link when it gets there, and a link serves what asks in order of
arrival, but segments by turns with what is longer than one (`LinkSharing.FIFO`: no turns). This removes the
error of the reference's segment model, which books all hops of a segment when it leaves.

* Compute tasks of a server run one after another, in order of readiness.
* A transfer is cut into segments (65 535 at most). The next segment leaves when the first link is free of the previous
  one; a segment goes on to the next link one hop latency after it starts (cut-through), and never ends there before it
  can have arrived.
* `rounds`: a ring AllReduce of S bytes over k servers, share f of it on a ring, is 2(k-1) rounds of f S / k bytes
  per member; a round starts when the slowest member of the previous one is done, plus the fixed cost of a round.
  Tensors under 9000 k bytes go in one step of the same bytes and the same total fixed cost. Segments of 256 KiB.
* `hop`: the bytes of all rounds in at most 8 segments of at least 1 MiB, the fixed costs added at the end.
* An AllReduce on a schedule goes step by step in both: what its messages carry over a link at the same hop is one load;
  a step begins when the slowest message of the one before has arrived, plus the fixed cost of a round (the synchronous
  steps of arXiv 2202.03356, T_L alpha + T_B M / B where nothing else is under way). Tensors are never put in one step.

All members of a ring, and all messages of a step, are advanced in one event (their links are distinct arcs of the same
step). Events at the same time are taken in the order of their codes: task or flow number, step, hop, kind.
"""

from __future__ import annotations

from functools import partial

from topoopt.core.arrays import Floats, Ints
from topoopt.core.workload import TaskGraph
from topoopt.native import jobs
from topoopt.simulate.lower import graph_arrays
from topoopt.simulate.network import Network, network_arrays
from topoopt.simulate.time_models.time_model import (
    Outcome,
    Simulation,
    TimeModel,
    require_all_done,
    require_paths,
    simulation_of,
)


def _simulate(graph: TaskGraph, network: Network, *, rounds: bool) -> Simulation:
    """One iteration; see `TimeModel.run`."""
    require_paths(graph, network)
    arrays, links = graph_arrays(graph, network), network_arrays(network)
    return simulation_of(Outcome(*jobs.simulate(arrays, links, rounds, record=True)), graph.tasks)


def rounds_within(graph: TaskGraph, network: Network, at_most_ms: float) -> float:
    """Iteration time by `rounds`, ms; infinity as soon as it is sure to exceed `at_most_ms`.

    Raises:
        InputError, ValueError: see `TimeModel.run`; not where the time is exceeded before.
    """
    require_paths(graph, network)
    arrays, links = graph_arrays(graph, network), network_arrays(network)
    outcome = Outcome(*jobs.simulate(arrays, links, True, threshold=at_most_ms))
    if outcome.time < float("inf"):
        require_all_done(outcome.left, graph.tasks)
    return outcome.time


def _first_iterations(graph: TaskGraph, network: Network, job_ptr: Ints, *, rounds: bool) -> Floats:
    """Jobs together; see `TimeModel.first_iterations`."""
    arrays, links = graph_arrays(graph, network), network_arrays(network)
    return Outcome(*jobs.simulate(arrays, links, rounds, job_ptr=job_ptr, restart=len(job_ptr) > 2)).first_end


def _model(summary: str, *, rounds: bool) -> TimeModel:
    several = partial(_first_iterations, rounds=rounds)
    return TimeModel(summary, partial(_simulate, rounds=rounds), several, by_sharing=True)


ROUNDS = _model("links serve segments of flows in turn, an AllReduce goes round by round; for figures", rounds=True)
HOP = _model("as rounds, but an AllReduce sends the bytes of all rounds at once; fast, for proposals", rounds=False)
