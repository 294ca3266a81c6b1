"""Every target, for every kind that it takes: what is written reads back as the solution, and does what it says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.read_back.exports import READERS, check_written
from tests.support.smallest import problem_of, solution_of
from topoopt.formats.table import EXPORTERS, ExportOptions
from topoopt.library.training_exports import graph_of_job, training_program
from topoopt.simulate.llm_training.ranks import PodSetting
from topoopt.simulate.network import build_task_graph

ELSEWHERE = {
    ("astrasim", "collective"): "the smallest has links of one direction",
    ("graphml", "llm-training"): "the smallest has no links",
    ("infragraph", "collective"): "the smallest has links of one direction",
    ("kubernetes", "collective"): "the smallest has no switches",
    ("megatron", "llm-training"): "its schedule is not one of Megatron-LM",
    ("netbox-cables", "collective"): "the smallest has links of one direction",
    ("netbox-cables", "llm-training"): "the smallest has no links",
    ("netbox-cables", "topology"): "the smallest has links of one direction",
    ("ovs", "placement"): "the smallest allocates no rates",
    ("patch-list", "llm-training"): "the smallest has no links",
    ("slurm", "collective"): "the smallest has no switches",
    ("sonic-ocs", "llm-training"): "the smallest has no links",
    ("trace", "placement"): "the smallest is for throughput, whose loads have no times",
}
"""Smallest solutions that these refuse; each has round trips in the tests of its format."""

CASES = [(name, kind) for name, one in EXPORTERS.items() for kind in one.kinds if (name, kind) not in ELSEWHERE]


def _told(kind: str) -> dict[str, Any]:
    """What the command would tell an exporter of the instance."""
    problem, solution = problem_of(kind), solution_of(kind)
    if kind in ("routing", "topology"):
        return {"link_gbps": 100.0}
    if kind == "co-optimisation":
        graph = build_task_graph(problem.cluster, problem.workload, solution.plan.strategy)
        return {"task_graph": graph, "job_graph": graph_of_job(problem, solution, None, None)}
    if kind == "llm-training":
        pods = PodSetting(2, 6, 12.5)
        return {
            "program": training_program(problem, solution, None),
            "job_graph": graph_of_job(problem, solution, pods, None),
        }
    return {}


def test_every_target_has_a_reader() -> None:
    assert set(READERS) == set(EXPORTERS)


@pytest.mark.parametrize(("target", "kind"), CASES)
def test_reads_back(target: str, kind: str) -> None:
    """The smallest solution of the kind."""
    solution = solution_of(kind)
    check_written(target, EXPORTERS[target].build(solution, ExportOptions(**_told(kind))), solution)
