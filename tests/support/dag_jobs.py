"""Jobs as graphs of transfers and tasks: pipelines in 1F1B order, and small random ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from topoopt.core.dag_topology import DagTask, DagTopologyProblem, DagTransfer

Named = dict[str, tuple[tuple[int, int, float] | float, list[str]]]


def problem(steps: Named, pods: int, ports: int | tuple[int, ...], slack_percent: float = 0.0) -> DagTopologyProblem:
    """Of (source, target, volume) or a duration, and names of what it waits for; a circuit carries 1."""
    moves = {name: step for name, step in steps.items() if isinstance(step[0], tuple)}
    tasks = {name: step for name, step in steps.items() if not isinstance(step[0], tuple)}
    number = {name: k for k, name in enumerate((*moves, *tasks))}

    def before(names: list[str]) -> tuple[int, ...]:
        return tuple(number[name] for name in names)

    return DagTopologyProblem(
        name="job",
        pods=pods,
        ports=(ports,) * pods if isinstance(ports, int) else ports,
        rate=1.0,
        transfers=tuple(DagTransfer(name, *what, before(after)) for name, (what, after) in moves.items()),
        tasks=tuple(DagTask(name, what, before(after)) for name, (what, after) in tasks.items()),
        slack_percent=slack_percent,
    )


def pipeline(stages: int, replicas: int, micro_batches: int, gradients: float, ports: int) -> DagTopologyProblem:
    """1F1B on pods `stage * replicas + replica`: forward 1, backward 2, activations 1, gradients between replicas."""
    steps: Named = {}
    for replica, stage in itertools.product(range(replicas), range(stages)):
        pod, previous = stage * replicas + replica, ""
        for kind, i in one_f_one_b(stages - stage - 1, micro_batches):
            after = [previous] if previous else []
            ahead = stage - 1 if kind == "F" else stage + 1
            if 0 <= ahead < stages:
                after.append(f"{kind.lower()}{i}.{ahead}.{replica}")
            previous = f"{kind}{i}.{stage}.{replica}"
            steps[previous] = (1.0 if kind == "F" else 2.0, after)
            behind = stage + 1 if kind == "F" else stage - 1
            if 0 <= behind < stages:
                sent = (pod, behind * replicas + replica, 1.0)
                steps[f"{kind.lower()}{i}.{stage}.{replica}"] = (sent, [previous])
        for other in range(replicas):
            if other != replica:
                steps[f"g{stage}.{replica}.{other}"] = ((pod, stage * replicas + other, gradients), [previous])
    return problem(steps, stages * replicas, ports)


def one_f_one_b(ahead: int, micro_batches: int) -> Iterator[tuple[str, int]]:
    """Passes of a stage: some forward ones ahead, then forward and backward in turn."""
    forward = 0
    for backward in range(micro_batches):
        while forward < min(micro_batches, backward + ahead + 1):
            yield "F", forward
            forward += 1
        yield "B", backward


def drawn(rng: np.random.Generator) -> DagTopologyProblem:
    """Few pods, up to eight transfers and as many tasks, each after some of those before."""
    pods = int(rng.integers(2, 5))
    steps: Named = {}
    for k in range(int(rng.integers(2, 9))):
        source, target = rng.choice(pods, 2, replace=False).tolist()
        volume = float(rng.integers(1, 9)) / 2
        steps[f"m{k}"] = ((source, target, volume), some(rng, list(steps)))
        if rng.random() < 0.7:
            steps[f"c{k}"] = (float(rng.integers(0, 6)) / 2, some(rng, list(steps)))
    plain = problem(steps, pods, pods)
    degree = np.bincount(np.array(plain.pairs).ravel(), minlength=pods)
    ports = tuple(int(max(1, count) + rng.integers(0, 4)) for count in degree)
    return problem(steps, pods, ports)


def some(rng: np.random.Generator, names: list[str]) -> list[str]:
    """Up to two of them."""
    count = min(len(names), int(rng.integers(0, 3)))
    return [names[k] for k in rng.choice(len(names), count, replace=False)] if count else []


def choices(job: DagTopologyProblem) -> Iterator[tuple[int, ...]]:
    """All circuits that the ports allow, at least one a pair."""
    ranges = [range(1, min(job.ports[a], job.ports[b]) + 1) for a, b in job.pairs]
    for counts in itertools.product(*ranges):
        used = np.zeros(job.pods, dtype=int)
        np.add.at(used, np.array(job.pairs).ravel(), np.repeat(counts, 2))
        if (used <= job.ports).all():
            yield counts
