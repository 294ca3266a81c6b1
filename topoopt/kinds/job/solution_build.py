"""From a checked solution file to a `Solution`."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from topoopt.core.bill import FabricPrices
from topoopt.core.cluster import Cluster, LinkDirection, LocalAllReduce
from topoopt.core.demand import AllReduceDemand, Demand
from topoopt.core.job_solution import (
    Baseline,
    Breakdown,
    ConvergencePoint,
    Evaluation,
    JobSolution,
    OperatorChoice,
    Span,
)
from topoopt.core.plan import Plan
from topoopt.core.routing import GroupRings, PathTable, Ring
from topoopt.core.strategy import Placement, Strategy, StrategyCase, StrategyCertificate, StrategyCut
from topoopt.core.topology import Topology
from topoopt.files.solution_head import head_of, provenance_of
from topoopt.kinds.job.solution_schema import (
    CaseFile,
    CutFile,
    DemandFile,
    EvaluationFile,
    GroupFile,
    PlanFile,
    RoutesFile,
    SolutionCluster,
    SolutionFile,
    TopologyFile,
)


def _cluster(file: SolutionCluster) -> Cluster:
    fields = file.model_dump(exclude={"links", "local_allreduce"})
    return Cluster(**fields, links=LinkDirection(file.links), local_allreduce=LocalAllReduce(file.local_allreduce))


def _topology(file: TopologyFile) -> Topology:
    rows = np.array(file.arcs, dtype=np.int32).reshape(-1, 3)
    return Topology(
        servers=file.servers,
        degree=file.degree,
        links=LinkDirection(file.links),
        arcs=np.ascontiguousarray(rows[:, :2]),
        multiplicity=np.ascontiguousarray(rows[:, 2]),
        switches=np.array(file.switches, dtype=np.int32).reshape(file.degree, file.servers),
        offsets=tuple(file.offsets),
        origin=file.origin,
    )


def _starts(lengths: list[int]) -> NDArray[np.int64]:
    return np.array([0, *accumulate(lengths)], dtype=np.int64)


def _routes(file: RoutesFile) -> PathTable:
    paths = [path for _, _, of_pair in file.pairs for path in of_pair]
    return PathTable(
        nodes_total=file.nodes_total,
        source=np.array([source for source, _, _ in file.pairs], dtype=np.int32),
        target=np.array([target for _, target, _ in file.pairs], dtype=np.int32),
        pair_ptr=_starts([len(of_pair) for _, _, of_pair in file.pairs]),
        share=np.array([share for share, _ in paths], dtype=np.float64),
        path_ptr=_starts([len(nodes) for _, nodes in paths]),
        node=np.array([node for _, nodes in paths for node in nodes], dtype=np.int32),
    )


def _group(file: GroupFile) -> GroupRings:
    rings = (Ring(tuple(ring.order), ring.share, tuple(tuple(path) for path in ring.paths)) for ring in file.rings)
    return GroupRings(tuple(file.members), tuple(rings))


def _plan(file: PlanFile) -> Plan:
    return Plan(
        strategy=Strategy(tuple(Placement(split, offset) for split, offset in file.strategy)),
        topology=_topology(file.topology),
        routes=_routes(file.routes),
        rings=tuple(_group(group) for group in file.rings),
    )


def _demand(file: DemandFile) -> Demand:
    traffic = np.zeros((file.servers, file.servers), dtype=np.float64)
    for source, target, amount in file.model_parallel_bytes:
        traffic[source, target] = amount
    return Demand(traffic, tuple(AllReduceDemand(tuple(members), payload) for payload, members in file.allreduce))


def _evaluation(file: EvaluationFile) -> Evaluation:
    return Evaluation(
        time_model=file.time_model,
        iteration_time_ms=file.iteration_time_ms,
        breakdown=Breakdown(**file.breakdown.model_dump()),
        link_bytes=np.array(file.link_bytes, dtype=np.float64),
        link_utilisation=np.array(file.link_utilisation, dtype=np.float64),
        bandwidth_tax=file.bandwidth_tax,
        timeline=tuple(Span(*row) for row in file.timeline),
        critical_path=tuple(Span(*row) for row in file.critical_path),
    )


def _certificate(file: list[CutFile | CaseFile]) -> StrategyCertificate:
    nodes: list[StrategyCut | StrategyCase] = []
    for node in file:
        if isinstance(node, CutFile):
            nodes.append(StrategyCut(node.operator, tuple(node.splits), node.inside, node.outside))
        else:
            prices = tuple((tuple(first), tuple(second)) for first, second in node.prices)
            nodes.append(StrategyCase(tuple(node.laws.items()), node.memory, prices))
    return StrategyCertificate(tuple(nodes))


def build_solution(file: SolutionFile) -> JobSolution:
    """The solution a file states; the file has passed `solution_faults`."""
    return JobSolution(
        **head_of(file),
        **provenance_of(file),
        kind=file.kind.removesuffix("-solution"),
        cluster=_cluster(file.cluster),
        workload_name=file.workload_name,
        samples=file.samples,
        plan=_plan(file.plan),
        operators=tuple(
            OperatorChoice(**choice.model_dump(exclude={"servers"}), servers=tuple(choice.servers))
            for choice in file.operators
        ),
        demand=_demand(file.demand),
        evaluation=_evaluation(file.evaluation),
        initial_ms=file.initial_ms,
        diameter=file.diameter,
        mean_hops=file.mean_hops,
        diameter_bound=file.diameter_bound,
        baselines=tuple(Baseline(**baseline.model_dump()) for baseline in file.baselines),
        prices=None
        if file.prices is None
        else FabricPrices(file.prices.book, file.prices.book_sha256, tuple(file.prices.usd.items())),
        convergence=tuple(ConvergencePoint(*row) for row in file.convergence),
        certificate=None if file.certificate is None else _certificate(file.certificate),
    )
