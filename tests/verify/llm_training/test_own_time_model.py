"""The checker's time model, memory ledger and space agree with those of the search, which share no code; no bound of it
is above a time."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from solvers.llm_training.strategies import (
    columns_of_rows,
    rows_of_shape,
    shape_bounds,
    shape_numbers,
    strategy_of,
    strategy_shapes,
)
from tests.solvers.test_strategy_space import drawn_problem
from tests.support.llm_cases import training
from topoopt.core.arrays import Floats
from topoopt.core.llm_training import (
    Attention,
    DeltaAttention,
    Experts,
    LanguageModel,
    LatentAttention,
    LayerKind,
    LightningAttention,
    LlmTrainingProblem,
    Mixer,
    Mlp,
    StateSpace,
    TrainingMemory,
)
from topoopt.core.llm_training_plan import StrategyShape
from topoopt.core.parallelism import Overlap
from topoopt.simulate.llm_training.costs import ledger, total_bytes
from topoopt.simulate.llm_training.step import roofline_estimate
from topoopt.simulate.llm_training.times import iteration_times
from topoopt.verify.checker import WorkBudget
from topoopt.verify.llm_training.costs import bytes_of, held_by, layers_of
from topoopt.verify.llm_training.iteration import least_seconds, plan_seconds, seconds_of
from topoopt.verify.llm_training.iteration import shape_bounds as bounds_of
from topoopt.verify.llm_training.layers import records_of, row_in, shapes_of, strategies_of
from topoopt.workloads.language_models import LANGUAGE_MODELS


def drawn(rng: np.random.Generator) -> LlmTrainingProblem:
    """A published model or a small one, in formats, overlaps and spaces of all sorts."""
    if rng.random() < 0.5:
        problem = drawn_problem(rng)
    else:
        gpus, device = int(rng.choice([16, 32, 48])), str(rng.choice(["a100", "h100"]))
        problem = training(str(rng.choice(list(LANGUAGE_MODELS))), gpus, int(rng.choice([48, 96])), 4096, device)
    formats = replace(
        problem.formats,
        fp8=bool(rng.integers(2)),
        fp8_dispatch=bool(rng.integers(2)),
        flash=bool(rng.integers(2)),
        gradient_bytes=int(rng.choice([2, 4])),
    )
    overlap = Overlap(float(rng.choice([0, 0.5])), float(rng.choice([0, 0.3])), *map(bool, rng.integers(0, 2, 2)))
    division = rng.choice(["even", "ends", "balanced"])
    space = replace(
        problem.space,
        layers="balanced" if division == "balanced" else "even",
        short_ends=(0, 1, 2) if division == "ends" else (),
        expert_tensor=(1, 2) if rng.random() < 0.3 else (1,),
    )
    model = problem.model if rng.random() < 0.5 else hybrid(rng, problem.model)
    return replace(problem, model=model, formats=formats, overlap=overlap, space=space)


def hybrid(rng: np.random.Generator, model: LanguageModel) -> LanguageModel:
    """A model whose layers are of several kinds, in any order, some with experts."""
    heads, size = min(model.heads), model.hidden // min(model.heads)
    mixers: tuple[Mixer | None, ...] = (
        Attention(heads, heads, size, window=int(rng.choice([512, 3000, 10_000])), gated=True, norms="row"),
        Attention(heads, heads, size, chunk=1000, biases=True, sinks=True),
        LatentAttention(heads, 64, 128, 32, 16, 24, index_heads=4, index_size=16, index_keys=700),
        DeltaAttention(heads, 32, 2 * heads, 16, 4),
        LightningAttention(heads, size),
        StateSpace(heads * 64, 32, 4, groups=2, heads=heads, biases=True),
        StateSpace(heads * 64, 16, 4, step_rank=20),
        None,
    )
    routed = Experts(4, 2, 512, int(rng.choice([0, 2 * heads])), shared_gate=True, biases=True, latent=64)
    parts: tuple[Mlp | Experts | None, ...] = (routed, Mlp(48 * heads), Mlp(48 * heads, gated=False, biases=True), None)
    kinds = list[LayerKind]()
    while len(kinds) < 3:
        kind = LayerKind(mixers[rng.integers(len(mixers))], parts[rng.integers(len(parts))], int(rng.integers(1, 5)))
        kinds += [] if kind in kinds or kind.mixer is kind.mlp is None else [kind]
    order = tuple(int(kind) for kind in rng.integers(0, 3, model.layers))
    if rng.random() < 0.3:
        order = tuple(sorted(order))
    mtp = int(rng.integers(0, 2))
    return replace(
        model, kinds=tuple(kinds), order=order, positions=100, final_norms=2, head_biases=True, mtp_layers=mtp
    )


def numbered(shape: StrategyShape, rows: Floats) -> tuple[Floats, Floats]:
    """The shape beside each row."""
    return np.array([shape_numbers(shape)] * len(rows)), rows


def agree(seed: int, cases: int) -> None:
    """All shapes of random problems, and all strategies of a few of each."""
    rng, close, total = np.random.default_rng(seed), 0, 0
    for _ in range(cases):
        problem = drawn(rng)
        shapes = strategy_shapes(problem)
        assert sorted(shapes) == sorted(shapes_of(problem))
        bounds = bounds_of(problem, shapes, WorkBudget())
        assert (np.isinf(bounds) == np.isinf(shape_bounds(problem, shapes))).all()
        for place in rng.choice(len(shapes), min(6, len(shapes)), replace=False).tolist():
            shape, rows = shapes[place], rows_of_shape(problem, shapes[place])
            own = strategies_of(problem, shape)
            strategies = [strategy_of(problem, shape, row) for row in rows]
            spelled = np.array([row_in(problem, one) for one in strategies]).reshape(-1, own.shape[1])
            assert sorted(spelled.tolist()) == sorted(own.tolist())
            if not len(rows):
                continue
            columns = columns_of_rows(problem, *numbered(shape, rows))
            np.testing.assert_allclose(
                held_by(problem, records_of(spelled)), total_bytes(ledger(problem, columns)), rtol=1e-12
            )
            some = rng.choice(len(rows), min(20, len(rows)), replace=False)
            followed = iteration_times(problem, columns_of_rows(problem, *numbered(shape, rows[some])))
            np.testing.assert_allclose(seconds_of(problem, records_of(spelled[some])), followed, rtol=1e-9)
            assert (bounds[place] <= followed * (1 + 1e-10)).all()
            least = least_seconds(problem, records_of(spelled[some]))
            assert (least <= followed * (1 + 1e-10)).all()
            close += int((least >= followed * 0.9).sum())
            total += len(some)
            for row, one in ((spelled[row], strategies[row]) for row in some):
                own = layers_of(problem, records_of(row), one.pipeline, one.chunks)[:, 0]
                assert own.tolist() == list(one.stage_layers)
            one = strategies[some[0]]
            step, held = roofline_estimate(problem, one), bytes_of(problem, one)
            assert plan_seconds(problem, one) == pytest.approx(step.iteration_time_s, rel=1e-9)
            for part in fields(TrainingMemory):
                assert held[part.name] == pytest.approx(getattr(step.memory, part.name), rel=1e-9)
    assert close >= total / 2  # cheap bounds that few strategies are followed for


def test_both_time_models_agree() -> None:
    """Random problems: the same shapes, strategies, times, bytes; no strategy below the bound of its shape."""
    agree(11, 6)


@pytest.mark.heavy
def test_both_time_models_agree_on_many() -> None:
    agree(12, 120)
