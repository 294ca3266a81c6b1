"""A solution to plain data, always in the same order, so that equal solutions give equal bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from topoopt.core.cluster import Cluster
from topoopt.core.demand import Demand
from topoopt.core.job_solution import Evaluation, JobSolution, OperatorChoice, Span
from topoopt.core.plan import Plan
from topoopt.core.routing import GroupRings, PathTable
from topoopt.core.strategy import StrategyCertificate, StrategyCut
from topoopt.core.topology import Topology
from topoopt.files.solution_head import head_document, provenance_document

Entry = dict[str, Any]


def _cluster(cluster: Cluster) -> Entry:
    return {
        "servers": cluster.servers,
        "gpus_per_server": cluster.gpus_per_server,
        "degree": cluster.degree,
        "link_gbps": float(cluster.link_gbps),
        "links": cluster.links.value,
        "hop_latency_us": float(cluster.hop_latency_us),
        "ring_round_latency_us": float(cluster.ring_round_latency_us),
        "intra_server_gbps": float(cluster.intra_server_gbps),
        "local_allreduce": cluster.local_allreduce.value,
        "gpu_memory_bytes": cluster.gpu_memory_bytes,
    }


def _topology(topology: Topology) -> Entry:
    arcs = np.column_stack((topology.arcs, topology.multiplicity)) if len(topology.arcs) else topology.arcs
    return {
        "servers": topology.servers,
        "degree": topology.degree,
        "links": topology.links.value,
        "arcs": arcs.tolist(),
        "switches": topology.switches.tolist(),
        "offsets": list(topology.offsets),
        "origin": topology.origin,
    }


def _routes(routes: PathTable) -> Entry:
    node, share = routes.node.tolist(), routes.share.tolist()
    starts, pairs = routes.path_ptr.tolist(), routes.pair_ptr.tolist()
    paths = [[share[p], node[starts[p] : starts[p + 1]]] for p in range(len(share))]
    ends = zip(routes.source.tolist(), routes.target.tolist(), strict=True)
    return {
        "nodes_total": routes.nodes_total,
        "pairs": [[source, target, paths[pairs[i] : pairs[i + 1]]] for i, (source, target) in enumerate(ends)],
    }


def _group(group: GroupRings) -> Entry:
    return {
        "members": list(group.members),
        "rings": [
            {"order": list(ring.order), "share": float(ring.share), "paths": [list(path) for path in ring.paths]}
            for ring in group.rings
        ],
    }


def _plan(plan: Plan) -> Entry:
    return {
        "strategy": [[placement.split, placement.offset] for placement in plan.strategy.placements],
        "topology": _topology(plan.topology),
        "routes": _routes(plan.routes),
        "rings": [_group(group) for group in plan.rings],
    }


def _choice(choice: OperatorChoice) -> Entry:
    return {
        "name": choice.name,
        "kind": choice.kind,
        "split": choice.split,
        "servers": list(choice.servers),
        "forward_ms": float(choice.forward_ms),
        "backward_ms": float(choice.backward_ms),
        "weight_bytes": choice.weight_bytes,
    }


def _demand(demand: Demand) -> Entry:
    traffic = demand.model_parallel_bytes
    source, target = np.nonzero(traffic)
    rows = zip(source.tolist(), target.tolist(), traffic[source, target].tolist(), strict=True)
    return {
        "servers": demand.servers,
        "model_parallel_bytes": [list(row) for row in rows],
        "allreduce": [[float(group.payload_bytes), list(group.members)] for group in demand.allreduce],
    }


def _span(span: Span) -> list[Any]:
    return [span.lane, span.kind, span.label, float(span.start_ms), float(span.end_ms)]


def _evaluation(evaluation: Evaluation) -> Entry:
    breakdown = evaluation.breakdown
    return {
        "time_model": evaluation.time_model,
        "iteration_time_ms": float(evaluation.iteration_time_ms),
        "breakdown": {
            "compute_ms": float(breakdown.compute_ms),
            "model_parallel_ms": float(breakdown.model_parallel_ms),
            "allreduce_ms": float(breakdown.allreduce_ms),
            "idle_ms": float(breakdown.idle_ms),
            "busiest_server_compute_ms": float(breakdown.busiest_server_compute_ms),
        },
        "link_bytes": evaluation.link_bytes.tolist(),
        "link_utilisation": evaluation.link_utilisation.tolist(),
        "bandwidth_tax": float(evaluation.bandwidth_tax),
        "timeline": [_span(span) for span in evaluation.timeline],
        "critical_path": [_span(span) for span in evaluation.critical_path],
    }


def _certificate(certificate: StrategyCertificate) -> list[Entry]:
    nodes: list[Entry] = []
    for node in certificate.nodes:
        if isinstance(node, StrategyCut):
            nodes.append(
                {
                    "operator": node.operator,
                    "splits": list(node.splits),
                    "inside": node.inside,
                    "outside": node.outside,
                }
            )
        else:
            prices = [[list(first), list(second)] for first, second in node.prices]
            nodes.append({"laws": dict(node.laws), "memory": node.memory, "prices": prices})
    return nodes


def solution_document(solution: JobSolution) -> Entry:
    """Plain data of a solution; the long tables come last."""
    return {
        **head_document(solution),
        "cluster": _cluster(solution.cluster),
        "workload_name": solution.workload_name,
        "samples": solution.samples,
        "initial_ms": float(solution.initial_ms),
        "diameter": solution.diameter,
        "mean_hops": float(solution.mean_hops),
        "diameter_bound": float(solution.diameter_bound),
        **provenance_document(solution),
        "baselines": [
            {
                "fabric": baseline.fabric,
                "iteration_time_ms": float(baseline.iteration_time_ms),
                "description": baseline.description,
            }
            for baseline in solution.baselines
        ],
        "prices": None
        if solution.prices is None
        else {
            "book": solution.prices.book,
            "book_sha256": solution.prices.book_sha256,
            "usd": {fabric: float(usd) for fabric, usd in solution.prices.usd},
        },
        "convergence": [[point.proposals, point.phase, float(point.best_ms)] for point in solution.convergence],
        "operators": [_choice(choice) for choice in solution.operators],
        "plan": _plan(solution.plan),
        "demand": _demand(solution.demand),
        "evaluation": _evaluation(solution.evaluation),
        "certificate": None if solution.certificate is None else _certificate(solution.certificate),
    }
