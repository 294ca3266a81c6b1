"""Commands on files of kind `robust-network`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from topoopt.console.output import Output
from topoopt.core.errors import InputError, Problem
from topoopt.core.optical_devices import OPTICAL_DEVICES, delay_text
from topoopt.core.robust_network import RobustProblem, RobustSolution
from topoopt.kinds.kind import Contest, KindCommands, Wishes
from topoopt.kinds.solving import Steps, solve_and_write, summary_of

if TYPE_CHECKING:
    from topoopt.verify.laws.findings import Violation

SHOWN_STEPS = 30
METHOD = "auto"


def device_delays(problem: RobustProblem) -> tuple[float, ...]:
    """Reconfiguration delays of all devices, in steps; none where no length of a step is given."""
    if problem.step_ms is None:
        return ()
    return tuple(sorted(device.delay_ms / problem.step_ms for device in OPTICAL_DEVICES.values()))


def _solve(
    problem: RobustProblem, *, seed: int | None, time_limit_s: float | None, method: str | None, steps: bool = True
) -> RobustSolution:
    """Solve with the options of `topoopt solve`.

    Raises:
        InputError: no such method; and as `solve_robust`.
    """
    from solvers.stop import stop_on_signals
    from topoopt.kinds.network.several_demands.solve import solve_robust

    if method not in (None, METHOD):
        raise InputError([Problem("no such method for this kind", path="--method", value=method, allowed=METHOD)])
    limit = problem.time_limit_s if time_limit_s is None else time_limit_s
    chosen = problem if seed is None else replace(problem, seed=seed)
    with stop_on_signals(limit) as stop:
        return solve_robust(chosen, stop=stop, steps=steps, delays=device_delays(problem))


def solve_robust_command(problem: RobustProblem, output: Output, out: Path, wishes: Wishes) -> int:
    """Solve, check, write solution.json and report.html, show; the exit code."""
    from topoopt.kinds.network.several_demands.report import render_robust_html
    from topoopt.kinds.network.several_demands.solution_file import write_robust_solution

    return solve_and_write(
        problem, output, out, wishes, Steps(_solve, write_robust_solution, render_robust_html, _summary, _show)
    )


def _summary(solution: RobustSolution, wall_s: float, out: Path) -> dict[str, Any]:
    return summary_of(solution, wall_s, out, figures_of(solution))


def figures_of(solution: RobustSolution) -> dict[str, Any]:
    """What only this kind has, for a JSON object."""
    steps, step_ms = solution.steps, solution.step_ms
    compared: dict[str, Any] | None = None
    if steps is not None:
        compared = {
            "theta": list(steps.theta),
            "break_even_steps": steps.break_even,
            "break_even_ms": None if steps.break_even is None or step_ms is None else steps.break_even * step_ms,
            "break_even_rerouted_steps": steps.break_even_rerouted,
            "rerouted_theta": list(steps.rerouted),
            "sequences": [
                {"delay_ms": None if step_ms is None else one.delay * step_ms, **vars(one)} for one in steps.sequences
            ],
        }
    topology = solution.topology
    return {
        "servers": topology.servers,
        "degree": topology.degree,
        "links": topology.links.value,
        "routing": solution.mode.value,
        "worst_theta": solution.worst,
        "theta": list(solution.theta),
        "routing_bound": solution.routing_bound,
        "topology": topology.origin,
        "new_links_every_step": compared,
    }


def _show(console: Console, solution: RobustSolution, wall_s: float, out: Path) -> None:
    show_solution(console, solution)
    console.print(f"written: {out / 'solution.json'}, {out / 'report.html'}", soft_wrap=True, markup=False)


def show_solution(console: Console, found: RobustSolution) -> None:
    """Figures for people."""

    def say(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False, markup=False)

    say(f"{found.name}: {len(found.theta)} matrices, {found.topology.servers} servers, routing {found.mode.value}")
    say(f"worst theta {found.worst:.6f}, bound {found.bound.value:.6f} ({found.bound.proved_by}), gap {found.gap:.2%}")
    say(f"bound on this topology {found.routing_bound:.6f}; topology: {found.topology.origin}")
    steps = found.steps
    table = Table("matrix", "theta", *(["rerouted", "links of its own"] if steps is not None else []))
    for k, theta in enumerate(found.theta[:SHOWN_STEPS]):
        more = [] if steps is None else [f"{steps.rerouted[k]:.6f}", f"{steps.theta[k]:.6f}"]
        table.add_row(str(k), f"{theta:.6f}", *more)
    console.print(table)
    if len(found.theta) > SHOWN_STEPS:
        say(f"and {len(found.theta) - SHOWN_STEPS} more")
    _show_steps(console, found)
    for note in found.notes:
        say(f"note: {note}")


def _show_steps(console: Console, found: RobustSolution) -> None:
    from topoopt.kinds.network.several_demands.report import break_even_texts

    steps, step_ms = found.steps, found.step_ms
    if steps is None:
        return
    for text in break_even_texts(found):
        console.print(text, soft_wrap=True, highlight=False)
    if not steps.sequences or step_ms is None:
        return
    columns = ("delay", "one network", "rerouted", "new links every step", "best sequence", "changes")
    table = Table(*columns, title="time of all steps, in steps", title_justify="left")
    for one in steps.sequences:
        figures = (one.one_network, one.one_rerouted, one.every_step, one.best)
        table.add_row(delay_text(one.delay * step_ms), *(f"{value:.4f}" for value in figures), str(one.changes))
    console.print(table)


def check_robust_file(problem: RobustProblem, solution: Path) -> tuple[Violation, ...]:
    """Violations of a solution file, found without a solver."""
    from topoopt.kinds.network.several_demands.solution_file import read_robust_solution
    from topoopt.verify.network.robust_check import check_robust

    return check_robust(problem, read_robust_solution(solution))


def _report(solution: Path) -> str:
    from topoopt.kinds.network.several_demands.report import render_robust_html
    from topoopt.kinds.network.several_demands.solution_file import read_robust_solution

    return render_robust_html(read_robust_solution(solution))


def _run(problem: RobustProblem, wishes: Wishes) -> RobustSolution:
    return _solve(problem, seed=wishes.seed, time_limit_s=wishes.time_limit_s, method=wishes.method, steps=False)


COMMANDS = KindCommands(
    solve_robust_command, check_robust_file, _report, lambda _: [], Contest(lambda _: (METHOD,), _run)
)
