"""The tables of `topoopt cost` for people."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from topoopt.analyses.costs.count import CostFigures, CostQuestion, FabricFigures
from topoopt.console.tables import TerminalTable
from topoopt.core.price_book import Bill, iterations_per_s_per_million_usd
from topoopt.costs import Counting
from topoopt.drawing.format import counted, number

COUNTING_WORDS = {Counting.PORTS: "ports in use", Counting.DEVICES: "whole devices"}
"""What of switches and panels is paid."""


def show_cost(console: Console, question: CostQuestion, figures: CostFigures) -> None:
    """Prices side by side, the bill of each fabric, optical devices, and how it was counted."""
    target, book = question.target, question.book
    head = f"{target.name + ': ' if target.name else ''}{counted(target.servers, 'server')}, "
    head += f"{counted(target.degree, 'interface')} of "
    head += f"{target.link_gbps:g} Gbit/s; prices {book.name} of {book.dated}, USD; {COUNTING_WORDS[question.counting]}"
    _line(console, head)
    _wide(console, _overview(question, figures))
    _wide(console, _bills(figures))
    if any(one.cabling for one in figures.fabrics.values()):
        _wide(console, _devices(question, figures))
    for name, one in figures.fabrics.items():
        notes = [*([one.remark] if one.remark else []), *one.bill.notes]
        notes += [one.cabling.reason] if one.cabling is not None and one.cabling.reason else []
        if one.iteration_time_s is not None:
            worth = iterations_per_s_per_million_usd(1e3 * one.iteration_time_s, one.bill.usd)
            bought = "" if worth is None else f", {number(worth)} iterations a second for a million USD"
            notes.append(f"an iteration takes {number(one.iteration_time_s)} s{bought}")
        for note in notes:
            _line(console, f"{name}: {note}")
    for reason in figures.unavailable.values():
        _line(console, f"left out: {reason}")
    missing = dict.fromkeys(part for one in figures.fabrics.values() for part in one.bill.power_missing)
    if missing:
        _line(console, f"power not in the price book, so totals are lower limits: {', '.join(missing)}")


def _line(console: Console, text: str) -> None:
    console.print(text, markup=False, soft_wrap=True, highlight=False)


def _wide(console: Console, table: TerminalTable) -> None:
    """Print a table; a file has no width that it must fit."""
    if not console.is_terminal:
        console.width = max(console.width, 180)
    console.print(table)


def _table(*columns: tuple[str, bool]) -> TerminalTable:
    table = TerminalTable()
    for name, figures in columns:
        table.add_column(name, justify="right" if figures else "left", overflow="fold")
    return table


def dollars(value: float) -> str:
    """Whole dollars, thousands separated."""
    return f"{value:,.0f}"


def watts_text(bill: Bill) -> str:
    """Power, as a lower limit where some part's is not known."""
    if bill.watts is not None:
        return f"{bill.watts:,.0f}"
    return f"> {bill.known_watts:,.0f}" if bill.known_watts else "?"


def _overview(question: CostQuestion, figures: CostFigures) -> TerminalTable:
    table = _table(
        ("fabric", False),
        ("a server", False),
        ("USD", True),
        ("a server", True),
        ("of direct connect", True),
        (f"as dear as {question.equal_to} at", True),
        ("W", True),
    )
    for name, one in figures.fabrics.items():
        bill = one.bill
        ports = f"{bill.server_ports} x {number(bill.link_gbps)} Gbit/s"
        price = (dollars(bill.usd), dollars(bill.usd_per_server), f"{one.over_direct_connect:.3f}")
        table.add_row(name, ports, *price, _equal(one), watts_text(bill))
    return table


def _equal(one: FabricFigures) -> str:
    if one.equal_gbps is None:
        return "slowest is dearer"
    return f"{one.bill.server_ports} x {number(one.equal_gbps)} Gbit/s"


def _bills(figures: CostFigures) -> TerminalTable:
    table = _table(*((name, False) for name in ("bill", "part", "for")))
    for name in ("Gbit/s", "count", "USD each", "USD", "W each"):
        table.add_column(name, justify="right")
    for name, one in figures.fabrics.items():
        for place, line in enumerate(one.bill.lines):
            table.add_row(
                Text(name if place == 0 else ""),
                line.part.replace("_", " "),
                line.where,
                "" if line.rate_gbps is None else number(line.rate_gbps),
                f"{line.count:,.10g}" if line.count == int(line.count) else f"{line.count:,.2f}",
                f"{line.unit_usd:,.2f}",
                dollars(line.usd),
                "?" if line.unit_watts is None else f"{line.unit_watts:g}",
                end_section=place == len(one.bill.lines) - 1,
            )
    return table


def _devices(question: CostQuestion, figures: CostFigures) -> TerminalTable:
    table = _table(
        ("optical devices", False),
        ("kind", False),
        *((name, True) for name in ("ports", "planes", "a plane", "in all")),
        ("circuits" if question.target.solved else "any circuits", False),
    )
    for name, one in figures.fabrics.items():
        cabling = one.cabling
        if cabling is not None:
            verdict = {True: "fit", False: "CANNOT BE CABLED", None: "not all"}[cabling.cabled]
            numbers = (cabling.ports, cabling.planes, cabling.devices_per_plane, cabling.devices)
            table.add_row(name, cabling.device, *map(str, numbers), verdict)
    return table
