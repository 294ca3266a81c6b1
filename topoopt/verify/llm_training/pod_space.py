"""What no strategy goes below in pods, again, and whether one was passed over that might be faster.

A pod sends no faster than over all its ports at once: neither to the pods before and behind nor round the ring of its
stage, in which pods pass what they hold of the gradients once. Weights, rounds of ZeRO 3 and tokens between pods are
left out: they only delay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import ParallelStrategy
from topoopt.core.pod_settings import PodSettings
from topoopt.verify.laws.findings import ViolationLog
from topoopt.verify.llm_training.divisions import held_by, layers_of, row_in
from topoopt.verify.llm_training.order_bounds import OrderBounds
from topoopt.verify.llm_training.space import SCHEDULES, Records, records_of, shapes_of, strategies_of
from topoopt.verify.llm_training.stage_rows import StageRows, stage_rows
from topoopt.verify.llm_training.transfers import DimensionRates, ideal_rates
from topoopt.verify.llm_training.work import WorkBudget, bounding_work

BLOCK = 1 << 17
"""Strategies that are bounded together."""

MOST_STAGES = 1_000_000
"""Stages of strategies that are bounded together."""

SLACK = 1e-9
"""Part of a time that is rounding."""


def check_others(
    findings: ViolationLog,
    problem: LlmTrainingProblem,
    tried: Sequence[ParallelStrategy],
    others_s: float | None,
    budget: WorkBudget,
) -> None:
    """No strategy that fits and was not tried may be faster than stated.

    Args:
        others_s: what is stated; None: every strategy was tried.

    Raises:
        BeyondWorkError: there are more strategies than the check may go through.
    """
    known = {row_in(problem, one) for one in tried}
    limit = np.inf if others_s is None else others_s * (1 - SLACK)
    for rows in _fitting(problem, budget):
        budget.take(bounding_work(records_of(rows)))
        bounds = pod_seconds(problem, records_of(rows))
        for place in np.flatnonzero(bounds < limit):
            if tuple(rows[place].tolist()) not in known:
                stated = "all were" if others_s is None else f"none below {others_s!r} s was left"
                text = f"a strategy of {bounds.item(place)!r} s was not tried in pods, where {stated}"
                findings.add("certificate", text)
                return


def _fitting(problem: LlmTrainingProblem, budget: WorkBudget) -> Iterator[Floats]:
    """Strategies of all shapes that fit into memory, in blocks."""
    usable = problem.cluster.usable_bytes
    waiting, size = list[Floats](), 0
    shapes = list(shapes_of(problem))
    for number, shape in enumerate(shapes):
        rows = strategies_of(problem, replace(shape, expert=1, expert_tensor=1)).copy()
        rows[:, 6:8] = shape.expert, shape.expert_tensor
        waiting.append(rows)
        size += len(rows)
        if size >= BLOCK or number == len(shapes) - 1:
            table = np.concatenate(waiting)
            budget.take(bounding_work(records_of(table)))
            fits = np.ones(len(table), dtype=bool)
            if usable is not None and len(table):
                fits = held_by(problem, records_of(table)) <= usable
            if fits.any():
                yield table[fits]
            waiting, size = [], 0


def pod_seconds(problem: LlmTrainingProblem, r: Records) -> Floats:
    """float64[R], seconds of an iteration."""
    pods = problem.pods
    assert pods is not None
    problem = replace(problem, overlap=replace(problem.overlap, data=True))
    found, m = np.empty(len(r.t)), problem.batch.sequences / (r.d * r.b)
    keys, group = np.unique(np.stack([r.schedule, r.p, r.v], axis=1), axis=0, return_inverse=True)
    for number, (schedule, p, v) in enumerate(keys.astype(np.int64).tolist()):
        every = np.flatnonzero(group.ravel() == number)
        for places in np.array_split(every, 1 + len(every) * p * v // MOST_STAGES):
            own = Records(*(getattr(r, part.name)[places] for part in fields(Records)))
            rows = _rows(problem, own, layers_of(problem, own, p, v), pods)
            found[places] = OrderBounds(problem, SCHEDULES[schedule], p, rows, m[places], own.zero == 3).seconds()
    return found + problem.cluster.slowdown * problem.device.reached.iteration_ms / 1e3


def _rows(problem: LlmTrainingProblem, r: Records, layers: Floats, pods: PodSettings) -> StageRows:
    """Stages at rates that no circuits exceed."""
    all_ports = pods.ports * pods.circuit_gbps * 1e9 / 8
    rows = stage_rows(problem, r, layers, _rates(problem, r, pods, all_ports))
    away = np.where(r.x > pods.gpus, rows.parts["expert"] / 2, 0.0)
    tokens = r.b * problem.batch.length / r.c * problem.model.hidden
    of_pod = 2.0 * tokens / np.where(r.split > 0, r.t, 1.0) * pods.gpus
    return replace(
        rows,
        forward=rows.forward - away,
        inputs=rows.inputs - away,
        gathered=np.zeros_like(rows.gathered),
        reduced=np.where(r.zero == 3, 0.0, rows.reduced),
        hop=np.where(r.p > 1, of_pod / all_ports, 0.0),
    )


def _rates(problem: LlmTrainingProblem, r: Records, pods: PodSettings, all_ports: float) -> DimensionRates:
    """Bytes a second of a GPU, as if it passed round all replicas what its pod passes on once."""
    of_stage = r.t * r.c * r.d

    def rate(ranks: Floats, holders: Floats) -> Floats:
        once = np.minimum(holders, pods.gpus)  # GPUs of a pod that hold different parts
        others = of_stage / np.maximum(holders, pods.gpus)  # pods that pass these round
        lonely = others < 1.5
        share = (1.0 - 1.0 / np.maximum(ranks, 1.0)) / np.where(lonely, 1.0, 1.0 - 1.0 / np.maximum(others, 1.5))
        return np.where(lonely, np.inf, problem.cluster.slowdown * all_ports * share / once)

    dense, experts = r.sharers
    return replace(ideal_rates(problem, r), data=rate(dense, r.t), expert_data=rate(experts, r.x * r.y))
