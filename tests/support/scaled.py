"""Problems of every kind in other units: the same problem, all its times, sizes or rates multiplied by one factor."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from topoopt.core.allocation import AllocationProblem
from topoopt.core.collective import CollectiveProblem
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.hierarchy import HierarchicalProblem, HierarchicalWorkload, LayerPhase
from topoopt.core.job import CoOptimisation
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.placement import PlacementProblem
from topoopt.core.regional_circuits import ParallelCircuitsProblem, RegionalCircuitsProblem
from topoopt.core.shared_cluster import DrawnJobs, JobClass, JobsAtOnce, SharedCluster


def scaled(problem: Any, factor: float) -> tuple[Any, float]:
    """The problem with demand, rates or times times `factor`, and by how much that multiplies its objective.

    Networks: demand. Allocation: every rate. Jobs, placements, hierarchies, shared clusters: every time, with
    rates divided where sizes are whole numbers, else sizes times the factor.
    """
    if isinstance(problem, RoutingProblem):
        return replace(problem, demand=problem.demand * factor, hop_price=problem.hop_price * factor), factor
    if isinstance(problem, TopologyProblem):
        return replace(problem, demand=problem.demand * factor), factor
    if isinstance(problem, AllocationProblem):
        return _allocation(problem, factor)
    if isinstance(problem, HierarchicalProblem):
        return _hierarchy(problem, factor)
    if isinstance(problem, PlacementProblem):
        return _placement(problem, factor), factor
    if isinstance(problem, CoOptimisation):
        return _job(problem, factor), factor
    if isinstance(problem, CollectiveProblem):
        return _collective(problem, factor), factor
    if isinstance(problem, LlmTrainingProblem):
        return _training(problem, factor), factor
    if isinstance(problem, DagTopologyProblem):
        transfers = tuple(replace(one, volume=one.volume * factor) for one in problem.transfers)
        tasks = tuple(replace(one, duration=one.duration * factor) for one in problem.tasks)
        return replace(problem, transfers=transfers, tasks=tasks), factor
    if isinstance(problem, RegionalCircuitsProblem):
        windows = tuple(window * factor for window in problem.windows_s)
        times = {"delay_s": problem.delay_s * factor, "windows_s": windows}
        return replace(problem, demands=problem.demands * factor, **times), factor
    if isinstance(problem, ParallelCircuitsProblem):
        return replace(problem, demand_us=problem.demand_us * factor, delay_us=problem.delay_us * factor), factor
    assert isinstance(problem, SharedCluster)
    return _shared(problem, factor), factor


def _allocation(problem: AllocationProblem, factor: float) -> tuple[AllocationProblem, float]:
    transfers = tuple(
        replace(
            one,
            min_gbps=one.min_gbps * factor,
            max_gbps=one.max_gbps * factor,
        )
        for one in problem.transfers
    )
    ends = {
        name: None if value is None else value * factor
        for name, value in (("egress_gbps", problem.egress_gbps), ("ingress_gbps", problem.ingress_gbps))
    }
    made = replace(problem, capacity_gbps=problem.capacity_gbps * factor, transfers=transfers, **ends)
    return made, 1.0 / factor if problem.goal == "completion-time" else factor


def _collective(problem: CollectiveProblem, factor: float) -> CollectiveProblem:
    network = replace(
        problem.network,
        unit_gbytes_per_s=problem.network.unit_gbytes_per_s / Fraction(factor),
        latency_us=problem.network.latency_us * factor,
    )
    return replace(problem, network=network, message_us=problem.message_us * factor)


def _training(problem: LlmTrainingProblem, factor: float) -> LlmTrainingProblem:
    reached, cluster, device = problem.device.reached, problem.cluster, problem.device
    fixed = {name: getattr(reached, name) * factor for name in ("layer_us", "expert_us", "iteration_ms", "replica_ms")}
    rates = {name: getattr(device, name) / factor for name in ("matrix_tflops", "memory_gbytes_per_s")}
    latencies = {name: getattr(cluster, name) * factor for name in ("hop_latency_us", "message_latency_us")}
    links = {name: getattr(cluster, name) / factor for name in ("intra_server_gbps", "link_gbps")}
    return replace(
        problem,
        device=replace(device, **rates, reached=replace(reached, **fixed)),
        cluster=replace(cluster, **latencies, **links),
    )


def _phase(phase: LayerPhase, factor: float) -> LayerPhase:
    calls = tuple(replace(call, size_bytes=call.size_bytes * factor) for call in phase.communications)
    return LayerPhase(phase.compute_ns * factor, calls)


def _hierarchy(problem: HierarchicalProblem, factor: float) -> tuple[HierarchicalProblem, float]:
    def workload(one: HierarchicalWorkload) -> HierarchicalWorkload:
        layers = tuple(
            replace(
                layer,
                forward=_phase(layer.forward, factor),
                input_gradient=_phase(layer.input_gradient, factor),
                weight_gradient=_phase(layer.weight_gradient, factor),
            )
            for layer in one.layers
        )
        tasks = tuple(replace(task, phase=_phase(task.phase, factor)) for task in one.tasks)
        return replace(one, layers=layers, tasks=tasks)

    designs = tuple(replace(design, workloads=tuple(map(workload, design.workloads))) for design in problem.designs)
    limit = None if problem.time_limit_ns is None else problem.time_limit_ns * factor
    made = replace(problem, designs=designs, time_limit_ns=limit)
    return made, 1.0 if problem.objective == "cost" else factor


def _placement(problem: PlacementProblem, factor: float) -> PlacementProblem:
    return replace(
        problem,
        operators=tuple(
            replace(one, times_ms=tuple(time * factor for time in one.times_ms)) for one in problem.operators
        ),
        servers=tuple(
            replace(
                one,
                links=tuple(replace(link, gbps=link.gbps / factor) for link in one.links),
                intra_gbps=None if one.intra_gbps is None else one.intra_gbps / factor,
            )
            for one in problem.servers
        ),
        transfer_latency_ms=problem.transfer_latency_ms * factor,
        intra_latency_ms=problem.intra_latency_ms * factor,
    )


def _job(problem: CoOptimisation, factor: float) -> CoOptimisation:
    cluster, workload = problem.cluster, problem.workload
    operators = tuple(
        replace(
            one,
            splits=tuple(
                replace(split, forward_ms=split.forward_ms * factor, backward_ms=split.backward_ms * factor)
                for split in one.splits
            ),
        )
        for one in workload.operators
    )
    slower = replace(
        cluster,
        link_gbps=cluster.link_gbps / factor,
        hop_latency_us=cluster.hop_latency_us * factor,
        ring_round_latency_us=cluster.ring_round_latency_us * factor,
        intra_server_gbps=cluster.intra_server_gbps / factor,
    )
    return replace(problem, cluster=slower, workload=replace(workload, operators=operators))


def _class(one: JobClass, factor: float) -> JobClass:
    return replace(
        one,
        iteration_ms=tuple(time * factor for time in one.iteration_ms),
        compute_ms=one.compute_ms * factor,
        fabric_ms=tuple((name, time * factor) for name, time in one.fabric_ms),
        duration_s=None if one.duration_s is None else one.duration_s * factor,
        plan=None if one.plan is None else _job(one.plan, factor),
    )


def _shared(problem: SharedCluster, factor: float) -> SharedCluster:
    jobs = problem.jobs
    if isinstance(jobs, DrawnJobs):
        jobs = replace(jobs, rate_per_s=None if jobs.rate_per_s is None else jobs.rate_per_s / factor)
    elif not isinstance(jobs, JobsAtOnce):
        jobs = tuple(replace(one, arrival_s=one.arrival_s * factor) for one in jobs)
    cluster = replace(
        problem.cluster,
        link_gbps=problem.cluster.link_gbps / factor,
        hop_latency_us=problem.cluster.hop_latency_us * factor,
        ring_round_latency_us=problem.cluster.ring_round_latency_us * factor,
        intra_server_gbps=problem.cluster.intra_server_gbps / factor,
    )
    return replace(
        problem,
        cluster=cluster,
        layer=replace(problem.layer, switching_time_s=problem.layer.switching_time_s * factor),
        fabrics=tuple(
            replace(one, server_gbps=None if one.server_gbps is None else one.server_gbps / factor)
            for one in problem.fabrics
        ),
        classes=tuple(_class(one, factor) for one in problem.classes),
        jobs=jobs,
        scheduling=replace(problem.scheduling, checkpoint_s=problem.scheduling.checkpoint_s * factor),
    )
