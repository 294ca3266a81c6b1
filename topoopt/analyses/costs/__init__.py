"""`topoopt cost`: the command counts what networks of a cluster cost, by a price book of the user or a shipped one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topoopt.core.errors import InputError, Problem
from topoopt.page.output import JsonOption, Output

if TYPE_CHECKING:
    from topoopt.analyses.costs.figures import CostFigures, CostQuestion
    from topoopt.core.price_book import PriceBook
    from topoopt.kinds.kind import Kind


def book_of(path: Path | None) -> PriceBook:
    """A book of the user's, or a shipped one: that of 2023 without a path. A file of such a name goes first.

    Raises:
        InputError: everything wrong with it.
    """
    from topoopt.costs.bills import SHIPPED_BOOKS, default_price_book, shipped_price_book
    from topoopt.files.price_book_file import read_price_book

    if path is None:
        return default_price_book()
    if str(path) in SHIPPED_BOOKS and not path.exists():
        return shipped_price_book(str(path))
    return read_price_book(path)


def given_book(path: Path | None, kinds: Sequence[Kind]) -> PriceBook | None:
    """The user's book, None if there is none.

    Args:
        path: of the option.
        kinds: those at hand.

    Raises:
        InputError: everything wrong with it, or no kind that prices mean something to.
    """
    if path is None:
        return None
    if not any(kind.takes_prices for kind in kinds):
        named = ", ".join(kind.name for kind in kinds)
        text = f"networks of kind {named} are not priced by a price book"
        raise InputError([Problem(text, path="--prices", value=str(path), allowed="kind co-optimisation")])
    return book_of(path)


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
        nonlocal plot
        from topoopt.analyses.costs.figures import (
            CostQuestion,
            answer,
            cabling_error,
            chosen_fabrics,
            cost_document,
            figures_of,
            show_cost,
            target_of,
        )
        from topoopt.files.atomic import require_targets
        from topoopt.page.vega import drawable

        require_targets(csv_file, plot)
        plot = drawable(plot, output)
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
    from topoopt.analyses.costs.figures import COLUMNS, bill_rows, cost_html, cost_svg
    from topoopt.files.atomic import csv_text, write_targets

    rows = ((name, *row) for name, fabric in figures.fabrics.items() for row in bill_rows(fabric.bill))
    return write_targets(
        csv_file,
        plot,
        text=lambda: csv_text(("fabric", *COLUMNS), rows),
        svg=lambda: cost_svg(question),
        html=lambda: cost_html(question, figures),
    )
