"""Shapes and strategies as choices: the best of all of them, by solving every one; and what strategies exist."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from solvers.hierarchy import best_design
from solvers.stop import Stop
from tests.support.hierarchical_cases import instance, job, network, problem_of, solved
from topoopt.core.arrays import GIB
from topoopt.core.errors import InputError
from topoopt.core.proofs import StopReason
from topoopt.kinds.pipeline import solve
from topoopt.workloads.language_models import Npu, Strategies, Transformer, degrees_of, mappings, transformer_workload

MODEL = {"blocks": 8, "hidden": 1024, "sequence": 512, "batch": 64}


def modelled(net: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """An instance of a small transformer."""
    own = {
        "name": "gpt",
        "model": {**MODEL, **fields.pop("model", {})},
        "npu": {"tflops": 100.0, **fields.pop("npu", {})},
        "strategies": fields.pop("strategies", {}),
        "loop": fields.pop("loop", "no-overlap"),
    }
    return instance(net, own, **fields)


@pytest.mark.parametrize("objective", ["time", "time-times-cost"])
@pytest.mark.parametrize("loop", ["no-overlap", "dp-overlap"])
def test_best_of_all_designs(objective: str, loop: str) -> None:
    """The design found is the best when every design is solved by itself."""
    net = network([4, 2, 2], [2.0, 8.0, 30.0], total_gbytes_per_s=200.0)
    document = modelled(net, objective=objective, loop=loop, strategies={"microbatches": 2, "pipeline": [1, 2]})
    problem = problem_of(document)
    assert len(problem.designs) > 20
    values = [solve(replace(problem, designs=(design,))).objective.value for design in problem.designs]
    found = solved(document)
    assert found.objective.value == pytest.approx(min(values), rel=3e-9)
    assert found.bound.value <= min(values) * (1 + 1e-9)
    assert len(found.problem.designs) == len(values)


def test_best_shape() -> None:
    """Two shapes of sixteen NPUs: the one found is the better one, and the numbers of NPUs must agree."""
    tiers = {"t": {"link": 1.0, "switch": 2.0}}
    shapes = [
        {"name": "flat", "dimensions": [{"name": "all", "block": "switch", "size": 16, "tier": "t"}]},
        {
            "name": "deep",
            "dimensions": [
                {"name": "in", "block": "ring", "size": 4, "tier": "t"},
                {"name": "out", "block": "switch", "size": 4, "tier": "t"},
            ],
        },
    ]
    net = {"shapes": shapes, "tiers": tiers, "total_gbytes_per_s": 100.0}
    document = modelled(net, objective="time-times-cost", strategies={"pipeline": [1]})
    found = solved(document)
    alone = [
        solved(
            {**document, "network": {"dimensions": shape["dimensions"], "tiers": tiers, "total_gbytes_per_s": 100.0}}
        )
        for shape in shapes
    ]
    assert found.objective.value == pytest.approx(min(one.objective.value for one in alone), rel=2e-9)
    assert found.figures.design.name.startswith(("flat", "deep"))
    document["network"]["shapes"][1]["dimensions"][1]["size"] = 8
    with pytest.raises(InputError, match="shapes of different numbers of NPUs"):
        problem_of(document)


def test_strategies_that_exist() -> None:
    """Degrees multiply to the NPUs and divide width, blocks, experts and batch; memory cuts off the rest."""
    model = Transformer(**{**MODEL, "batch": 192}, experts=4, experts_per_token=2)
    free = list(mappings(model, Npu(100.0), Strategies(), [4, 2, 3]))
    assert free
    for mapping in free:
        tensor, expert, data, pipeline = degrees_of(mapping)
        assert tensor * expert * data * pipeline == 24
        assert 1024 % tensor == 0
        assert 8 % pipeline == 0
        assert 4 % expert == 0
        assert 192 % (expert * data) == 0
        assert [math.prod(part) for part in mapping] == [4, 2, 3]
    assert len(set(free)) == len(free)
    assert all(degrees_of(mapping)[2] % 3 == 0 for mapping in free)  # three divides nothing but the batch
    held = 16.0 * (4 * 1024**2 + 4 * 8 * 1024**2) * 8
    tight = list(mappings(model, Npu(100.0, held / 6 / GIB), Strategies(), [4, 2, 3]))
    assert 0 < len(tight) < len(free)
    assert all(
        degrees_of(mapping)[0] > 1 or degrees_of(mapping)[1] > 1 or degrees_of(mapping)[3] > 1 for mapping in tight
    )


def test_inner_first_has_one_mapping_for_the_degrees() -> None:
    """Tensor parallelism fills the inner dimensions, data parallelism the outer ones."""
    model = Transformer(**MODEL)
    found = list(mappings(model, Npu(100.0), Strategies(pipeline=(1,), mapping="inner-first"), [4, 2, 4]))
    by_tensor = {degrees_of(mapping)[0]: mapping for mapping in found}
    assert len(by_tensor) == len(found)
    assert by_tensor[8] == ((4, 1, 1, 1), (2, 1, 1, 1), (1, 1, 4, 1))
    assert by_tensor[2] == ((2, 1, 2, 1), (1, 1, 2, 1), (1, 1, 4, 1))


def test_bytes_of_a_strategy() -> None:
    """Tensor 16 by data 256 on GPT-3's width: the sizes of the published workload, block by block."""
    model = Transformer(blocks=2, hidden=12288, sequence=2048, batch=16 * 256)
    mapping = ((16, 1, 1, 1), (1, 1, 8, 1), (1, 1, 32, 1))
    own = transformer_workload(model, Npu(100.0), mapping, name="gpt", loop="no-overlap", weight=1.0, microbatches=1)
    [block] = own.layers
    # 2 bytes x 16 sequences of 2048 tokens x width; 2 bytes x 12 h^2 / 16 a block.
    assert [one.size_bytes for one in block.forward.communications] == [805306368.0] * 2
    assert [one.size_bytes for one in block.weight_gradient.communications] == [2 * 12 * 12288**2 / 16]
    assert block.repeat == 2
    tokens = 16 * 2048
    operations = 2 * tokens * 12 * 12288**2 + 4 * tokens * 2048 * 12288
    assert block.forward.compute_ns == pytest.approx(operations / 16 / 100e12 * 1e9)


