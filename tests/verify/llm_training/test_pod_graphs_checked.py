"""Graphs between pods, written down by the checker again: all kinds of strategies agree, and no change goes unseen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.llm_cases import strategy, training
from topoopt.core.dag_topology import DagTask, DagTopologyProblem, DagTransfer
from topoopt.core.errors import CheckError
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.parallelism import Overlap, ParallelStrategy, Recompute
from topoopt.core.parallelism import PipelineSchedule as S
from topoopt.library.training_exports import refuse_other_graph
from topoopt.simulate.llm_training.ranks import PodSetting, pod_graph, program_of
from topoopt.simulate.llm_training.strategies import stage_layers
from topoopt.verify.llm_training.pods import check_pod_graph

DENSE = {
    "replicas alone": strategy(tensor=8, sequence=True, data=8),
    "1F1B": strategy(tensor=8, sequence=True, pipeline=2, data=4, zero=1),
    "GPipe": strategy(tensor=4, pipeline=4, data=4, schedule=S.GPIPE),
    "interleaved": strategy(tensor=4, sequence=True, pipeline=4, chunks=2, data=4, zero=1, schedule=S.INTERLEAVED),
    "ZB-H1": strategy(tensor=8, pipeline=4, data=2, zero=2, schedule=S.ZB_H1),
    "ZB-2P": strategy(tensor=8, pipeline=4, data=2, schedule=S.ZB_2P),
    "DualPipe-V": strategy(tensor=4, sequence=True, pipeline=4, chunks=2, data=4, zero=1, schedule=S.DUALPIPE_V),
    "ZeRO 3": strategy(tensor=4, sequence=True, pipeline=2, data=8, zero=3),
    "context": strategy(tensor=2, sequence=True, context=2, pipeline=4, data=4, recompute=Recompute.FULL),
}
EXPERTS = {
    "in a pod": strategy(tensor=2, sequence=True, pipeline=4, data=8, expert=8, zero=1),
    "over two pods": strategy(tensor=4, sequence=True, pipeline=2, data=8, expert=8, zero=1),
    "over four pods": strategy(pipeline=2, data=32, expert=8, zero=1),
}


def built(
    model: str, one: ParallelStrategy, gpus: int, *, pipeline: bool = True
) -> tuple[LlmTrainingProblem, ParallelStrategy, DagTopologyProblem]:
    """(problem, strategy with its layers, graph)."""
    problem = replace(training(model, 64, 64, 2048), overlap=Overlap(pipeline=pipeline))
    program = program_of(
        problem, replace(one, stage_layers=stage_layers(problem.model.layers, one.pipeline, one.chunks))
    )
    return problem, program.strategy, pod_graph(problem, program, PodSetting(gpus, 64))


@pytest.mark.parametrize("pipeline", [True, False])
@pytest.mark.parametrize("name", DENSE)
def test_dense_models(name: str, *, pipeline: bool) -> None:
    problem, one, graph = built("gpt3-175b", DENSE[name], 8, pipeline=pipeline)
    assert graph.transfers
    assert check_pod_graph(problem, one, 8, graph).violations == ()


@pytest.mark.parametrize("name", EXPERTS)
def test_models_of_experts(name: str) -> None:
    gpus = {"in a pod": 8, "over two pods": 4, "over four pods": 2}[name]
    problem, one, graph = built("mixtral-8x22b", EXPERTS[name], gpus)
    assert any(move.name.startswith("tokens") for move in graph.transfers) == (name != "in a pod")
    assert check_pod_graph(problem, one, gpus, graph).violations == ()
    problem = replace(problem, formats=replace(problem.formats, fp8_dispatch=True))
    due = pod_graph(problem, program_of(problem, one), PodSetting(gpus, 64))
    assert check_pod_graph(problem, one, gpus, due).violations == ()
    assert check_pod_graph(problem, one, gpus, graph).violations


def _moved(graph: DagTopologyProblem, k: int, make: Callable[[DagTransfer], DagTransfer]) -> DagTopologyProblem:
    moves = list(graph.transfers)
    moves[k] = make(moves[k])
    return replace(graph, transfers=tuple(moves))


def _worked(graph: DagTopologyProblem, k: int, make: Callable[[DagTask], DagTask]) -> DagTopologyProblem:
    tasks = list(graph.tasks)
    tasks[k] = make(tasks[k])
    return replace(graph, tasks=tuple(tasks))


CHANGES: dict[str, Callable[[DagTopologyProblem], DagTopologyProblem]] = {
    "a volume": lambda g: _moved(g, 5, lambda m: replace(m, volume=m.volume * 1.001)),
    "ends": lambda g: _moved(g, 5, lambda m: replace(m, source=m.target, target=m.source)),
    "what a transfer waits for": lambda g: _moved(g, 5, lambda m: replace(m, after=m.after[1:])),
    "a duration": lambda g: _worked(g, -1, lambda c: replace(c, duration=c.duration * 0.999)),
    "what a task waits for": lambda g: _worked(g, -1, lambda c: replace(c, after=c.after[:-1])),
    "a name": lambda g: _worked(g, 7, lambda c: replace(c, name="another")),
    "pods": lambda g: replace(g, pods=g.pods + 1, ports=(*g.ports, g.ports[0])),
    "ports": lambda g: replace(g, ports=(*g.ports[:-1], g.ports[0] + 1)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_graph_of_something_else(name: str) -> None:
    problem, one, graph = built("gpt3-175b", DENSE["1F1B"], 8)
    assert check_pod_graph(problem, one, 8, CHANGES[name](graph)).violations
    with pytest.raises(CheckError, match="rejects the graph"):
        refuse_other_graph(problem, one, PodSetting(8, 64), CHANGES[name](graph))


def test_a_graph_of_another_instance_or_pods() -> None:
    problem, one, graph = built("gpt3-175b", DENSE["1F1B"], 8)
    longer = replace(problem, batch=replace(problem.batch, length=4096))
    assert check_pod_graph(longer, one, 8, graph).violations
    assert check_pod_graph(problem, replace(one, zero=0), 8, graph).violations
    assert check_pod_graph(problem, one, 16, graph).violations
    assert check_pod_graph(problem, one, 3, graph).violations
