"""The report of a solution of kind `robust-network`: one HTML file that needs nothing else."""

from __future__ import annotations

from topoopt.core.optical_devices import delay_text
from topoopt.core.robust_network import RobustMode, RobustSolution
from topoopt.core.verdict import Status
from topoopt.drawing.format import counted, number, percent
from topoopt.drawing.page import Card, check_card, render_page, run_rows

TEMPLATE = "kinds/network/several_demands/robust_page.html.j2"
SHOWN_ARCS = 2000


def break_even_texts(solution: RobustSolution) -> tuple[str, ...]:
    """When links set anew for every matrix would pay; empty without a comparison."""
    steps, step_ms = solution.steps, solution.step_ms
    if steps is None:
        return ()
    if steps.break_even is None or steps.break_even_rerouted is None:
        return ("no step wants other links than the one before: setting them anew never pays",)
    here, rerouted = (
        f"{delay:.4g} steps" if step_ms is None else delay_text(delay * step_ms)
        for delay in (steps.break_even, steps.break_even_rerouted)
    )
    texts = [f"new links at every step pay when reconfiguring takes less than {here}"]
    if solution.mode is RobustMode.COMMON:
        texts.append(f"against new routes alone: less than {rerouted}")
    return tuple(texts)


def render_robust_html(solution: RobustSolution) -> str:
    """The whole report as one HTML page; names are escaped. Same solution, same bytes."""
    topology, steps, step_ms = solution.topology, solution.steps, solution.step_ms
    matrices = "1 matrix" if len(solution.theta) == 1 else f"{len(solution.theta):,} matrices"
    proof = f"worst theta ≥ {number(solution.bound.value)}, proved by: {solution.bound.proved_by}"
    cards = (
        Card("worst theta", number(solution.worst), f"status: {solution.status.value}", "main"),
        Card("mean theta", number(sum(solution.theta) / len(solution.theta)), matrices),
        Card(
            "gap to the lower bound",
            percent(solution.gap),
            proof,
            "good" if solution.status is Status.OPTIMAL else "",
        ),
        check_card(solution.check),
    )
    columns = [solution.theta] if steps is None else [solution.theta, steps.rerouted, steps.theta]
    sequences = () if steps is None else steps.sequences
    arcs = [
        f"{tail} → {head}" + (f" × {count}" if count > 1 else "")
        for (tail, head), count in zip(topology.arcs.tolist(), topology.multiplicity.tolist(), strict=True)
    ]
    return render_page(
        TEMPLATE,
        solution.check,
        solution=solution,
        subtitle=f"{counted(topology.servers, 'server')} of degree {topology.degree} · one network for "
        f"{matrices} · routing {solution.mode.value}",
        verdict=cards,
        comparisons=(),
        compared=steps is not None,
        matrices=[(str(k), *map(number, row)) for k, row in enumerate(zip(*columns, strict=True))],
        verdicts=break_even_texts(solution),
        sequences=[
            (
                f"{one.delay:.4g} steps" if step_ms is None else delay_text(one.delay * step_ms),
                *map(number, (one.one_network, one.one_rerouted, one.every_step, one.best)),
                str(one.changes),
            )
            for one in sequences
        ],
        arcs=arcs[:SHOWN_ARCS],
        hidden_arcs=max(0, len(arcs) - SHOWN_ARCS),
        provenance=(
            *run_rows(solution),
            ("lower bound", f"{solution.bound.value!r}, proved by: {solution.bound.proved_by}"),
            ("bound of this topology", f"{solution.routing_bound!r}"),
            ("topology", topology.origin or "not recorded"),
            ("check again, without a solver", "topoopt check INSTANCE solution.json"),
            ("versions", ", ".join(f"{name} {version}" for name, version in solution.versions) or "not recorded"),
        ),
    )
