"""Bandwidths of hierarchical networks: one job, a fleet of twenty, a front of fifty points, thousands of designs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from formulations.hierarchical_bandwidth import plain_program
from solvers.hierarchy import best_design, front
from solvers.stop import Stop
from tests.benchmarks.figures import Figure, best_of
from tests.support.paths import INSTANCES, SHARED_DATA
from topoopt.core.hierarchy import (
    Block,
    Collective,
    CollectiveCall,
    Communicator,
    Design,
    Dimension,
    HierarchicalNetwork,
    HierarchicalProblem,
    HierarchicalWorkload,
    Layer,
    LayerPhase,
    LinearConstraint,
)
from topoopt.files.documents import Document
from topoopt.formats.libra import libra_document
from topoopt.kinds.files import read_instance
from topoopt.kinds.hierarchy.read import resolve

SHARED = SHARED_DATA / "libra"
SHIPPED = INSTANCES / "hierarchical"


def published() -> dict[str, HierarchicalProblem]:
    """The published problems where their files are, else the shipped ones of the same models."""
    if not SHARED.exists():
        names = ("gpt3-3d", "transformer-1t-4d", "resnet50-3d")
        found = {name: read_instance(SHIPPED / f"{name}.yaml") for name in names}
        return {name: one for name, one in found.items() if isinstance(one, HierarchicalProblem)}
    problems = {}
    for model in ("GPT_3", "MSFT_1T", "ResNet_50"):
        for shape in ("3d", "4d"):
            document, _ = libra_document(
                SHARED / "network" / f"{shape}_network.yml",
                SHARED / "cost_model" / f"{shape}_cost_model.yml",
                SHARED / "workload" / f"{model}.txt",
                SHARED / "communicator" / f"{model}_{shape}.yml",
                name=model,
                total_gbytes_per_s=500.0,
                objective="time",
                loop="no-overlap",
                pareto_points=0,
            )
            problems[f"{model} {shape}"] = resolve(Document("", document, lambda _: {}))
    return problems


def fleet(dimensions: int, jobs: int, seed: int = 0) -> HierarchicalProblem:
    """Random jobs on every split of the dimensions into tensor and data parallelism."""
    rng = np.random.default_rng(seed)
    shape = tuple(Dimension(f"d{k}", Block.RING, 4, f"t{k}", float(rng.uniform(1, 60))) for k in range(dimensions))
    total = LinearConstraint("total", (1.0,) * dimensions, 1000.0, 1000.0)
    workloads = []
    for number in range(jobs):
        cut = int(rng.integers(1, dimensions))
        inner = Communicator("tensor", tuple(4 if k < cut else 1 for k in range(dimensions)))
        outer = Communicator("data", tuple(1 if k < cut else 4 for k in range(dimensions)))

        def phase(kind: Collective, least: float, most: float, communicator: int) -> LayerPhase:
            own = CollectiveCall(kind, float(rng.uniform(least, most)), communicator)
            return LayerPhase(float(rng.uniform(0, 1e7)), (own,))

        layers = tuple(
            Layer(
                f"l{k}",
                phase(Collective.ALL_REDUCE, 1e8, 4e9, 0),
                phase(Collective.ALL_GATHER, 1e5, 4e7, 0),
                phase(Collective.ALL_REDUCE, 1e7, 9e8, 1),
            )
            for k in range(8)
        )
        loop = "dp-overlap" if number % 2 else "no-overlap"
        workloads.append(HierarchicalWorkload(f"job {number}", loop, (inner, outer), layers))
    network = HierarchicalNetwork("fleet", shape, (total,), 1000.0)
    return HierarchicalProblem("fleet", (Design("fleet", network, tuple(workloads)),))


def hierarchical_figures() -> list[Figure]:
    """Seconds of each, solvers loaded."""
    figures = []
    problems = published()
    for goal in ("time", "time-times-cost"):
        times, gaps = [], []
        for problem in problems.values():
            own = replace(problem, objective=goal)
            times.append(best_of(lambda own=own: best_design(own, Stop()), repeats=5))
            gaps.append(best_design(own, Stop()).optimum.gap)
        figures.append(Figure(f"slowest of {len(problems)} published problems, least {goal}", max(times), "s", 0.05))
        figures.append(Figure(f"largest gap of them, least {goal}", max(gaps), "", 1e-9))
    for goal in ("time", "time-times-cost"):
        own = replace(fleet(6, 20), objective=goal)
        seconds = best_of(lambda own=own: best_design(own, Stop()), repeats=3)
        figures.append(Figure(f"6 dimensions, 20 jobs, least {goal}", seconds, "s", 1.0))
    slowest = 0.0
    for problem in problems.values():
        plain = plain_program(problem.designs[0], problem)
        slowest = max(slowest, best_of(lambda plain=plain: list(front(plain, 50, Stop())), repeats=2))
    figures.append(Figure("front of 50 points, slowest problem", slowest, "s", 2.0))
    many = read_instance(SHIPPED / "gpt3-strategies.yaml")
    if isinstance(many, HierarchicalProblem):
        seconds = best_of(lambda: best_design(many, Stop()), repeats=1)
        figures.append(Figure(f"best of {len(many.designs)} designs", seconds, "s", 10.0))
    return figures
