"""`topoopt cost`: what the network of a cluster costs, and what other networks cost or the same money buys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topoopt.console.output import JsonOption, Output

if TYPE_CHECKING:
    from topoopt.analyses.costs.count import CostFigures, CostQuestion

MOST_SERVERS = 1_000_000


def cost(
    file: Annotated[Path | None, typer.Argument(help="Instance or solution; or give a size.")] = None,
    prices: Annotated[
        Path | None, typer.Option(help="Price book (YAML or JSON); 2023 (default) and h200 are shipped.")
    ] = None,
    fabrics: Annotated[str | None, typer.Option(help="Names, parted by commas; default: all.")] = None,
    servers: Annotated[int | None, typer.Option(min=1, max=MOST_SERVERS, help="Number of servers n.")] = None,
    degree: Annotated[int | None, typer.Option(min=1, max=64, help="Interfaces per server d.")] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, max=1e6, help="Of an interface, Gbit/s.")] = None,
    oversubscription: Annotated[
        float, typer.Option(min=1.0, max=1e3, help="Downlinks over uplinks, of fabrics that are oversubscribed.")
    ] = 2.0,
    counting: Annotated[str, typer.Option(help="ports: those in use; devices: whole switches and panels.")] = "ports",
    equal_to: Annotated[
        str, typer.Option(help="Fabric whose cost the others are set to, to find the rate it buys.")
    ] = "direct-connect",
    csv_file: Annotated[Path | None, typer.Option("--csv", help="CSV file to write: the bills.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Plot to write: cost against servers, .html or .svg.")] = None,
    as_json: Annotated[bool, JsonOption] = False,
) -> None:
    """Bill of materials of the cluster on every fabric: price, power, optical devices, and rates of equal cost.

    With a solution file: whether its circuits can be set on real devices, servers patched to them in order; exit code 3
    with the reason when they cannot.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.costs.answer import answer
        from topoopt.analyses.costs.count import CostQuestion, cabling_error, chosen_fabrics, cost_document, figures_of
        from topoopt.analyses.costs.prices import book_of
        from topoopt.analyses.costs.table import show_cost
        from topoopt.analyses.costs.target import target_of
        from topoopt.files.atomic import require_targets

        require_targets(csv_file, plot)
        question = CostQuestion(
            target=target_of(file, servers, degree, rate),
            fabrics=chosen_fabrics(fabrics, equal_to),
            named=fabrics is not None,
            equal_to=equal_to,
            oversubscription=oversubscription,
            counting=_counting(counting),
            book=book_of(prices),
        )
        figures = figures_of(question)
        said = answer(question, figures)
        written = _write(question, figures, csv_file, plot)
        document = {**cost_document(question, figures, None if prices is None else str(prices)), **written}
        error = cabling_error(question, figures)
        if error is not None:
            if not as_json:
                show_cost(output.console, question, figures)
            return output.fail(error, document)

        def show(console: Any) -> None:
            show_cost(console, question, figures)
            for name in filter(None, written.values()):
                console.print(f"written: {name}", markup=False, soft_wrap=True, highlight=False)

        output.result(document, show, said)
        return 0

    output.run(command)


def _counting(text: str) -> Any:
    from topoopt.core.errors import InputError, Problem
    from topoopt.costs import Counting

    if text not in list(Counting):
        raise InputError([Problem("unknown counting", path="--counting", value=text, allowed=", ".join(Counting))])
    return Counting(text)


def _write(
    question: CostQuestion, figures: CostFigures, csv_file: Path | None, plot: Path | None
) -> dict[str, str | None]:
    from topoopt.analyses.costs.count import COLUMNS, bill_rows
    from topoopt.analyses.costs.plot import cost_html, cost_svg
    from topoopt.analyses.costs.sweep import cost_page
    from topoopt.files.atomic import csv_text, write_targets

    rows = ((name, *row) for name, one in figures.fabrics.items() for row in bill_rows(one.bill))
    return write_targets(
        csv_file,
        plot,
        text=lambda: csv_text(("fabric", *COLUMNS), rows),
        svg=lambda: cost_svg(cost_page(question, figures)),
        html=lambda: cost_html(cost_page(question, figures)),
    )
