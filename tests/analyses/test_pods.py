"""`topoopt pods`: strategies and circuits together, against all circuits of all strategies."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from solvers.dag_topology.strategies import PodVerdict
from solvers.stop import Stop
from tests.support.cli_cases import run
from tests.support.paths import INSTANCES
from topoopt.analyses.pods.answer import answer
from topoopt.analyses.pods.run import joint_circuits
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.errors import InfeasibleError, InputError
from topoopt.core.llm_training import LlmTrainingProblem, TrainingBatch
from topoopt.core.pipeline import PipelineSchedule
from topoopt.core.verdict import StopReason
from topoopt.kinds.instance_file import read_instance
from topoopt.simulate.llm_training.pod_graph import PodSetting
from topoopt.verify.dag_topology.follow import follow

SMALL = INSTANCES / "llm-training" / "small-16.yaml"
SETTING = PodSetting(4, 3, 12.5)


@cache
def small() -> LlmTrainingProblem:
    """Sixteen GPUs with few strategies."""
    problem = read_instance(SMALL)
    assert isinstance(problem, LlmTrainingProblem)
    space = replace(
        problem.space,
        micro_batch=(1,),
        zero=(1,),
        context=(1,),
        schedule=(PipelineSchedule.ONE_F_ONE_B,),
        short_ends=(),
    )
    return replace(problem, space=space, batch=TrainingBatch(8, 4096))


def quiet(what: str, done: int, total: int | None) -> None:
    """Nobody is told."""


def fastest_s(graph: DagTopologyProblem) -> float:
    """Over all circuits within the ports, each followed by the checker."""
    found = []
    for counts in itertools.product(*(range(1, int(most) + 1) for most in graph.most)):
        used = [0] * graph.pods
        for pair, count in zip(graph.pairs, counts, strict=True):
            for pod in pair:
                used[pod] += count
        if all(one <= ports for one, ports in zip(used, graph.ports, strict=True)):
            found.append(max(follow(graph, counts)[1]))
    return min(found)


def test_no_strategy_and_no_circuits_are_faster() -> None:
    joint = joint_circuits(small(), SETTING, 4, Stop(), quiet)
    assert len({row.strategy.pipeline for row in joint.rows}) > 1
    values = [fastest_s(row.graph) for row in joint.rows]
    best = joint.rows[joint.best]
    assert best.makespan_s == pytest.approx(min(values), rel=1e-9)
    assert joint.bound_s == pytest.approx(min(values), rel=1e-6)
    assert joint.stopped_by is StopReason.CONVERGED
    for row, value in zip(joint.rows, values, strict=True):
        assert row.bound_s <= value * (1 + 1e-9)
        assert value <= min(row.matrix_s.values()) * (1 + 1e-9)
        if row.verdict is PodVerdict.SEARCHED:
            assert row.makespan_s == pytest.approx(value, rel=1e-6)
    assert joint.rows[0].ideal_s == min(row.ideal_s for row in joint.rows)
    assert joint.rows[0].verdict is PodVerdict.SEARCHED
    assert "(proven)" in answer(joint)


def test_what_a_limit_leaves_is_bounded_by_its_tasks() -> None:
    """The first strategy gets circuits in any case."""
    stop = Stop()
    calls = []

    def tell(what: str, done: int, total: int | None) -> None:
        if what.startswith("circuits"):
            calls.append(done)
            stop.interrupted.set()

    joint = joint_circuits(small(), SETTING, 3, stop, tell)
    assert calls == [0, 1, 2]
    assert [row.verdict for row in joint.rows] == [PodVerdict.SEARCHED, PodVerdict.LEFT, PodVerdict.LEFT]
    assert joint.stopped_by is StopReason.INTERRUPTED
    assert joint.bound_s <= min(row.graph.compute_time for row in joint.rows[1:])
    first = joint.rows[0]
    assert first.makespan_s <= min(first.matrix_s.values())
    assert max(follow(first.graph, joint.found.fastest.tolist())[1]) == pytest.approx(first.makespan_s, rel=1e-9)


def test_rails_of_the_instance_leave_no_strategy_out() -> None:
    """A stage on part of a server does not stand on rails, and does in a pod."""
    problem = read_instance(INSTANCES / "llm-training" / "rails-32.yaml")
    space = replace(problem.space, tensor=(1,), context=(1,), pipeline=(16,), data=(2,), chunks=(1,))
    problem = replace(problem, space=space, model=replace(problem.model, layers=16))
    joint = joint_circuits(problem, PodSetting(1, 3), 1, Stop(), quiet)
    assert joint.rows[0].graph.pods == 32


def test_strategies_that_pods_do_not_hold() -> None:
    """Tensor groups are never split; one port does not join a stage to its neighbours and replicas."""
    tensor = replace(small(), space=replace(small().space, tensor=(4,)))
    with pytest.raises(InputError, match="split a tensor"):
        joint_circuits(tensor, PodSetting(2), 4, Stop(), quiet)
    with pytest.raises(InfeasibleError, match="too few ports"):
        joint_circuits(small(), PodSetting(4, 1), 4, Stop(), quiet)


def test_from_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("--pod-gpus", 4, "--pod-ports", 4, "--circuit-gbps", 12.5, "--strategies", 2, "--out", out)
    result = run("pods", SMALL, *words, "--json")
    assert result.code == 0, result.stderr
    found = result.json
    assert found["makespan_s"] == min(row["makespan_s"] for row in found["strategies"])
    assert found["gain_percent"] == pytest.approx(100 * (1 - found["makespan_s"] / found["first_s"]))
    assert found["bound_s"] <= found["makespan_s"] <= found["first_s"] <= found["first_by_volume_s"] * (1 + 1e-9)
    checked = run("check", out / "circuits.json", out / "solution.json", "--json")
    assert checked.code == 0, checked.stderr
    again = run("solve", out / "circuits.json", "--out", tmp_path / "again", "--json")
    assert again.json["makespan"] == pytest.approx(found["makespan_s"], rel=1e-9)
    refused = run("pods", INSTANCES / "bert-16.yaml", "--pod-gpus", 4)
    assert refused.code == 2
    assert "language models alone" in " ".join(refused.stderr.split())