def test_pipelines_take_slots() -> None:
    """4 stages and 3 micro-batches: 6 slots, in each the blocks of one stage, and one hand-over."""
    mapping = ((1, 1, 1, 4),)
    own = transformer_workload(
        Transformer(blocks=8, hidden=64, sequence=16, batch=6),
        Npu(1.0),
        mapping,
        name="gpt",
        loop="dp-overlap",
        weight=1.0,
        microbatches=3,
    )
    assert [(one.name, one.repeat) for one in own.layers] == [
        ("block, last micro-batch", 2),
        ("block", 10),
        ("stage boundary", 6),
    ]


def test_experts_exchange_tokens() -> None:
    """Experts on 4 of 8 ranks: two all-to-alls each way; expert gradients over the 2 others, dense ones over all 8."""
    own = transformer_workload(
        Transformer(blocks=1, hidden=64, sequence=16, batch=8, experts=4, experts_per_token=2),
        Npu(1.0),
        ((1, 4, 2, 1),),
        name="moe",
        loop="no-overlap",
        weight=1.0,
        microbatches=1,
    )
    [block] = own.layers
    ranks = {one.name: one.ranks for one in own.communicators}
    assert ranks == {"tensor": (1,), "expert": (4,), "data": (8,), "expert data": (2,), "pipeline": (1,)}
    assert [(one.collective.value, one.size_bytes) for one in block.forward.communications] == [
        ("all-to-all", 16 * 64 * 2 * 2.0)
    ] * 2
    assert [one.size_bytes for one in block.weight_gradient.communications] == [4 * 64**2 * 2.0, 8 * 64**2 * 2.0]


def test_too_small_memory_is_said() -> None:
    """No strategy fits: the workload is named."""
    net = network([4, 2], total_gbytes_per_s=100.0)
    with pytest.raises(InputError, match="no strategy fits"):
        problem_of(modelled(net, npu={"memory_gib": 0.001}))


def test_a_prime_number_of_npus() -> None:
    """Seven NPUs in one dimension: data parallelism alone, as seven divides neither width nor blocks."""
    document = modelled(network([7], total_gbytes_per_s=10.0), model={"batch": 70})
    problem = problem_of(document)
    assert [design.workloads[0].strategy for design in problem.designs] == [
        (("tensor", 1), ("expert", 1), ("data", 7), ("pipeline", 1))
    ]
    assert solved(document).plan.bandwidth_gbytes_per_s == pytest.approx([10.0])


def test_jobs_beside_models() -> None:
    """A job given layer by layer and one by its model share the network; only the latter is chosen for."""
    net = network([4, 2], total_gbytes_per_s=100.0)
    document = modelled(net)
    document["workloads"].append(job("plain"))
    found = solved(document)
    assert [one.name for one in found.figures.jobs] == ["gpt", "plain"]
    assert "gpt:" in found.figures.design.name


class Countdown(Stop):
    """Says stop after so many questions."""

    left = 0

    def reason(self) -> StopReason | None:
        """TIME once the questions are used up."""
        self.left -= 1
        return StopReason.TIME if self.left < 0 else None


@pytest.mark.parametrize("questions", [0, 1, 2, 5, 20, 60])
def test_stopping_early_leaves_a_true_bound(questions: int) -> None:
    """Whenever the search is stopped, what it found is allowed and its bound is below the true optimum."""
    net = network([4, 2, 2], [2.0, 8.0, 30.0], total_gbytes_per_s=200.0)
    document = modelled(net, objective="time-times-cost")
    problem = problem_of(document)
    best = solved(document).objective.value
    stop = Countdown()
    stop.left = questions
    found = best_design(problem, stop)
    assert found.stopped_by is StopReason.TIME or found.bound >= found.optimum.objective * (1 - 2e-9)
    assert found.bound <= best * (1 + 1e-9) <= found.optimum.objective * (1 + 2e-9)
