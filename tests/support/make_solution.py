"""Solutions put together by hand from core types, for the tests of the report: no search, no simulator.

Topology, routes, rings, demand and link bytes agree with each other; times are a plain forward pass, good enough to
look real.
"""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tests.support.handmade import HandmadeResult, altered
from topoopt.core.arrays import GIB
from topoopt.core.cluster import Cluster, LinkDirection
from topoopt.core.job import (
    Baseline,
    BaselineSettings,
    ConvergencePoint,
    CoOptimisation,
    Evaluation,
    FabricChoice,
    JobPlan,
    OperatorChoice,
    SearchLog,
    Span,
)
from topoopt.core.proofs import Argument, Bound, Status, StopReason
from topoopt.core.result import CheckResult, Objective
from topoopt.core.topology import Topology
from topoopt.core.workload import AllReduceDemand, Demand, GroupRings, PathTable, Placement, Ring, Strategy, Workload

NASTY_NAME = "<script>alert(1)</script>"
NASTY_KIND = 'dense"\' onload="x&y'
LINK_GBPS = 100.0
BATCH_BYTES = 4_194_304.0


def circulant(n: int, distances: tuple[int, ...]) -> Topology:
    """Bidirectional circulant: every server linked to both neighbours at each distance."""
    jumps = [step for p in distances for step in ((p, n - p) if 2 * p != n else (p,))]
    switches = np.array([[(i + step) % n for i in range(n)] for step in jumps], dtype=np.int32).reshape(-1, n)
    count: dict[tuple[int, int], int] = {}
    for row in switches:
        for i, j in enumerate(row):
            count[(i, int(j))] = count.get((i, int(j)), 0) + 1
    arcs = sorted(count)
    return Topology(
        servers=n,
        degree=len(jumps),
        links=LinkDirection.BIDIRECTIONAL,
        arcs=np.array(arcs, dtype=np.int32).reshape(-1, 2),
        multiplicity=np.array([count[arc] for arc in arcs], dtype=np.int32),
        switches=switches,
        offsets=tuple(sorted(set(jumps))),
        origin="totient paper {" + ",".join(str(p) for p in distances) + "}",
    )


def shortest_paths(topology: Topology) -> dict[tuple[int, int], tuple[int, ...]]:
    """One shortest path per ordered pair, by breadth-first search."""
    neighbours: dict[int, list[int]] = {}
    for tail, head in topology.arcs.tolist():
        neighbours.setdefault(tail, []).append(head)
    paths: dict[tuple[int, int], tuple[int, ...]] = {}
    for start in range(topology.servers):
        paths[start, start] = (start,)
        queue = deque([start])
        while queue:
            node = queue.popleft()
            for head in neighbours.get(node, []):
                if (start, head) not in paths:
                    paths[start, head] = (*paths[start, node], head)
                    queue.append(head)
    return paths


def path_table(n: int, pairs: list[tuple[int, int]], paths: dict[tuple[int, int], tuple[int, ...]]) -> PathTable:
    """One path for each of the sorted pairs."""
    nodes = [paths[pair] for pair in pairs]
    return PathTable(
        nodes_total=n,
        source=np.array([i for i, _ in pairs], dtype=np.int32),
        target=np.array([j for _, j in pairs], dtype=np.int32),
        pair_ptr=np.arange(len(pairs) + 1, dtype=np.int64),
        share=np.ones(len(pairs)),
        path_ptr=np.concatenate(([0], np.cumsum([len(path) for path in nodes]))).astype(np.int64),
        node=np.array([v for path in nodes for v in path], dtype=np.int32),
    )


def stride_rings(n: int, members: tuple[int, ...], topology: Topology, paths: dict) -> GroupRings:
    """A group of all servers rings along every offset coprime to n; a smaller one along its members."""
    if len(members) == n:
        orders = [tuple(k * p % n for k in range(n)) for p in topology.offsets if np.gcd(p, n) == 1]
    else:
        orders = [members]
    return GroupRings(
        members=members,
        rings=tuple(
            Ring(order, 1 / len(orders), tuple(paths[a, b] for a, b in zip(order, order[1:] + order[:1], strict=True)))
            for order in orders
        ),
    )


