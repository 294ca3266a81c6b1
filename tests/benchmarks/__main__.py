"""`make bench`: the speed figures, each beside its goal and beside a plain way of doing the same in this very run.

Goals are for one core of the machine the goals were set on; ratios travel better than times.
"""

from __future__ import annotations

import sys
from functools import partial

from rich.console import Console
from rich.table import Table

from tests.benchmarks.bench_collective_find import collective_find_figures
from tests.benchmarks.bench_collectives import collective_figures
from tests.benchmarks.bench_evaluation import evaluation_figures
from tests.benchmarks.bench_hierarchical import hierarchical_figures
from tests.benchmarks.bench_llm_training import llm_training_figures
from tests.benchmarks.bench_routing import routing_figures
from tests.benchmarks.bench_routing_goals import routing_goal_figures
from tests.benchmarks.bench_routing_hard import hard_routing_figures
from tests.benchmarks.bench_scale import GOAL_S, scale_figures
from tests.benchmarks.bench_shards import shard_figures
from tests.benchmarks.bench_shared import shared_figures
from tests.benchmarks.bench_solve import solve_figures
from tests.benchmarks.bench_step_times import step_time_figures
from tests.benchmarks.bench_studies import study_figures
from tests.benchmarks.bench_together import together_figures
from tests.benchmarks.bench_topology import topology_figures
from tests.benchmarks.bench_topology_proof import topology_proof_figures
from tests.benchmarks.records import records


def print_records(console: Console, names: list[str]) -> int:
    """Measure the rows whose names begin as one of those given, or all; a line for each figure once it is there."""
    rows = [row for row in records() if not names or row.name.startswith(tuple(names))]
    for row in rows:
        console.print(f"[bold]{row.name}[/bold]  {row.command}")
        for figure in row.measure():
            reached = "reached" if figure.reached else "MISSED"
            sign = ">=" if figure.higher_is_better else "<="
            console.print(f"  {figure.name}: {figure.value:.6g} {figure.unit} ({sign} {figure.goal:g}: {reached})")
    return 0 if rows else 2


def main(arguments: list[str]) -> int:
    """Measure all groups, or those named; print the table."""
    if arguments[:1] == ["records"]:
        return print_records(Console(soft_wrap=True), arguments[1:])
    groups = {
        "topology": topology_figures,
        "evaluation": evaluation_figures,
        "solve": solve_figures,
        "routing": routing_figures,
        "routing-goals": routing_goal_figures,
        "routing-hard": hard_routing_figures,
        "studies": study_figures,
        "hierarchical": hierarchical_figures,
        "shared": shared_figures,
        "shards": shard_figures,
        "together": together_figures,
        "collectives": collective_figures,
        "llm-training": llm_training_figures,
        "collective-find": collective_find_figures,
    }
    # Minutes each, the first a solve of each model: only when asked for.
    large = {f"scale-{n}": partial(scale_figures, n) for n in GOAL_S}
    large["topology-proof"] = topology_proof_figures
    large["step-times"] = step_time_figures
    usual, groups = list(groups), {**groups, **large}
    console = Console()
    table = Table("figure", "measured", "goal", "reached", "plain way", "ratio")
    for name in arguments or usual:
        if name not in groups:
            console.print(f"unknown group {name!r}; there are {', '.join(groups)}")
            return 2
        with console.status(f"measuring {name} ..."):
            figures = groups[name]()
        for figure in figures:
            plain = "-" if figure.plain is None else f"{figure.plain:.4g} {figure.unit}"
            ratio = "-" if figure.plain is None or figure.value == 0 else f"{figure.plain / figure.value:.3g}x"
            table.add_row(
                figure.name,
                f"{figure.value:.4g} {figure.unit}",
                f"{'>=' if figure.higher_is_better else '<='} {figure.goal:g} {figure.unit}",
                "yes" if figure.reached else "NO",
                plain,
                ratio,
            )
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
