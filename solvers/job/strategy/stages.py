"""Operators in order, one part of the model after the other on servers of its own.

Nothing works at once but the parts of one stage, so the compute takes as many times longer as there are stages. But a
server reduces the gradients of one stage only: where links are slow and layers large, two stages take less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from solvers.job.strategy.placing import placed, widest
from topoopt.core.workload import Strategy, Workload


def work_of(n: int, workload: Workload) -> list[float]:
    """Server-milliseconds of each operator, by its cheapest split."""
    return [
        min(split.parts * (split.forward_ms + split.backward_ms) for split in operator.splits)
        for operator in workload.operators
    ]


def reduced_of(n: int, workload: Workload) -> list[float]:
    """Weights of each operator that all servers would reduce; 0 where it cannot be on all, as tables of one server."""
    return [
        float(sum(operator.weight_elements)) if operator.splits[widest(operator, n)].parts == n else 0.0
        for operator in workload.operators
    ]


WORK = "work"

MEASURES: Mapping[str, Callable[[int, Workload], list[float]]] = {WORK: work_of, "gradients": reduced_of}
"""What stages have alike."""


def stages(n: int, workload: Workload, k: int, sizes: Sequence[float]) -> Strategy:
    """Operators in order, cut into n/k stages of like size, stage i on coset i; those of one server where there is
    least to do."""
    total = sum(sizes) or 1.0
    wanted: list[tuple[int, int | None]] = []
    done = 0.0
    for operator, own in zip(workload.operators, sizes, strict=True):
        stage = min(n // k - 1, int((done + own / 2) / total * (n // k)))
        done += own
        split = widest(operator, k)
        parts = operator.splits[split].parts
        wanted.append((split, stage if parts == k or 1 < parts < k else None))
    return placed(n, workload, wanted)
