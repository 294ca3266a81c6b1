"""Jobs as graphs of tasks and transfers: volumes by hand, the pipeline without transfers, what is refused."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cli_cases import run
from tests.support.llm_cases import strategy, training
from tests.support.paths import INSTANCES
from topoopt.core.dag_topology import DagTopologyProblem
from topoopt.core.errors import InputError
from topoopt.core.parallelism import ParallelStrategy
from topoopt.kinds.files import read_instance
from topoopt.kinds.job import SOLUTION_FILE
from topoopt.simulate.llm_training.ranks import PodSetting, TrainingProgram, pod_graph
from topoopt.simulate.llm_training.step import optimizer_s
from topoopt.workloads.language_models import end_weights

SMALL = INSTANCES / "llm-training" / "small-16.yaml"


def graph(one: ParallelStrategy, gpus: int, model: str = "gpt3-175b", **parts: int) -> DagTopologyProblem:
    """A job of 64 GPUs and 32 sequences of 2048 tokens in pods."""
    problem = training(model, 64, 32, 2048)
    return pod_graph(problem, TrainingProgram(problem, one), PodSetting(gpus, **parts))


def volumes(job: DagTopologyProblem, word: str) -> Counter[tuple[int, int]]:
    """Bytes by (source, target) of the transfers whose names begin with a word."""
    found: Counter[tuple[int, int]] = Counter()
    for move in job.transfers:
        if move.name.startswith(word):
            found[move.source, move.target] += move.volume
    return found


def test_pods_of_a_pipeline() -> None:
    """Two stages, four replicas, pods of 16: activations of all ranks, gradients round a ring of two pods.

    A rank of a tensor group of 8 with sequence parallelism sends an eighth of s h 2 bytes to the next stage; a pod has
    two replicas, which reduce inside it, and sends the gradients of all its 8 parts once to the other.
    """
    job = graph(strategy(tensor=8, sequence=True, pipeline=2, data=4), 16)
    assert (job.pods, job.ports, job.pairs) == (4, (16,) * 4, ((0, 1), (0, 2), (1, 3), (2, 3)))
    activations = 8 * 2048 * 12288 * 2 / 8 * 2
    sent = {(0, 2): 8 * activations, (1, 3): 8 * activations}
    assert volumes(job, "activations") == pytest.approx(sent)
    assert volumes(job, "errors") == pytest.approx({ends[::-1]: size for ends, size in sent.items()})
    model = training("gpt3-175b", 64, 32, 2048).model
    embedding, head = end_weights(model)
    whole = 6 * 12288  # norms, and biases behind a sum
    of_layer = (12 * 12288**2 + 7 * 12288) / 8 + whole
    vocabulary = model.vocabulary * model.hidden  # learned positions and the last norm stand on every rank, too
    stages = [48 * of_layer + vocabulary / 8 + (embedding - vocabulary), 48 * of_layer + vocabulary / 8 + head]
    gradients = {(0, 1): 0, (1, 0): 0, (2, 3): 1, (3, 2): 1}
    expected = {ends: 8 * 4 * stages[stage] for ends, stage in gradients.items()}
    assert volumes(job, "gradients") == pytest.approx(expected, rel=1e-6)


def test_rings_of_four_pods() -> None:
    """2 (m-1)/m of the gradients of a pod, half each way; ZeRO 1 halves them and gathers weights of 2 bytes as well."""
    plain, shared = (graph(strategy(tensor=8, pipeline=2, data=4, zero=zero), 8) for zero in (0, 1))
    whole = graph(strategy(tensor=8, pipeline=2, data=4), 16)
    gradients = volumes(whole, "gradients")[0, 1]
    around = [(a, b) for a, b in itertools.permutations(range(4), 2) if abs(a - b) in (1, 3)]
    assert {ends: volumes(plain, "gradients")[ends] for ends in around} == pytest.approx(
        dict.fromkeys(around, 0.75 * gradients), rel=1e-6
    )
    assert volumes(shared, "gradients")[0, 1] == pytest.approx(0.375 * gradients, rel=1e-6)
    assert volumes(shared, "weights")[0, 1] == pytest.approx(0.375 * gradients / 2, rel=1e-6)


def test_without_transfers_it_is_the_pipeline() -> None:
    """(p - 1 + m) passes of 1F1B where stages are alike, and the step of the optimizer."""
    one = strategy(tensor=8, pipeline=4, data=2)
    problem = training("gpt3-175b", 64, 32, 2048)
    job = graph(one, 8)
    durations = {task.name: task.duration for task in job.tasks}
    slowest = max(durations[f"forward 0.{k} pod {2 * k}"] + durations[f"backward 0.{k} pod {2 * k}"] for k in range(4))
    step = optimizer_s(problem, one, TrainingProgram(problem, one).costs.stages)
    assert job.compute_time == pytest.approx(19 * slowest + step, rel=0.03)
    assert job.compute_time <= 19 * slowest + step


def test_experts_beyond_a_pod() -> None:
    """Eight experts over two pods: half of the tokens of each pod go to the other, there and back, top 2."""
    one = strategy(tensor=1, pipeline=8, data=8, expert=8)
    job = graph(one, 4, "mixtral-8x22b")
    token = 2048 * 6144 * 2 * 2
    per_pass = 7 * token * 2 * 4 / 2
    assert volumes(job, "tokens forward")[0, 1] == pytest.approx(4 * per_pass, rel=1e-6)
    assert not volumes(job, "gradients 0 experts")
    assert set(volumes(graph(one, 8, "mixtral-8x22b"), "tokens")) == set()


def test_what_pods_may_not_be() -> None:
    """Split groups, parts of a stage, one pod for all; ports that are no whole number."""
    one = strategy(tensor=8, context=2, pipeline=2, data=2)
    for gpus, words in (
        (8, "split a tensor or context group .value: 8.; allowed: multiples of 16"),
        (48, "do not divide the GPUs of a stage"),
    ):
        with pytest.raises(InputError, match=words):
            graph(one, gpus)
    with pytest.raises(InputError, match="one pod holds the whole job"):
        graph(strategy(tensor=8, data=8), 64)
    problem = training("gpt3-175b", 64, 32, 2048)
    odd = replace(problem, cluster=replace(problem.cluster, degree=3))
    program = TrainingProgram(odd, strategy(tensor=4, pipeline=2, data=8))
    with pytest.raises(InputError, match="not a whole number of interfaces"):
        pod_graph(odd, program, PodSetting(4))


def test_written_and_solved(tmp_path: Path) -> None:
    """From the command line: the file reads as what was made; ports and rates as asked for."""
    run("solve", SMALL, "--output", tmp_path / "plan")
    solution = tmp_path / "plan" / "solution.json"
    words = ("export", solution, "--to", "dag")
    assert "--set pod_gpus: needed" in run(*words).stderr
    assert "--set pod_gpus: needed" in run(*words).stderr
    said = run(
        *words,
        "--set",
        "pod_gpus=2,pod_ports=6,circuit_gbps=12.5",
        "-o",
        tmp_path / "x.json",
        "--json",
    )
    assert said.code == 0
    job = read_instance(tmp_path / "x.json")
    assert (set(job.ports), job.rate, job.time_unit) == ({6}, 12.5e9 / 8, "s")
    solved = run("solve", tmp_path / "x.json", "--method", "equal", "--output", tmp_path, "--json").json
    assert solved["makespan"] >= job.compute_time


def test_jobs_of_operators(tmp_path: Path) -> None:
    """Servers are pods: transfers as the demand of the plan has them, AllReduces round the ring of their group."""
    instance = INSTANCES / "tiny-4.yaml"
    run("solve", instance, "--output", tmp_path, "--method", "data-parallel")
    said = run("export", tmp_path / "solution.json", "--to", "dag", "-o", tmp_path / "x.json")
    assert said.code == 0
    job = read_instance(tmp_path / "x.json")
    assert (job.pods, job.ports) == (4, (2,) * 4)
    demand = SOLUTION_FILE.read(tmp_path / "solution.json").figures.demand
    for server in range(4):
        groups = [group for group in demand.allreduce if server in group.members]
        reduced = sum(2 * (1 - 1 / len(group.members)) * group.payload_bytes for group in groups)
        sent = sum(move.volume for move in job.transfers if move.source == server)
        assert sent == pytest.approx(demand.model_parallel_bytes[server].sum() + reduced)
