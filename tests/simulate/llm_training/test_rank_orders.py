"""Orders of ranks: what stands on a server, against counting; rates by hand; the search over orders."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from solvers.llm_training.strategies import search
from solvers.stop import Stop
from tests.support.llm_cases import strategy, training
from topoopt.core.parallelism import RANK_ORDERS, TENSOR_FIRST, ParallelStrategy, PipelineSchedule
from topoopt.core.parallelism import ParallelDimension as D
from topoopt.simulate.llm_training.costs import GroupRates, layer_traffic, ranks_beside
from topoopt.simulate.llm_training.links import rank_coordinates
from topoopt.simulate.llm_training.strategies import columns_of


def counted(one: ParallelStrategy, g: int) -> tuple[int, ...]:
    """Ranks of the groups of rank 0 on its server, by laying out all ranks."""
    at = rank_coordinates(one)
    t, c, d, p = (at[dimension] for dimension in (D.TENSOR, D.CONTEXT, D.DATA, D.PIPELINE))
    place, whole = t + one.tensor * (c + one.context * d), one.expert * one.expert_tensor
    here = np.arange(one.gpus) < g
    groups = (
        (c == 0) & (d == 0) & (p == 0),
        (t == 0) & (d == 0) & (p == 0),
        (t == 0) & (c == 0) & (p == 0),
        (t == 0) & (c == 0) & (d == 0),
        (place < whole) & (p == 0),
        (place % whole == 0) & (p == 0),
    )
    return tuple(int((here & group).sum()) for group in groups)


def test_ranks_on_a_server_are_counted() -> None:
    """300 strategies of powers of two in any order, experts folded over the dimensions of a stage."""
    draw = random.Random(4)
    for _ in range(300):
        t, c, d, p = (2 ** draw.randint(0, 3) for _ in range(4))
        g = 2 ** draw.randint(0, 3)
        expert = 2 ** draw.randint(0, 6)
        if t * c * d % expert or t * c * d * p < g:
            continue
        one = strategy(tensor=t, context=c, data=d, pipeline=p, expert=expert, order=draw.choice(RANK_ORDERS))
        problem = training("llama3-70b", 64, 64, 8192)
        problem = replace(problem, cluster=replace(problem.cluster, gpus_per_server=g))
        near, together = ranks_beside(problem, columns_of([one], 32))
        of_stage = near[D.TENSOR] * near[D.CONTEXT] * near[D.DATA]
        sizes = (D.TENSOR, D.CONTEXT, D.DATA, D.PIPELINE)
        found = (*(near[dimension] for dimension in sizes), together, of_stage / together)
        assert tuple(float(part[0]) for part in found) == counted(one, g), (one, g)


def test_stages_of_a_server_use_its_links() -> None:
    """Two GPUs a tensor group, four stages beside each other: hops inside, and rings with one GPU pair a server."""
    problem = training("llama3-70b", 64, 64, 8192)
    usual = strategy(tensor=2, pipeline=4, data=8)
    other = replace(usual, order=(D.TENSOR, D.PIPELINE, D.CONTEXT, D.DATA))
    rates = GroupRates.of(problem, columns_of([usual, other], 80))
    interface = 400 * 1.25e8 * problem.device.reached.network
    pair, four = (3600 * 1.25e8 * getattr(problem.device.reached, name) for name in ("scale_up_2", "scale_up_4"))
    assert rates.hop == pytest.approx([interface, four])
    assert rates.data == pytest.approx([4 * interface, interface])
    assert rates.tensor == pytest.approx([pair, pair])


def test_tokens_cross_when_experts_are_apart() -> None:
    """Eight GPUs share the experts: on one server in the usual order, on eight where stages come first."""
    problem = training("mixtral-8x22b", 64, 64, 4096)
    usual = strategy(pipeline=8, data=8, expert=8)
    other = replace(usual, order=(D.TENSOR, D.PIPELINE, D.CONTEXT, D.DATA))
    moved = layer_traffic(problem, columns_of([usual, other], 56), problem.model.kinds[0])
    assert moved.expert_crossing[0] == 0
    # Two experts of eight, one a server: a token goes to 2 x 7/8 other servers.
    assert moved.expert_crossing[1] == pytest.approx(4096 * problem.model.hidden * 4 * 2 * 7 / 8)


def test_the_search_goes_through_all_orders() -> None:
    """With none named the best of six that begin with tensor; many hops over slow interfaces are not for the usual."""
    problem = training("llama3-70b", 64, 8192, 4096)
    problem = replace(problem, cluster=replace(problem.cluster, link_gbps=5.0, gpu_memory_bytes=None))
    schedule = (PipelineSchedule.ONE_F_ONE_B,)
    space = replace(problem.space, tensor=(1,), pipeline=(8,), context=(1,), micro_batch=(1,), schedule=schedule)

    def best(orders: tuple[tuple[D, ...], ...] | None) -> tuple[float, ParallelStrategy]:
        own = replace(problem, space=replace(space, order=orders))
        found = search(own, Stop(), count=1).ranked[0]
        return found.iteration_time_s, found.strategy

    found, one = best(None)
    alone = [best((order,))[0] for order in TENSOR_FIRST]
    assert found == min(alone)
    assert found < alone[0]
    assert one.order != TENSOR_FIRST[0]
