"""`topoopt cost`: the command counts what networks of a cluster cost, by a price book of the user or a shipped one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from annotated_types import Ge, Le

from topoopt.core.errors import InputError, Problem
from topoopt.page import options
from topoopt.page.output import Output, say

if TYPE_CHECKING:
    from topoopt.analyses.costs.figures import CostFigures, CostQuestion
    from topoopt.core.price_book import PriceBook
    from topoopt.kinds.kind import Kind


def book_of(path: Path | None) -> PriceBook:
    """A book of the user's, or a shipped one: that of 2023 without a path. A file of such a name goes first.

    Raises:
        InputError: everything wrong with it.
    """
    from topoopt.costs import SHIPPED_BOOKS, default_price_book, shipped_price_book
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


SETTINGS: Mapping[str, Any] = {
    "equal_to": str,
    "oversubscription": Annotated[float, Ge(1.0), Le(1e3)],
    "radix": Annotated[int, Ge(2), Le(4096)],
    "tiers": Annotated[int, Ge(1), Le(3)],
    "planes": Annotated[int, Ge(1), Le(16)],
    "breakout": Annotated[int, Ge(1), Le(8)],
}


def cost(
    file: Annotated[Path | None, typer.Argument(help="Instance or solution; or give a size.")] = None,
    prices: options.Prices = None,
    fabrics: options.Fabrics = None,
    servers: options.Servers = None,
    degree: options.Degree = None,
    link_gbps: options.LinkGbps = None,
    settings: options.Settings = None,
    output_files: options.OutputOption = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Bill of materials of the cluster on every fabric: price, power, optical devices, and rates of equal cost.

    With a solution file: whether its circuits can be set on real devices, servers patched to them in order; exit code 3
    with the reason when they cannot. --output writes bills (.csv) and cost against servers (.html, .svg).

    Settings: `equal_to` (direct-connect), the fabric whose cost the others are set to, to find the rate it buys;
    `oversubscription` (2), downlinks over uplinks; `counting` (ports), ports in use, or whole devices; `radix`, ports
    of a switch, of which whole fat-trees are built, and the fabric `clos`, with its `tiers`, `planes` and `breakout`.
    """
    output = Output.choose(as_json)

    def command() -> int:
        from topoopt.analyses.costs.figures import (
            CostQuestion,
            answer,
            cabling_error,
            chosen_fabrics,
            cost_document,
            figures_of,
            show_cost,
            switches_of,
            target_of,
        )
        from topoopt.costs import Counting
        from topoopt.files.atomic import PLOTS, targets
        from topoopt.page.vega import drawable

        csv_file, plot = targets(output_files, force, (".csv",), PLOTS)
        plot = drawable(plot, output)
        types = {"counting": Counting, **SETTINGS}
        given = options.typed_settings(options.settings_of(settings, types), types)
        equal_to = given.get("equal_to", "direct-connect")
        book, target = book_of(prices), target_of(file, servers, degree, link_gbps)
        clos = switches_of(target, book, given)
        question = CostQuestion(
            target=target,
            fabrics=chosen_fabrics(fabrics, equal_to, clos=clos is not None),
            named=fabrics is not None,
            equal_to=equal_to,
            oversubscription=given.get("oversubscription", 2.0),
            counting=given.get("counting", Counting.PORTS),
            book=book,
            clos=clos,
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
            say(console, written=written.values())

        output.result(document, show, said)
        return 0

    output.run(command)


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
