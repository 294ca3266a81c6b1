"""Traces of training: volumes of published runs, replayed against the pipeline, read back, and what is refused."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.llm_cases import strategy, training
from tests.support.llm_plans import with_fabric
from tests.support.read_back.exports import check_export
from tests.support.smallest import problem_of, solution_of
from topoopt.core.errors import CheckError, InputError
from topoopt.core.hierarchy import Collective, CollectiveStep, ComputeStep, MessageStep
from topoopt.core.llm_training import LlmTrainingProblem, NumberFormats
from topoopt.core.llm_training_plan import FabricPlan
from topoopt.core.parallelism import ParallelStrategy, PipelineSchedule, StageCosts
from topoopt.formats.chakra import NodeType, read_trace
from topoopt.formats.table import EXPORTERS, Export, ExportOptions
from topoopt.library.training_exports import training_program
from topoopt.simulate.llm_training.ranks import TrainingProgram
from topoopt.simulate.llm_training.step import pipeline_shape
from topoopt.simulate.pipeline import pipeline_time

FAMILIES = ("tensor", "context", "expert", "data", "expert-data")


def ring_bytes(kind: Collective, size: int, n: int) -> float:
    """Bytes that a rank sends for a collective of n by a ring."""
    return {
        Collective.ALL_GATHER: (n - 1) * size,
        Collective.REDUCE_SCATTER: (n - 1) / n * size,
        Collective.ALL_REDUCE: 2 * (n - 1) / n * size,
        Collective.ALL_TO_ALL: (n - 1) / n * size,
    }[kind]


def sent_gb(problem: LlmTrainingProblem, one: ParallelStrategy, rank: int) -> dict[str, float]:
    """What the nodes of a rank send, GB by family; `pipeline` for messages."""
    program = TrainingProgram(problem, one)
    found: Counter[str] = Counter()
    for step in program.steps(rank):
        if isinstance(step, MessageStep) and step.sends:
            found["pipeline"] += step.size_bytes / 1e9
        elif isinstance(step, CollectiveStep):
            members = program.groups[step.group]
            assert rank in members
            found[step.name.split()[0]] += ring_bytes(step.collective, step.size_bytes, len(members)) / 1e9
    return found


def test_volumes_of_gpt3() -> None:
    """1024 GPUs, t8 p8 v6, batch 1536: 507 GB of tensors, 7.25 between stages, 15.3 of gradients and weights."""
    problem = training("gpt3-175b", 1024, 1536, 2048)
    one = strategy(tensor=8, pipeline=8, data=16, chunks=6, zero=1)
    found = sent_gb(problem, one, 8 * 16 * 3)
    assert found["tensor"] == pytest.approx(507, rel=2e-3)
    assert found["pipeline"] == pytest.approx(7.25, rel=2e-3)
    assert found["data"] == pytest.approx(15.3, rel=5e-3)


def test_volumes_of_mixtral() -> None:
    """8x22B on 128 GPUs, t2 p8 v7 x8, batch 256, length 4096: 56.4, 11.3, 39.5 and 1.6 / 6.3 GB."""
    problem = training("mixtral-8x22b", 128, 256, 4096)
    one = strategy(tensor=2, pipeline=8, data=8, chunks=7, expert=8, zero=1)
    found = sent_gb(problem, one, 16 * 3)
    assert found["tensor"] == pytest.approx(56.4, rel=2e-3)
    assert found["pipeline"] == pytest.approx(11.3, rel=5e-3)
    assert found["expert"] == pytest.approx(39.5, rel=2e-3)
    assert found["data"] == pytest.approx(1.6, rel=3e-2)
    assert found["expert-data"] == pytest.approx(6.3, rel=1e-2)


def test_volumes_of_deepseek() -> None:
    """2048 GPUs, p16 v2 x64, batch 15360, tokens go in 8 bits: 603 GB to experts and back, of 58 layers on 16 ranks."""
    problem = replace(training("deepseek-v3", 2048, 15360, 4096), formats=NumberFormats(fp8_dispatch=True))
    one = strategy(pipeline=16, data=128, chunks=2, expert=64, zero=1, schedule="dualpipe-v")
    found = sent_gb(problem, one, 128 * 5)
    layers = TrainingProgram(problem, one).costs.stages.kinds[1, [5, 26]].sum()
    assert found["expert"] / layers * 58 / 16 == pytest.approx(603, rel=2e-3)
    assert found["pipeline"] == pytest.approx(28.2, rel=5e-3)


def replayed_us(problem: LlmTrainingProblem, one: ParallelStrategy, ranks: list[int]) -> float:
    """When the last of these ranks begins its optimizer step, if transfers take no time."""
    program = TrainingProgram(problem, one)
    left = {rank: deque(enumerate(program.steps(rank))) for rank in ranks}
    ends: dict[tuple[int, int], float] = {}
    arrived: dict[tuple[int, int, int], float] = {}
    last = 0.0
    while any(left.values()):
        moved = False
        for rank, steps in left.items():
            while steps:
                place, step = steps[0]
                begin, takes = max((ends[rank, other] for other in step.after), default=0.0), 0.0
                if isinstance(step, MessageStep) and step.sends:
                    arrived[rank, step.peer, step.tag] = begin
                elif isinstance(step, MessageStep):
                    if (step.peer, rank, step.tag) not in arrived:
                        break
                    begin = arrived.pop((step.peer, rank, step.tag))
                elif isinstance(step, ComputeStep):
                    takes = step.time_us
                    last = max(last, begin) if step.name == "optimizer" else last
                ends[rank, place] = begin + takes
                steps.popleft()
                moved = True
        assert moved, "ranks wait for each other"
    assert not arrived
    return last


@pytest.mark.parametrize(
    "parts",
    [
        {"schedule": "1f1b"}, {"schedule": "gpipe"}, {"schedule": "zb-h1"}, {"schedule": "zb-2p"},
        {"chunks": 3}, {"schedule": "dualpipe-v", "chunks": 2}, {"schedule": "1f1b", "recompute": "full", "zero": 3},
    ],
)  # fmt: skip
def test_replay_takes_as_long_as_the_pipeline(parts: dict[str, Any]) -> None:
    """One rank of each stage, messages without time: the makespan of the same passes in the same order, slowed."""
    problem = problem_of("llm-training")
    one = strategy(**{"pipeline": 4, "data": 2, "tensor": 2, "zero": 1, **parts})
    costs = costs_of(problem, one)
    alone = pipeline_time(one.schedule, pipeline_shape(problem, one), costs, whole=True).makespan_s
    due = problem.cluster.slowdown * alone  # of 16 devices
    found = replayed_us(problem, one, [4 * stage for stage in range(4)]) / 1e6
    # The order of zb-2p is one for stages with hops; joined passes of dualpipe-v end together, in a trace one by one.
    near = one.schedule in (PipelineSchedule.ZB_2P, PipelineSchedule.DUALPIPE_V)
    assert found == pytest.approx(due, rel=0.04 if near else 1e-3)


def costs_of(problem: LlmTrainingProblem, one: ParallelStrategy) -> StageCosts:
    forward, inputs, weights, again = TrainingProgram(problem, one).costs.stages.passes
    return StageCosts(forward, inputs + again, weights)


def exported(ranks: str, **parts: Any) -> Export:
    """Of the smallest solution with another strategy on its 16 GPUs."""
    solution = solution_of("llm-training")
    solution = with_fabric(solution, 0, FabricPlan(strategy(**parts)))
    program = training_program(problem_of("llm-training"), solution, None)
    return EXPORTERS["chakra"].build(solution, ExportOptions(program=program, ranks=ranks))


def test_all_ranks_agree(tmp_path: Path) -> None:
    """16 ranks: members of a group take part in the same collectives equally often; what is sent is received."""
    made = exported("all", tensor=2, context=2, pipeline=2, data=2, chunks=3, zero=1)
    check_export("chakra", made)
    _, groups, ranks = made.content  # type: ignore[misc]
    assert len(ranks) == 16
    for number, members in groups.items():
        own = [{key: count for key, count in ranks[rank].calls.items() if key[1] == int(number)} for rank in members]
        assert own[0]
        assert all(one == own[0] for one in own)
    for one in ranks:
        assert all(ranks[peer].received[one.rank] == amount for peer, amount in one.sent.items())


def test_a_trace_that_says_something_else_is_found() -> None:
    """A message more bytes long, and a rank without its last node, are found."""
    made = exported("stages", pipeline=4, data=4)
    files = dict(made.files)
    name = next(name for name in files if name.endswith(".4.et"))
    with pytest.raises(CheckError):
        check_export("chakra", replace(made, files=tuple((files | {name: files[name][:-30]}).items())))
    other = dict(exported("stages", pipeline=4, data=4, micro_batch=2).files)[name]
    with pytest.raises(CheckError, match=r"which receives|something else"):
        check_export("chakra", replace(made, files=tuple((files | {name: other}).items())))


@pytest.mark.parametrize(
    ("ranks", "written"), [("stages", [0, 4, 8, 12]), ("0,8-10", [0, 8, 9, 10]), ("all", list(range(16)))]
)
def test_ranks_are_chosen(ranks: str, written: list[int], tmp_path: Path) -> None:
    made = exported(ranks, pipeline=4, data=4)
    assert [int(name.split(".")[1]) for name, _ in made.files if name.endswith(".et")] == written
    for name, data in made.files:
        (tmp_path / name).write_bytes(data)
    first = next(name for name, _ in made.files if name.endswith(".et"))
    assert sum(one.type == NodeType.COMP for one in list(read_trace(tmp_path / first))[1:]) == 8 * 2 + 1


@pytest.mark.parametrize("ranks", ["16", "3-1", "a", "", "1,,2", "-1"])
def test_ranks_that_there_are_not_are_refused(ranks: str) -> None:
    with pytest.raises(InputError, match=r"--set ranks.*not ranks of the strategy"):
        exported(ranks, pipeline=4, data=4)


def test_what_traces_cannot_say_is_refused() -> None:
    with pytest.raises(InputError, match="a stage on two ranks"):
        exported("stages", pipeline=4, data=4, schedule="dualpipe")
    with pytest.raises(InputError, match="instance"):
        EXPORTERS["chakra"].build(solution_of("llm-training"), ExportOptions())