def link_bytes(topology: Topology, routes: PathTable, rings: tuple[GroupRings, ...], demand: Demand) -> NDArray:
    """Bytes over each arc, summed path by path."""
    ids = topology.arc_ids()
    total = np.zeros(len(topology.arcs))
    for pair, (i, j) in enumerate(zip(routes.source, routes.target, strict=True)):
        path = routes.path(pair)
        for a, b in itertools.pairwise(path):
            total[ids[a, b]] += demand.model_parallel_bytes[i, j]
    for group, wanted in zip(rings, demand.allreduce, strict=True):
        for ring in group.rings:
            for path in ring.paths:
                for a, b in itertools.pairwise(path):
                    total[ids[a, b]] += wanted.wire_bytes_per_member * ring.share
    return total


def dlrm_operators(n: int, tables: int) -> tuple[OperatorChoice, ...]:
    """Embedding tables on one server each, the rest data-parallel over all servers."""
    everyone = tuple(range(n))
    kinds = [("dense", 7.3e6)] * 4
    bottom = [
        OperatorChoice(f"bottom_{i}", kind, f"x{n}", everyone, 0.21, 0.43, int(weight), 0)
        for i, (kind, weight) in enumerate(kinds)
    ]
    embeddings = [
        OperatorChoice(f"embedding_{i}", "embedding", "x1", (i * n // tables,), 0.12, 0.2, 512_000_000 * 4, 3 * GIB)
        for i in range(tables)
    ]
    top = [
        OperatorChoice(NASTY_NAME, NASTY_KIND, f"x{n}", everyone, 0.83, 1.71, 37_748_736, 0),
        *(
            OperatorChoice(f"top_{i}", "dense", f"x{n}", everyone, 0.83 - i / 100, 1.71 - i / 50, 16_777_216, 0)
            for i in range(3)
        ),
    ]
    half = n // 2
    if half >= 2:
        top.append(OperatorChoice("top_wide", "dense", f"x{half}", tuple(range(0, n, 2)), 1.2, 2.3, 67_108_864, 0))
    concat = OperatorChoice("concat", "concat", f"x{n}", everyone, 0.05, 0.05, 0, 0)
    return (*bottom, *embeddings, concat, *top)


def forward_pass(operators: tuple[OperatorChoice, ...], n: int, transfers: bool) -> tuple[list[Span], list[Span]]:
    """Timeline and a path through server 0: forward, transfers after the embeddings, backward, AllReduces."""
    clock = np.zeros(n)
    spans: list[Span] = []
    path: list[Span] = []

    def run(kind: str, order: list[OperatorChoice]) -> None:
        for operator in order:
            duration = operator.forward_ms if kind == "forward" else operator.backward_ms
            for server in operator.servers:
                span = Span(server, kind, operator.name, float(clock[server]), float(clock[server]) + duration)
                clock[server] += duration
                spans.append(span)
                if server == 0:
                    path.append(span)

    def exchange(label: str) -> None:
        if not transfers:
            return
        start = float(clock.max())
        for i in range(n):
            for j in range(n):
                if i != j and (j - i) % n <= 16:
                    spans.append(Span(i, "transfer", f"{label} {i}→{j}", start + 0.01 * j, start + 0.4 + 0.01 * j))
        clock[:] = start + 0.9
        path.append(Span(1, "transfer", f"{label} 1→0", float(path[-1].end_ms), start + 0.9))

    cut = next((i for i, op in enumerate(operators) if op.kind == "concat"), 0)
    run("forward", list(operators[:cut]))
    exchange("concat")
    run("forward", list(operators[cut:]))
    run("backward", list(operators[cut:])[::-1])
    exchange("embedding_0")
    run("backward", list(operators[:cut])[::-1])
    end = float(clock.max())
    free = end
    for i, operator in enumerate(op for op in operators if op.weight_bytes and len(op.servers) > 1):
        spans.append(Span(-1, "allreduce", operator.name, end - 4 + 0.3 * i, end - 2.5 + 0.55 * i))
        free = max(free, end - 2.5 + 0.55 * i)
    path.append(Span(-1, "allreduce", operators[0].name, float(path[-1].end_ms), free))
    return spans, path


def with_one_arc(solution: HandmadeResult) -> HandmadeResult:
    """The same on a topology that connects two servers one way, and no others."""
    old = solution.plan.topology
    topology = replace(
        old, arcs=old.arcs[:1], multiplicity=old.multiplicity[:1], switches=np.full_like(old.switches, -1), offsets=()
    )
    evaluation = solution.figures.evaluation
    evaluation = replace(evaluation, link_bytes=evaluation.link_bytes[:1])
    return altered(solution, plan=replace(solution.plan, topology=topology), evaluation=evaluation)


def make_solution(
    n: int = 16,
    distances: tuple[int, ...] = (1, 5),
    *,
    tables: int | None = None,
    model_parallel: bool = True,
    baselines: bool = True,
    check: CheckResult | None = None,
) -> HandmadeResult:
    """A realistic solution on a circulant."""
    topology = circulant(n, distances)
    paths = shortest_paths(topology)
    operators = dlrm_operators(n, tables or n)
    everyone = tuple(range(n))
    matrix = np.zeros((n, n))
    if model_parallel:
        holders = sorted({op.servers[0] for op in operators if op.kind == "embedding"})
        for i in holders:
            matrix[i, :] += BATCH_BYTES * (1 + (i % 5))
            matrix[:, i] += BATCH_BYTES * (1 + (i % 5))
        np.fill_diagonal(matrix, 0)
    allreduce = [AllReduceDemand(everyone, 127_900_000.0)]
    if n >= 8:
        allreduce += [AllReduceDemand(tuple(range(o, n, 4)), 67_108_864.0 / 4) for o in range(4)]
    demand = Demand(model_parallel_bytes=matrix, allreduce=tuple(allreduce))
    pairs = [(i, j) for i in range(n) for j in range(n) if matrix[i, j] > 0]
    routes = path_table(n, pairs, paths)
    rings = tuple(stride_rings(n, group.members, topology, paths) for group in allreduce)
    carried = link_bytes(topology, routes, rings, demand)
    spans, path = forward_pass(operators, n, model_parallel)
    total = max(span.end_ms for span in spans)
    strategy = Strategy(tuple(Placement(0, 0) for _ in operators))
    baseline_rows = (
        Baseline("ideal-switch", 0.93 * total, "one switch, every server at d x 100 Gbit/s", strategy),
        Baseline(
            "fat-tree",
            2.41 * total,
            "k-ary, one NIC of 163 Gbit/s a server (equal cost), no oversubscription",
            strategy,
        ),
        Baseline("random-regular", 1.18 * total, "same degree and link rate, shortest paths over ECMP", strategy),
    )
    compared = baseline_rows if baselines else ()
    log = SearchLog(
        1.37 * total,
        (
            ConvergencePoint(0, "start: data-parallel", 1.37 * total),
            ConvergencePoint(40, "strategy 1", 1.33 * total),
            ConvergencePoint(260, "strategy 1", 1.21 * total),
            ConvergencePoint(900, "topology 1", 1.12 * total),
            ConvergencePoint(1900, "strategy 2", 1.05 * total),
            ConvergencePoint(5200, "strategy 2", 1.02 * total),
            ConvergencePoint(9000, "final", total),
        ),
    )
    evaluation = Evaluation(
        time_model="rounds",
        link_bytes=carried,
        timeline=tuple(sorted(spans, key=lambda span: span.start_ms)),
        timeline_servers_left_out=0,
        critical_path=tuple(path),
    )
    problem = CoOptimisation(
        f"dlrm-{n}",
        Cluster(servers=n, gpus_per_server=4, degree=topology.degree, link_gbps=LINK_GBPS),
        Workload(f"DLRM <{n} & more>", 1024 * n, ()),
        baselines=BaselineSettings(fabrics=tuple(FabricChoice(line.fabric) for line in compared)),
        sha256="3f7a" * 16,
    )
    return HandmadeResult(
        name=problem.name,
        kind="co-optimisation",
        status=Status.FEASIBLE,
        stopped_by=StopReason.BUDGET,
        objective=Objective("iteration time", total, "ms"),
        bound=Bound(0.82 * total, Argument.WORK_AND_WIRE),
        check=check or CheckResult(True, ()),
        seed=7,
        method="alternating",
        instance_sha256=problem.sha256,
        versions=(("topoopt", "0.1.0"), ("python", "3.11.7"), ("numpy", "2.3.1")),
        notes=("operator times: analytic A100 model", "4-byte activations <b>everywhere</b>"),
        problem=problem,
        plan=JobPlan(strategy, topology, routes, rings),
        log=log,
        given={
            "evaluation": evaluation,
            "demand": demand,
            "operators": operators,
            "baselines": compared,
            "prices": None,
        },
    )
