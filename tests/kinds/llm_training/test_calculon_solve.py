"""`topoopt solve` with `time_model: calculon`: the optima of Calculon's own search, and what a limit leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import pytest

from solvers.llm_training.executions import search_executions
from solvers.stop import Stop
from tests.simulate.llm_training.test_calculon_model import problem_of
from tests.support.cli_cases import refusals, run
from tests.support.llm_cases import execution, imported, needs_calculon
from tests.support.valid_solutions import EXECUTIONS, written
from topoopt.core.errors import InfeasibleError
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_plan import ShapeVerdict
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.units import GIB
from topoopt.core.verdict import Status, StopReason
from topoopt.kinds.llm_training.answer import answer
from topoopt.kinds.llm_training.words import strategy_words
from topoopt.kinds.pipeline import solve
from topoopt.simulate.llm_training.calculon_estimate import calculon_estimate
from topoopt.simulate.llm_training.calculon_space import calculon_shapes, executions
from topoopt.verify.llm_training.check import check_llm_training


def small() -> LlmTrainingProblem:
    """Eight GPUs of a quarter of a GiB."""
    problem = written(EXECUTIONS)
    assert isinstance(problem, LlmTrainingProblem)
    return problem


@cache
def solved() -> LlmTrainingSolution:
    """Of the small one."""
    found = solve(small())
    assert isinstance(found, LlmTrainingSolution)
    return found


@needs_calculon
@pytest.mark.parametrize(
    ("model", "batch", "records", "fitting", "seconds", "words"),
    [
        ("megatron-22B", 128, 17_600, 9_884, 3.21507, "pipeline 4 × 12 chunks (interleaved), data 16, ZeRO 1, micro"),
        ("gpt3-175B", 64, 20_284, 1_153, 11.45363, "tensor 4 with sequence, pipeline 8 × 12 chunks (interleaved), d"),
    ],
)
def test_the_optima_of_calculon(
    tmp_path: Path, model: str, batch: int, records: int, fitting: int, seconds: float, words: str
) -> None:
    document = imported(tmp_path, model, "a100_80g", execution("8/8/1", "a rs F", batch=batch, micro_batch=1, chunks=1))
    document["strategy"] = {"expert": 1, "context": 1}
    found = solve(problem_of(document))
    assert isinstance(found, LlmTrainingSolution)
    assert found.objective.value == pytest.approx(seconds, abs=5.1e-6)
    assert sum(line.records for line in found.shapes) == records
    assert sum(line.fitting for line in found.shapes) == fitting
    assert found.status is Status.OPTIMAL
    assert found.check.ok
    assert strategy_words(found.plan.strategy).startswith(words)
    assert "no strategy of the space is faster (proven) by time model calculon" in answer(found)


def test_the_fastest_that_fit_are_ranked() -> None:
    problem, found = small(), solved()
    assert problem.calculon is not None
    shapes = calculon_shapes(problem, problem.calculon)
    known = [calculon_estimate(problem, one) for shape in shapes for one in executions(problem, shape)]
    times = sorted(one.iteration_time_s for one in known if one.memory.total <= 0.25 * GIB)
    assert 4 < len(times) < len(known)
    assert [one.iteration_time_s for one in found.ranked] == times[:4]
    assert found.check.ok
    assert not found.check.not_recomputed


@dataclass
class Limited(Stop):
    """Ends after so many questions."""

    left: int = 2

    def reason(self) -> StopReason | None:
        """None until then."""
        self.left -= 1
        return StopReason.TIME if self.left < 0 else None


def test_what_a_limit_leaves_is_named() -> None:
    problem, whole = small(), solved()
    found = search_executions(problem, Limited(), count=4)
    verdicts = [line.verdict for line in found.shapes]
    assert ShapeVerdict.LEFT not in verdicts[:2]
    assert set(verdicts[2:]) == {ShapeVerdict.LEFT}
    assert found.stopped_by is StopReason.TIME
    cut = replace(whole, shapes=found.shapes)
    assert {one.code for one in check_llm_training(problem, cut).violations} >= {"certificate"}


@pytest.mark.parametrize("gib", [1e-3, 0.0625])
def test_memory_that_no_execution_fits_in(gib: float) -> None:
    problem = small()
    cluster = replace(problem.cluster, gpu_memory_bytes=int(gib * GIB))
    with pytest.raises(InfeasibleError, match=r"gpu_memory_gib and calculon\.memory\.gib: 0\.\d+ would do"):
        solve(replace(problem, cluster=cluster))


def test_memory_of_the_machine_counts_too() -> None:
    """As that of the cluster, of which nothing is said."""
    problem = small()
    assert problem.calculon is not None
    machine = replace(problem.calculon.machine, memory=replace(problem.calculon.machine.memory, gib=0.25))
    cluster = replace(problem.cluster, gpu_memory_bytes=None)
    found = solve(replace(problem, calculon=replace(problem.calculon, machine=machine), cluster=cluster))
    assert isinstance(found, LlmTrainingSolution)
    assert found.ranked == solved().ranked
    assert found.check.ok


def test_commands_that_follow(tmp_path: Path) -> None:
    """Solved, explained, and written for Megatron-LM; there are no passes for traces."""
    file = tmp_path / "x.yaml"
    file.write_text(EXECUTIONS)
    found = run("solve", file, "-o", tmp_path / "out", "--json")
    assert found.code == 0, found.stderr
    assert found.json["method"] == "exhaustion"
    assert found.json["iteration_time_s"] == solved().objective.value
    path = tmp_path / "out" / "solution.json"
    changes = run("explain", path, "--json").json["changes"]
    assert [one["change"] for one in changes] == ["16 GiB more memory a GPU", "network 0 twice as fast"]
    assert all(one["faster_percent"] >= 0 and one["proven"] for one in changes)
    export = partial(run, "export", path, "-o")
    assert export(tmp_path / "run", "--to", "megatron").code == 0
    traces = export(tmp_path / "traces", "--to", "chakra", "--instance", file, "--json")
    assert traces.code == 2
    assert [place for place, _, _ in refusals(traces.json)] == ["time_model"]


@pytest.mark.parametrize("method", ["branch-and-bound"])
def test_a_method_of_another_time_model_is_refused(tmp_path: Path, method: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(EXECUTIONS.replace("search: {top: 3}", f"search: {{top: 3, method: {method}}}"))
    result = run("solve", file, "-o", tmp_path / "out", "--json")
    assert result.code == 2
    assert "time_model" in [place for place, _, _ in refusals(result.json)]
