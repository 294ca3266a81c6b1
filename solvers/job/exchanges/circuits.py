"""Circuits that the program of kind `dag-topology` wants for one iteration of a job, and links made of them.

That program forwards nothing: every pair that transfers needs a circuit. So only as many pairs take part as interfaces
allow, those with the most bytes that are late first; what the others transfer are tasks of the time that one link takes
for it. The circuits are then completed: free interfaces go to the pairs with most traffic, and links are exchanged
until every server reaches every other.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solvers.dag_topology.box import BoxLaws
from solvers.dag_topology.matrices import MATRIX_METHODS
from solvers.dag_topology.search import earliest_circuits
from solvers.network.constructions.assemble import assemble, link_arcs
from solvers.network.constructions.fill import fill_free
from solvers.stop import Stop
from topoopt.core.arrays import Floats, Ints
from topoopt.core.cluster import Cluster
from topoopt.core.dag_topology import DagTask, DagTopologyProblem
from topoopt.core.errors import InputError
from topoopt.core.reachability import found_from, strongly_connected
from topoopt.core.taskgraph import TaskGraph
from topoopt.core.topology import Topology
from topoopt.simulate.dag.job_graph import job_graph
from topoopt.simulate.dag.shared_circuits import StepGraph, followed, makespan

SEARCHED_SERVERS = 32
"""Up to so many servers the program is searched; above, the best of its methods by matrices is taken."""

BOXES = 16
"""Boxes of the search: its starts and exchanges do most, and no proof is asked for."""

ORIGIN = "circuits of the job's graph"


def wanted_circuits(cluster: Cluster, graph: TaskGraph, begins: Floats, stop: Stop) -> Ints | None:
    """int64[n, n], symmetric: circuits between servers; None: nothing goes from a server to another.

    Args:
        cluster: of the job.
        graph: one iteration.
        begins: float64[T], when each task began where the plan was simulated, ms.
        stop: looked at by the search of circuits.
    """
    try:
        whole = job_graph("job", cluster, graph, begins)
    except InputError:  # its one message: nothing goes over links
        return None
    problem = _of_pairs(whole, _chosen(whole))
    laws = BoxLaws.of(problem)
    if cluster.servers <= SEARCHED_SERVERS:
        found = earliest_circuits(problem, stop, most_boxes=BOXES).best.circuits
    else:
        dealt = [choice(laws) for _, choice in MATRIX_METHODS.values()]
        found = min(dealt, key=lambda circuits: makespan(laws.graph, circuits, laws.rate))
    circuits = np.zeros((cluster.servers, cluster.servers), dtype=np.int64)
    for (one, other), count in zip(problem.pairs, found.tolist(), strict=True):
        circuits[one, other] = circuits[other, one] = count
    return circuits


def _chosen(problem: DagTopologyProblem) -> set[int]:
    """Places of the pairs that may have circuits: most late bytes first, as far as ports go."""
    late = late_bytes(problem)
    left = list(problem.ports)
    chosen = set()
    for place in np.argsort(-late, kind="stable").tolist():
        one, other = problem.pairs[place]
        if left[one] > 0 and left[other] > 0:
            left[one] -= 1
            left[other] -= 1
            chosen.add(place)
    return chosen


def late_bytes(problem: DagTopologyProblem) -> Floats:
    """float64[pairs]: bytes of each pair, each transfer's times the part of the makespan that is not its slack.

    One circuit for each pair; slack is what a transfer may end later without the last step ending later.
    """
    graph = StepGraph.of(problem)
    start, end = followed(graph, np.ones(len(problem.pairs), dtype=np.int64), problem.rate)
    last = float(end.max(initial=0.0))
    tail = np.zeros(len(end))
    took = end - start
    for step in graph.order[::-1].tolist():
        later = graph.successor[graph.first[step] : graph.first[step + 1]]
        if len(later):
            tail[step] = float((took[later] + tail[later]).max())
    transfers = len(graph.volume)
    slack = np.clip(last - end[:transfers] - tail[:transfers], 0.0, last)
    weight = graph.volume * (1.0 - slack / last if last > 0 else 1.0)
    return np.asarray(np.bincount(problem.pair_of, weight, minlength=len(problem.pairs)), dtype=np.float64)


def _of_pairs(problem: DagTopologyProblem, chosen: set[int]) -> DagTopologyProblem:
    """The same with transfers of the other pairs as tasks."""
    kept = [k for k, place in enumerate(problem.pair_of.tolist()) if place in chosen]
    others = [k for k, place in enumerate(problem.pair_of.tolist()) if place not in chosen]
    first_task = len(problem.transfers)
    order = [*kept, *range(first_task, first_task + len(problem.tasks)), *others]
    number = {old: new for new, old in enumerate(order)}

    def after(steps: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(number[step] for step in steps)

    forwarded = [problem.transfers[k] for k in others]
    return replace(
        problem,
        transfers=tuple(replace(problem.transfers[k], after=after(problem.transfers[k].after)) for k in kept),
        tasks=(
            *(replace(task, after=after(task.after)) for task in problem.tasks),
            *(DagTask(each.name, each.volume / problem.rate, after(each.after)) for each in forwarded),
        ),
    )


def circuit_links(cluster: Cluster, circuits: Ints, traffic: Floats) -> Topology | None:
    """Links of circuits, completed; None where some server cannot be reached.

    Args:
        cluster: of the job.
        circuits: int64[n, n], symmetric, within the interfaces.
        traffic: float64[n, n], bytes, for the interfaces that are left.
    """
    n = cluster.servers
    ones, others = np.nonzero(np.triu(circuits))
    own = [
        pair
        for one, other in zip(ones.tolist(), others.tolist(), strict=True)
        for pair in [(one, other)] * int(circuits[one, other])
    ]
    links = fill_free(traffic, cluster.degree - circuits.sum(axis=1), own)
    joined = _joined(n, links)
    if joined is None:
        return None
    return assemble(n, cluster.degree, cluster.links, [link_arcs(joined)], ORIGIN)


def _joined(n: int, links: list[tuple[int, int]]) -> list[tuple[int, int]] | None:
    """The links, exchanged between parts that are apart until there is one; None: that cannot be done so.

    Of a part that has a circle a link of that is taken, without which it holds together.
    """
    links = list(links)
    while not strongly_connected(n, link_arcs(links)):
        near = set(found_from(n, link_arcs(links))[0].tolist())
        inside = [k for k, (one, _) in enumerate(links) if one in near]
        outside = [k for k, (one, _) in enumerate(links) if one not in near]
        found = _exchange(n, links, inside, outside)
        if found is None:
            return None
        links = found
    return links


def _exchange(
    n: int, links: list[tuple[int, int]], inside: list[int], outside: list[int]
) -> list[tuple[int, int]] | None:
    for mine, theirs in ((inside, outside), (outside, inside)):
        for k in mine[::-1]:
            one, other = links[k]
            rest = [link for place, link in enumerate(links) if place != k]
            if other in found_from(n, link_arcs(rest), one)[0] and theirs:
                a, b = links[theirs[-1]]
                kept = [link for place, link in enumerate(links) if place not in (k, theirs[-1])]
                return [*kept, (one, a), (other, b)]
    return None
