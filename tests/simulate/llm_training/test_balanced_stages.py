"""Balanced layers, against every division of small models."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from tests.support.llm_cases import strategy, training
from topoopt.core.arrays import GIB
from topoopt.core.llm_training import Attention, LlmTrainingProblem, Mlp
from topoopt.core.parallelism import ParallelStrategy
from topoopt.simulate.llm_training.costs import GroupRates, ledger, total_bytes
from topoopt.simulate.llm_training.strategies import columns_of
from topoopt.simulate.llm_training.times import FORWARD, INPUTS, WEIGHTS, stage_parts, stage_tables, with_balanced
from topoopt.workloads.language_models import uniform


def _problem(layers: int, memory_gib: float, vocabulary: int = 128_256) -> LlmTrainingProblem:
    problem = training("llama3-70b", 8, 32, 4096)
    model = uniform("small", layers, 2048, Attention(16, 4, 128), Mlp(8192), vocabulary)
    cluster = replace(problem.cluster, gpu_memory_bytes=int(GIB * memory_gib), headroom_bytes=0)
    return replace(problem, model=model, cluster=cluster)


def _slowest_and_bytes(problem: LlmTrainingProblem, tried: list[ParallelStrategy]) -> tuple[np.ndarray, np.ndarray]:
    """Of each: seconds of a micro-batch on the slowest rank, bytes on the fullest, each rank by itself."""
    columns = columns_of(tried, problem.model.layers)
    rates = GroupRates.of(problem, columns)
    assert columns.stages is not None
    tables = stage_tables(problem, stage_parts(problem, columns, rates), columns.stages)
    seconds = tables[[FORWARD, INPUTS, WEIGHTS]].sum(axis=0)
    p = tried[0].pipeline
    ranks = [seconds[rank::p].sum(axis=0) for rank in range(p)]
    return np.max(ranks, axis=0), total_bytes(ledger(problem, columns))


def _divisions(one: ParallelStrategy, layers: int) -> list[ParallelStrategy]:
    """Every one with a layer or more on each rank, or none on the first and the last."""
    p = one.pipeline
    found = []
    for inner in product(range(1, layers + 1), repeat=p - 2):
        for first in range(layers - sum(inner) + 1):
            loads = (first, *inner, layers - sum(inner) - first)
            found.append(replace(one, stage_layers=loads))
    return found


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zb-2p"])
@pytest.mark.parametrize("vocabulary", [1000, 128_256, 1_000_000])
def test_no_division_that_fits_has_a_faster_slowest_rank(schedule: str, vocabulary: int) -> None:
    """All divisions of 11 layers to 4 ranks, from memory that holds none to memory that holds all."""
    layers, seen = 11, set()
    one = strategy(pipeline=4, data=2, schedule=schedule, zero=1)
    tried = _divisions(one, layers)
    slowest, held = _slowest_and_bytes(_problem(layers, 80.0, vocabulary), tried)
    for usable in np.unique(np.quantile(held, [0.0, 0.001, 0.01, 0.1, 0.5, 1.0])) * np.array([[0.999], [1.001]]):
        for limit in usable.tolist():
            problem = _problem(layers, limit / GIB, vocabulary)
            columns = with_balanced(problem, columns_of([one], layers), np.ones(1, dtype=bool))
            assert columns.stages is not None
            found = replace(one, stage_layers=tuple(columns.stages[0].tolist()))
            own, bytes_held = _slowest_and_bytes(problem, [found])
            fits = held <= limit
            assert (bytes_held[0] <= limit) == fits.any()
            if fits.any():
                assert own[0] == pytest.approx(slowest[fits].min(), rel=1e-12)
                seen.add(found.stage_layers)
    # The early ranks of 1F1B keep most micro-batches; a head of a million words stands alone on its rank in any case.
    assert len(seen) > (schedule == "1f1b" and vocabulary < 1_000_000)


def test_later_ranks_have_more_where_micro_batches_fill_memory() -> None:
    """1F1B keeps p - r micro-batches on rank r: with little memory, layers go to the end of the pipeline."""
    one = strategy(pipeline=4, data=2, schedule="1f1b", zero=1)
    problem = _problem(11, 80.0, 1000)
    tried = _divisions(one, 11)
    held = _slowest_and_bytes(problem, tried)[1]
    tight = _problem(11, float(held.min()) * 1.001 / GIB, 1000)
    columns = with_balanced(tight, columns_of([one], 11), np.ones(1, dtype=bool))
    assert columns.stages is not None
    loads = columns.stages[0].tolist()
    assert all(early <= late for early, late in pairwise(loads))
    assert loads[0] < loads[-1]
