"""The checker's Calculon model against figures that Calculon printed, and against the model of the search."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from tests.simulate.llm_training.test_calculon_model import ROWS, problem_of
from tests.support.llm_cases import execution, imported, needs_calculon, training
from topoopt.analyses.evaluate.run import chosen_strategy
from topoopt.core.calculon import (
    CalculonMachine,
    CalculonSettings,
    StepMemory,
    StepNetwork,
    StepProcessor,
    TensorTransfers,
    TransferCost,
)
from topoopt.core.llm_training import LlmTrainingProblem, StepBreakdown, TrainingBatch, TrainingMemory
from topoopt.core.units import GIB
from topoopt.simulate.llm_training.calculon_estimate import calculon_estimate, calculon_stages, choices_of
from topoopt.simulate.llm_training.calculon_space import calculon_shapes, executions
from topoopt.verify.llm_training.calculon.execution import evaluator
from topoopt.verify.llm_training.calculon.space import executions_of, ways_to_divide


@needs_calculon
@pytest.mark.parametrize(("model", "system", "shape", "flags", "sizes", "total", "times", "memory"), ROWS)
def test_the_checker_has_the_figures_of_calculon(
    tmp_path: Path,
    model: str,
    system: str,
    shape: str,
    flags: str,
    sizes: dict[str, int],
    total: float,
    times: dict[str, float],
    memory: dict[str, float],
) -> None:
    problem = problem_of(imported(tmp_path, model, system, execution(shape, flags, **sizes)))
    strategy = chosen_strategy(problem, {})
    found = evaluator(problem)(strategy, choices_of(problem, strategy))
    assert found.total == pytest.approx(total, abs=5.1e-5)
    for name, seconds in times.items():
        assert found.seconds[name] == pytest.approx(seconds, abs=1.01e-4), name
    for name, gib in memory.items():
        held = found.memory if name == "total" else found.bytes[name]
        assert held / GIB == pytest.approx(gib, abs=5.1e-4), name


def drawn(rng: np.random.Generator) -> LlmTrainingProblem:
    """A small model on a machine with steps, costs, networks and rules of all sorts."""
    heads, layers = int(rng.choice([2, 4, 6])), int(rng.choice([2, 4, 6]))
    small = training("megatron-22b", 8, int(rng.choice([8, 12, 16])), 64)
    model = replace(small.model, layers=layers, hidden=heads * 64, ffn_hidden=heads * 96, heads=heads,
                    kv_heads=heads, head_size=int(rng.choice([32, 64])))  # fmt: skip

    def steps(size: float) -> tuple[tuple[float, float], ...]:
        starts = (*sorted(rng.uniform(0, size, 2).tolist(), reverse=True), 0.0)
        return tuple(zip(starts, rng.uniform(0.1, 1, 3).tolist(), strict=True))

    def network(size: int) -> StepNetwork:
        costs = (TransferCost(*rng.uniform([0.5, -1], [2, 1]).tolist()) for _ in range(4))
        rate, efficiency, latency = rng.uniform([0.01, 0.3, 0], [10, 1, 1e-5]).tolist()
        filled, usage = bool(rng.integers(2)), float(rng.choice([0.0, 0.15]))
        return StepNetwork(rate, efficiency, size, latency, *costs, filled, usage)

    machine = CalculonMachine(
        StepProcessor(10.0, steps(0.1)), StepProcessor(5.0, steps(0.01)),
        StepMemory(1.0, 2000.0, steps(1.0)), int(rng.choice([1, 2, 4])), (network(int(rng.choice([2, 4, 8]))),
        network(64)), bool(rng.integers(2)),
    )  # fmt: skip
    settings = CalculonSettings(machine, TensorTransfers.SEQUENCE, False, bool(rng.integers(2)),
                                *rng.integers(0, 2, 3).tolist())  # fmt: skip
    batch = TrainingBatch(small.batch.sequences, int(rng.choice([32, 48])))
    return replace(small, model=model, batch=batch, time_model="calculon", calculon=settings)


def test_all_executions_of_drawn_machines_agree() -> None:
    rng, seen = np.random.default_rng(5), 0
    for _ in range(12):
        problem = drawn(rng)
        assert problem.calculon is not None
        shapes = calculon_shapes(problem, problem.calculon)
        assert shapes == ways_to_divide(problem)
        evaluate = evaluator(problem)
        for shape in shapes:
            known = list(executions(problem, shape))
            assert set(known) == set(executions_of(problem, shape))
            assert len(set(known)) == len(known)
            for place in rng.integers(0, len(known), 20).tolist():
                one = known[place]
                found, due = evaluate(one, choices_of(problem, one)), calculon_estimate(problem, one)
                for part in fields(StepBreakdown):
                    seconds, own = getattr(due.breakdown, part.name), found.seconds.get(part.name, 0.0)
                    assert own == pytest.approx(seconds, rel=1e-11, abs=1e-12 * found.total), (one, part.name)
                for part in fields(TrainingMemory):
                    held = getattr(due.memory, part.name)
                    assert found.bytes[part.name] == pytest.approx(held, rel=1e-12), (one, part.name)
                stages = calculon_stages(problem, one)
                chunk = (stages.forward_s[0], stages.inputs_s[0], stages.weights_s[0])
                assert found.chunk == pytest.approx(chunk, rel=1e-9)
                seen += 1
    assert seen > 800
