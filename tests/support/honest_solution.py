"""A solution of a job with all its figures worked out by hand."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from tests.support.plan_bounds import best_bound
from tests.support.verify_cases import four_servers
from topoopt.core.job import CoOptimisation, JobPlan, OperatorChoice, Plan, Span
from topoopt.core.proofs import Status, StopReason
from topoopt.core.result import CheckResult, Objective, Result
from topoopt.core.workload import Workload

GROUP_BYTES = 4.0 * (4096 + 8)


def path_of(*steps: tuple[int, str, str, float]) -> tuple[Span, ...]:
    """Steps (lane, kind, label, ms) one after another."""
    ends = list(accumulate(duration for *_, duration in steps))
    starts = [0.0, *ends]
    return tuple(Span(lane, kind, label, starts[k], ends[k]) for k, (lane, kind, label, _) in enumerate(steps))


def rows_of(workload: Workload, plan: Plan) -> tuple[OperatorChoice, ...]:
    """The strategy in words: part k of P of an operator stands on server offset + k n/P."""
    n, rows = plan.topology.servers, []
    for operator, (split, offset) in zip(workload.operators, map(astuple, plan.strategy.placements), strict=True):
        own = operator.splits[split]
        label = f"x{own.sample_ways}" + (f" ch{own.channel_ways}" if own.channel_ways > 1 else "")
        servers = tuple(offset + k * n // own.parts for k in range(own.parts))
        weights = 4 * sum(operator.weight_elements)
        times = (own.forward_ms, own.backward_ms)
        rows.append(
            OperatorChoice(operator.name, operator.kind, label, servers, *times, weights, own.server_memory_bytes)
        )
    return tuple(rows)


def four_server_bars() -> tuple[Span, ...]:
    """What happens when: `sent` is the time of 48 bytes.

    The bytes for server 3 wait at server 1's link for a neighbour's, and cross the next link while they cross this one
    (no latency here); on the way back both links are free. The gradients, 16384 and 32 bytes, are summed when server 3
    is done; a link carries 3/4 of them after the 48 bytes of server 3, which were there first.
    """
    sent, far = 48e-6, 1.75 + 96e-6
    reduced = far + sent + 0.75 * 16384e-6
    return (
        Span(1, "forward", "table", 0.0, 1.0),
        Span(1, "forward", "layer", 1.0, 1.25),
        Span(1, "transfer", "layer 1→0", 1.0, 1.0 + sent),
        Span(1, "transfer", "layer 1→2", 1.0, 1.0 + sent),
        Span(1, "transfer", "layer 1→3", 1.0, 1.0 + 2 * sent),
        Span(0, "forward", "layer", 1.0 + sent, 1.25 + sent),
        Span(2, "forward", "layer", 1.0 + sent, 1.25 + sent),
        Span(3, "forward", "layer", 1.0 + 2 * sent, 1.25 + 2 * sent),
        Span(1, "backward", "layer", 1.25, 1.75),
        Span(0, "backward", "layer", 1.25 + sent, 1.75 + sent),
        Span(2, "backward", "layer", 1.25 + sent, 1.75 + sent),
        Span(3, "backward", "layer", 1.25 + 2 * sent, far),
        Span(0, "transfer", "layer 0→1", 1.75 + sent, far),
        Span(2, "transfer", "layer 2→1", 1.75 + sent, far),
        Span(-1, "allreduce", "layer", far, reduced),
        Span(-1, "allreduce", "layer", far, reduced + 0.75 * 32e-6),
        Span(3, "transfer", "layer 3→1", far, far + sent),
        Span(1, "backward", "table", far + sent, far + sent + 2.0),
    )


@dataclass(frozen=True)
class HonestFigures:
    """Figures of the four-server plan, worked out by hand."""

    model_parallel_bytes: NDArray[np.float64]
    group_bytes: float
    link_bytes: NDArray[np.float64]
    timeline: tuple[Span, ...]
    critical_path: tuple[Span, ...]
    operators: tuple[OperatorChoice, ...]


def honest_figures() -> HonestFigures:
    """Bytes, bars and steps of the four-server plan.

    At 1e6 bytes/ms on every link, the opposite server's bytes share a link with a neighbour's on the way there.
    """
    _, workload, plan = four_servers()
    matrix = np.zeros((4, 4))
    matrix[1, [0, 2, 3]] = matrix[[0, 2, 3], 1] = 48.0
    link_bytes = np.full(8, 0.5 * 2 * 3 / 4 * GROUP_BYTES)
    arcs = [tuple(arc) for arc in plan.topology.arcs.tolist()]
    for source, target in ((1, 0), (1, 2), (1, 3), (0, 1), (2, 1), (3, 1)):
        routes = plan.routes
        pair = next(k for k in range(12) if (routes.source[k], routes.target[k]) == (source, target))
        path = routes.path(pair)
        for hop in pairwise(path):
            link_bytes[arcs.index(hop)] += 48.0
    critical_path = path_of(
        (1, "forward", "table", 1.0),
        (1, "transfer", "layer 1→3", 96e-6),
        (3, "forward", "layer", 0.25),
        (3, "backward", "layer", 0.5),
        (3, "transfer", "layer 3→1", 48e-6),
        (1, "backward", "table", 2.0),
    )
    return HonestFigures(matrix, GROUP_BYTES, link_bytes, four_server_bars(), critical_path, rows_of(workload, plan))


def honest_solution() -> tuple[CoOptimisation, Result[CoOptimisation, JobPlan]]:
    """The four-server plan with its time, worked out by hand.

    Table on server 1: forward 1 ms, then 48 bytes (2 samples of 6 elements) to each other server, forward 0.25 ms and
    backward 0.5 ms everywhere, 48 bytes back, backward 2 ms; 16416 bytes reduced by rings both ways meanwhile.
    """
    cluster, workload, plan = four_servers()
    problem = CoOptimisation("four", cluster, workload, sha256="ab" * 32)
    return problem, Result(
        name="four",
        kind="co-optimisation",
        status=Status.FEASIBLE,
        stopped_by=StopReason.CONVERGED,
        objective=Objective("iteration_time", 1.0 + 96e-6 + 0.75 + 48e-6 + 2.0, "ms"),
        bound=best_bound(cluster, workload),
        check=CheckResult(True, ()),
        seed=0,
        method="hand",
        instance_sha256="ab" * 32,
        versions=(),
        problem=problem,
        plan=JobPlan.of(plan, cluster.link_sharing),
    )
