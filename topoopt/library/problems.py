"""Problems made in code: the arguments are the keys of an instance file, and pass the same checks.

Where a file has a section, a mapping with its keys does; in its place may stand what the section stands for: a
`Topology` or a graph of networkx, a demand as a matrix of numpy or a square data frame, a `Cluster`, a `Workload`.
Labels of servers, of a data frame or a graph, are kept in `notes`. Files that are named are looked for from the working
directory. `topoopt schema KIND` has all keys with their units and ranges. Every function raises `InputError` with all
that is wrong, by argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from topoopt.core.allocation import AllocationProblem
from topoopt.core.cluster import Cluster
from topoopt.core.hierarchy import HierarchicalProblem
from topoopt.core.job import CoOptimisation
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.placement import PlacementProblem
from topoopt.core.shared_cluster import SharedCluster
from topoopt.core.topology import Topology
from topoopt.core.workload import Workload
from topoopt.library.instances import instance_from_dict

if TYPE_CHECKING:
    import networkx as nx
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.floating[Any]] | NDArray[np.integer[Any]]

Section = Mapping[str, Any]
Pairs = Sequence[tuple[int, int]]


def _built(kind: str, name: str, fields: Section) -> Any:
    stated = {key: value for key, value in fields.items() if value is not None}
    return instance_from_dict({"schema_version": 1, "kind": kind, "name": name, **stated})


def job_problem(
    *,
    cluster: Section | Cluster,
    workload: str | Section | Workload,
    device: str = "a100",
    baselines: Section | None = None,
    search: Section | None = None,
    name: str = "job",
) -> CoOptimisation:
    """A training job on a cluster: strategy, topology and routes of least iteration time are sought.

        cluster = {"servers": 16, "gpus_per_server": 4, "degree": 4, "link_gbps": 100}
        problem = topoopt.job_problem(cluster=cluster, workload="dlrm")

    Args:
        cluster: servers, gpus_per_server, degree, link_gbps, ...
        workload: name of a model, a section with its sizes or with operators, or a `Workload`.
        device: whose times the operators of a named model take.
        baselines: fabrics the plan is compared with.
        search: method, budget, seed, time_limit_s, robust.
        name: of the instance.
    """
    if isinstance(workload, str):
        workload = {"model": workload, "operator_times": {"device": device}}
    fields = {"cluster": cluster, "workload": workload, "baselines": baselines, "search": search}
    return cast(CoOptimisation, _built("co-optimisation", name, fields))


def routing_problem(
    *,
    topology: Topology | nx.Graph[Any] | Section,
    demand: Matrix | Section | Any = None,
    demands: Any = None,
    routing: str = "common",
    step_ms: float | None = None,
    link_gbps: float | None = None,
    max_hops: int | None = None,
    objective: str = "throughput",
    hop_price: float | None = None,
    search: Section | None = None,
    name: str = "routing",
) -> RoutingProblem:
    """A demand to be routed over a given topology, so that the largest link utilisation is least.

        ring = topoopt.Topology.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)])
        problem = topoopt.routing_problem(topology=ring, demand=1.0 - np.eye(4))

    Args:
        topology: links between servers.
        demand: float[n, n], row i, column j: what i sends to j, in capacities of a link; or a data frame.
        demands: instead: several, one there at a time, the worst of which counts: float[k, n, n], or a list of matrices
            and sections.
        routing: of several demands: `common` to all, or `adapted` to each.
        step_ms: time each of several demands stands for.
        link_gbps: rate of a link, Gbit/s.
        max_hops: longest path allowed.
        objective: `throughput`, or `completion-time` with a `hop_price`.
        hop_price: time of one hop, in units of the time a link takes for one unit of demand.
        search: method, seed, time_limit_s.
        name: of the instance.
    """
    fields = {"topology": topology, "demand": demand, "demands": demands, "routing": routing, "step_ms": step_ms}
    more = {"objective": objective, "hop_price": hop_price, "link_gbps": link_gbps, "max_hops": max_hops}
    return cast(RoutingProblem, _built("routing", name, {**fields, **more, "search": search}))


def topology_problem(
    *,
    servers: int,
    degree: int,
    demand: Matrix | Section | Any = None,
    demands: Any = None,
    routing: str = "common",
    step_ms: float | None = None,
    links: str = "bidirectional",
    link_gbps: float | None = None,
    max_hops: int | None = None,
    forbidden: Pairs = (),
    kept: Pairs = (),
    max_changed: int | None = None,
    parallel_links: bool = True,
    search: Section | None = None,
    name: str = "topology",
) -> TopologyProblem:
    """The links between servers are sought as well, so that the largest link utilisation is least.

        problem = topoopt.topology_problem(servers=8, degree=2, demand=traffic, links="unidirectional")

    Args:
        servers: n.
        degree: d, links out of, and into, a server.
        demand: float[n, n], row i, column j: what i sends to j, in capacities of a link; or a data frame.
        demands, routing, step_ms: as of `routing_problem`.
        links: `bidirectional` or `unidirectional`.
        link_gbps: rate of a link, Gbit/s.
        max_hops: every server within so many hops of every other.
        forbidden: pairs that may not be linked.
        kept: links of the network as it stands.
        max_changed: most links of `kept` that may be given up.
        parallel_links: whether more than one link may join a pair.
        search: method, seed, time_limit_s, robust.
        name: of the instance.
    """
    fields = {"servers": servers, "degree": degree, "links": links, "link_gbps": link_gbps, "demand": demand}
    several = {"demands": demands, "routing": routing, "step_ms": step_ms}
    limits = {"max_hops": max_hops, "forbidden": forbidden, "kept": kept, "max_changed": max_changed}
    more = {"parallel_links": parallel_links, "search": search}
    return cast(TopologyProblem, _built("topology", name, {**fields, **several, **limits, **more}))


def allocation_problem(
    *,
    link_gbps: float,
    topology: Topology | nx.Graph[Any] | Section | None = None,
    transfers: Sequence[Section] | None = None,
    transfers_from: Section | None = None,
    capacities: Sequence[tuple[int, int, float]] = (),
    egress_gbps: float | Sequence[float] | None = None,
    ingress_gbps: float | Sequence[float] | None = None,
    objective: str = "max-min",
    surplus: str = "max-min",
    search: Section | None = None,
    name: str = "allocation",
) -> AllocationProblem:
    """Transfers over given links and routes, whose rates are sought.

        transfers = [{"source": 0, "destination": 2}, {"source": 1, "destination": 2, "min_gbps": 10}]
        problem = topoopt.allocation_problem(topology=ring, link_gbps=100, transfers=transfers)

    Args:
        link_gbps: rate of a link, Gbit/s.
        topology: links between servers.
        transfers: each with source and destination, and path, weight, min_gbps, max_gbps, bytes, ...
        transfers_from: instead: `demand`, a matrix or a section, or `solution`, a file of kind routing or topology.
        capacities: (tail, head, Gbit/s) of links of another rate.
        egress_gbps, ingress_gbps: most that a server sends of its own, and receives for itself.
        objective: `max-min`, `weighted`, `min-guarantee` or `completion-time`.
        surplus: what `min-guarantee` does with the rest, `max-min` or `sum`.
        search: method, time_limit_s.
        name: of the instance.
    """
    fields = {"topology": topology, "link_gbps": link_gbps, "capacities": capacities, "transfers": transfers}
    more = {"transfers_from": transfers_from, "egress_gbps": egress_gbps, "ingress_gbps": ingress_gbps}
    asked = {"objective": objective, "surplus": surplus, "search": search}
    return cast(AllocationProblem, _built("allocation", name, {**fields, **more, **asked}))


def placement_problem(
    *,
    servers: Sequence[Section],
    objective: str,
    operators: Sequence[Section] | None = None,
    tensors: Sequence[Section] | None = None,
    workload: Section | None = None,
    generator: Section | None = None,
    throughput: Section | None = None,
    latency: Section | None = None,
    transfer_latency_us: float = 0.0,
    intra_latency_us: float = 0.0,
    search: Section | None = None,
    name: str = "placement",
) -> PlacementProblem:
    """Operators of a graph to be put on devices.

    Args:
        servers: each with name, links and devices.
        objective: `throughput` or `latency`.
        operators: each with name, times_ms by device class, memory_bytes, ...; or `workload`, or `generator`.
        tensors: each with producer, consumers and size_bytes.
        workload: a model in place of operators and tensors.
        generator: a generated graph in place of operators and tensors.
        throughput, latency: options of the objective.
        transfer_latency_us, intra_latency_us: fixed time of a transfer between servers, and inside one.
        search: method, budget, seed, time_limit_s.
        name: of the instance.
    """
    graph = {"operators": operators, "tensors": tensors, "workload": workload, "generator": generator}
    times = {"transfer_latency_us": transfer_latency_us, "intra_latency_us": intra_latency_us}
    asked = {"objective": objective, "throughput": throughput, "latency": latency, "search": search}
    return cast(PlacementProblem, _built("placement", name, {"servers": servers, **graph, **times, **asked}))


def hierarchy_problem(
    *,
    network: Section,
    workloads: Sequence[Section],
    objective: str = "time",
    fleet: str = "weighted-sum",
    cost_cap_usd: float | None = None,
    time_limit_ns: float | None = None,
    pareto_points: int = 0,
    search: Section | None = None,
    name: str = "hierarchy",
) -> HierarchicalProblem:
    """A hierarchical network, the bandwidth of whose dimensions is sought.

    Args:
        network: dimensions, innermost first, total_gbytes_per_s, prices by tier, ...
        workloads: jobs, each with its layers or a model.
        objective: `time`, `time-times-cost` or `cost`.
        fleet: how times of several jobs count, `weighted-sum` or `worst-case`.
        cost_cap_usd, time_limit_ns: limits on what is not the objective.
        pareto_points: points of the front of time and cost.
        search: method, seed, time_limit_s.
        name: of the instance.
    """
    fields: Section = {"network": network, "workloads": workloads, "objective": objective, "fleet": fleet}
    limits = {"cost_cap_usd": cost_cap_usd, "time_limit_ns": time_limit_ns, "pareto_points": pareto_points}
    asked = {**fields, **limits, "search": search}
    return cast(HierarchicalProblem, _built("hierarchical-bandwidth", name, asked))


def shared_cluster_problem(
    *,
    cluster: Section,
    classes: Sequence[Section],
    jobs: Section,
    fabrics: Sequence[Section | str] | None = None,
    optical: Section | None = None,
    scheduling: Section | None = None,
    contention: str | None = None,
    time_model: str | None = None,
    objective: str = "mean-iteration-time",
    search: Section | None = None,
    name: str = "shared-cluster",
) -> SharedCluster:
    """Jobs that share a cluster, on one fabric or another.

    Args:
        cluster: servers, degree, link_gbps.
        classes: kinds of jobs, each with its servers and times, or the file of a training job.
        jobs: a list or a trace of jobs, or how they are drawn.
        fabrics: compared; the objective is that of the first.
        optical: switches and wiring of the partitioned fabric.
        scheduling: queue, and what may be moved.
        contention: of jobs that share links, `flows`, `coinciding` or `interleaved`.
        time_model: of flows, `fluid` or `rounds`.
        objective: `mean-iteration-time` or `mean-completion-time`.
        search: method, seed, time_limit_s.
        name: of the instance.
    """
    fields = {"cluster": cluster, "classes": classes, "jobs": jobs, "fabrics": fabrics, "optical": optical}
    asked = {"scheduling": scheduling, "contention": contention, "time_model": time_model, "objective": objective}
    return cast(SharedCluster, _built("shared-cluster", name, {**fields, **asked, "search": search}))
