"""What the terminal and `--json` show of one network for several demands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from topoopt.core.optical_devices import delay_text
from topoopt.core.robust_network import RobustProblem, RobustSolution
from topoopt.kinds.kind import Pages
from topoopt.kinds.network.several_demands.report import break_even_texts, render_robust_html

if TYPE_CHECKING:
    pass

SHOWN_STEPS = 30


def figures(problem: RobustProblem | None, solution: RobustSolution) -> dict[str, Any]:
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


def show(console: Console, found: RobustSolution, wall_s: float = 0.0) -> None:
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


def _show_steps(console: Console, found: RobustSolution) -> None:
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


PAGES = Pages(render_robust_html, figures, show)
