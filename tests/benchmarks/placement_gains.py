"""What compaction and bandwidth allocation gain at equal total time, as a Markdown table. Not a test: run by hand.

    python -m tests.benchmarks.placement_gains --seconds 4 --seeds 3

Each figure is the median makespan over the seeds, ms, with its spread; every run has the same time limit, one thread.
Compaction: `anneal` on the raw graph against `compact` (fuse, solve, expand, polish), both with fair sharing.
Bandwidth: placement by annealing under each kind of sharing; uniform and allocated rates are static.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import replace

from tests.support.paths import INSTANCES
from topoopt.core.placement import Device, Latency, Link, PlacementProblem, Server
from topoopt.kinds.files import read_instance
from topoopt.kinds.kind import SolveOptions
from topoopt.kinds.pipeline import solve
from topoopt.workloads.models import branchy_graph

FILES = (
    ("gnmt inference, k=6", "latency-gnmt-inference"),
    ("BERT-3 inference, k=4", "latency-bert-3-inference"),
    ("BERT-3 training, k=3", "latency-bert-3-training"),
)
GENERATED = (
    ("MoE training, k=4", "moe", 6, 8),
    ("blocks of branches training, k=4", "inception", 8, 5),
    ("random layers training, k=4", "layered", 12, 10),
)
GENERATED_GBPS = 40.0


def from_file(label: str, name: str) -> PlacementProblem:
    """A shipped graph of the public set, on accelerators only."""
    found = read_instance(INSTANCES / "published" / f"{name}.json")
    assert isinstance(found, PlacementProblem)
    return replace(found, name=label)


def generated(label: str, family: str, layers: int, branches: int) -> PlacementProblem:
    """A branchy graph on four servers of one device and one link."""
    operators, tensors = branchy_graph(family, layers, branches, 1, training=True)
    return PlacementProblem(
        label,
        ("gpu",),
        operators,
        tensors,
        tuple(Server(f"s{i}", (Link("eth0", GENERATED_GBPS),)) for i in range(4)),
        tuple(Device(f"d{i}", i, 0) for i in range(4)),
        Latency(),
    )


def problems() -> Iterator[PlacementProblem]:
    """Three graphs of the public set, three generated ones."""
    for label, name in FILES:
        yield from_file(label, name)
    for arguments in GENERATED:
        yield generated(*arguments)


RUNS = {
    "fair": ("anneal", Latency("fair")),
    "fair, compact": ("compact", Latency("fair")),
    "FIFO": ("anneal", Latency("fifo")),
    "uniform static": ("anneal", Latency("static", "uniform")),
    "allocated static": ("anneal", Latency("static", "optimised")),
}


def change(value: float, base: float) -> str:
    """Relative to a baseline."""
    return f"{100 * (value / base - 1):+.1f} %"


def main() -> None:
    """Run all and print rows as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print("| graph | operators |", " | ".join(RUNS), "| compaction | allocated against uniform / fair / FIFO |")
    print("|---" * (len(RUNS) + 4) + "|")
    for problem in problems():
        medians, cells = {}, []
        for name, (method, objective) in RUNS.items():
            values = []
            for seed in range(options.seeds):
                asked = SolveOptions(seed=seed, time_limit_s=options.seconds, method=method)
                solution = solve(
                    replace(problem, objective=objective),
                    asked,
                )
                assert solution.check.ok, solution.check.violations
                values.append(solution.objective.value)
            medians[name] = statistics.median(values)
            cells.append(f"{medians[name]:.2f} ({min(values):.2f}-{max(values):.2f})")
        allocated = medians["allocated static"]
        against = " / ".join(change(allocated, medians[name]) for name in ("uniform static", "fair", "FIFO"))
        compaction = change(medians["fair, compact"], medians["fair"])
        row = [problem.name, str(len(problem.operators)), *cells, compaction, against]
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
