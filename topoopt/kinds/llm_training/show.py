"""What the terminal and `--json` show of a language model in training."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape

from topoopt.console.solution_tables import show_figures
from topoopt.console.tables import TerminalTable
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.llm_training_solution import LlmTrainingSolution
from topoopt.core.units import GIB
from topoopt.drawing.format import number
from topoopt.kinds.kind import Pages
from topoopt.kinds.llm_training.answer import answer
from topoopt.kinds.llm_training.pods_words import pods_figures, pods_rows
from topoopt.kinds.llm_training.report import network_rows, render_llm_training
from topoopt.kinds.llm_training.words import (
    NAMES,
    aside,
    differences,
    exposed,
    fabric_name,
    gib,
    proof_words,
    rails_rows,
    seconds,
    strategy_words,
    switching_s,
    why_slower,
)


def figures(problem: LlmTrainingProblem | None, solution: LlmTrainingSolution) -> dict[str, Any]:
    """Keys of this kind in the JSON object of a solve."""
    best, memory = solution.best[0], asdict(solution.memory)
    searched = [line for line in solution.shapes if line.records]
    return {
        "iteration_time_s": solution.objective.value,
        "fabric": solution.plan.network.fabric,
        "strategy": asdict(solution.plan.strategy),
        "breakdown_s": {**asdict(solution.breakdown), **switching_s(solution)},
        **rails_figures(solution),
        **pods_figures(solution),
        "memory_gib": {**{name: value / GIB for name, value in memory.items()}, "total": solution.memory.total / GIB},
        "mfu": solution.mfu,
        "tflops_per_gpu": solution.flops_per_gpu / 1e12,
        "tokens_per_s_per_gpu": solution.tokens_per_s_per_gpu,
        "sent_bytes": dict(solution.sent_bytes),
        "passes_s": solution.stages.makespan_s,
        "degree_split": {family.value: count for family, count in solution.plan.network.degree_split},
        "exposed": [asdict(load) for load in solution.plan.network.loads],
        "records": sum(line.records for line in searched),
        "fitting": sum(line.fitting for line in searched),
        "shapes": {name: solution.counted(name) for name in sorted({line.verdict for line in solution.shapes})},
        "next": [
            {
                "iteration_time_s": one.iteration_time_s,
                "memory_gib": one.memory.total / GIB,
                "slower_percent": 100.0 * (one.iteration_time_s / best.iteration_time_s - 1.0),
                "differs": differences(best.strategy, one.strategy),
                "slower_by": why_slower(best, one),
            }
            for one in solution.best[1:]
        ],
        "fabrics": [
            {
                "fabric": one.fabric,
                "iteration_time_s": one.iteration_time_s,
                "memory_gib": one.memory.total / GIB,
                "strategy": strategy_words(one.plan.strategy),
                "bound_s": bound_s,
                "allreduce": {load.dimension.value: load.method for load in one.plan.network.loads if load.method},
                "note": one.note,
            }
            for one, bound_s in zip(solution.fabrics, solution.fabric_bounds_s, strict=True)
        ],
    }


def rails_figures(solution: LlmTrainingSolution) -> dict[str, Any]:
    """Of a plan on rails; empty on other fabrics."""
    rails = solution.fabrics[0].rails
    if rails is None:
        return {}
    return {
        "switching": {
            "mode": rails.mode,
            "delay_s": rails.delay_s,
            "electrical_s": solution.breakdown.total,
            "one_shot_s": rails.one_shot_s,
            "stall_s": rails.stall_s,
            "ports": [asdict(one) for one in rails.stages],
            "strategies_tried": solution.fabrics[0].tried,
        }
    }


def show(console: Console, solution: LlmTrainingSolution, wall_s: float) -> None:
    """The figures, and what comes next."""
    usable = solution.setting.usable_bytes
    limit = "not checked" if usable is None else f"of {gib(usable)}"
    parts = asdict(solution.breakdown)
    rows = (
        ("iteration", seconds(solution.objective.value)),
        *((f"  {NAMES[name]}", seconds(value)) for name, value in parts.items() if value > 0),
        *rails_rows(solution),
        *pods_rows(solution),
        *network_rows(solution),
        ("passes in their order", seconds(solution.stages.makespan_s)),
        ("memory of the fullest GPU", f"{gib(solution.memory.total)} {limit}"),
        (f"most exposed{aside(solution)}", exposed(solution)),
        ("TFLOP/s a GPU", f"{number(solution.flops_per_gpu / 1e12)} ({number(100 * solution.mfu)} % of the peak)"),
        ("tokens/s a GPU", number(solution.tokens_per_s_per_gpu)),
        ("bound", f"{solution.bound.value:.9g} s ({solution.bound.proved_by})"),
        ("proof", proof_words(solution)),
    )
    show_figures(console, solution, wall_s, rows, title=f"{solution.setting.model}, {solution.status}")
    if len(solution.best) > 1:
        console.print(_next(solution))
    if len(solution.fabrics) > 1:
        console.print(_fabrics(solution))


def _next(solution: LlmTrainingSolution) -> TerminalTable:
    """The next best strategies, and why they are slower."""
    best = solution.best[0]
    table = TerminalTable(title=f"the next best on {fabric_name(solution.fabrics[0].fabric)}")
    for name in ("slower", "memory", "differs in", "by"):
        table.add_column(name, justify="right" if name in ("slower", "memory") else "left")
    for one in solution.best[1:]:
        slower = 100.0 * (one.iteration_time_s / best.iteration_time_s - 1.0)
        differs = differences(best.strategy, one.strategy)
        table.add_row(f"{number(slower)} %", gib(one.memory.total), escape(differs), escape(why_slower(best, one)))
    return table


def _fabrics(solution: LlmTrainingSolution) -> TerminalTable:
    """The best of every fabric beside the plan."""
    table = TerminalTable(title="time by fabric")
    for name in ("fabric", "iteration", "over the plan", "bound", "strategy"):
        table.add_column(name, justify="left" if name in ("fabric", "strategy") else "right")
    for one, bound_s in zip(solution.fabrics, solution.fabric_bounds_s, strict=True):
        ratio = number(one.iteration_time_s / solution.objective.value)
        times = seconds(one.iteration_time_s), ratio, seconds(bound_s)
        table.add_row(one.fabric, *times, escape(strategy_words(one.plan.strategy)))
    return table


PAGES = Pages(render_llm_training, figures, show, answer)
