"""The figures of `topoopt cost`: bills of all fabrics asked for, rates of equal cost, devices and cabling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from topoopt.analyses.costs.target import Target
from topoopt.core.errors import InfeasibleError, InputError, Problem
from topoopt.core.price_book import Bill, PriceBook, iterations_per_s_per_million_usd
from topoopt.costs import DIRECT_CONNECT, FABRIC_COSTS, Counting, NetworkSize
from topoopt.costs.bills import bill_of, equal_cost_gbps, port_gbps
from topoopt.costs.cabling import Cabling, cabling_of
from topoopt.files.faults import nearest_text, value_text


@dataclass(frozen=True, eq=False)
class CostQuestion:
    """What is asked.

    Attributes:
        target: the cluster.
        fabrics: names, in order.
        named: whether the user chose them.
        equal_to: fabric whose cost the others are set to.
        oversubscription: of oversubscribed fabrics.
        counting: what of a switch is paid.
        book: prices.
    """

    target: Target
    fabrics: tuple[str, ...]
    named: bool
    equal_to: str
    oversubscription: float
    counting: Counting
    book: PriceBook


@dataclass(frozen=True, eq=False)
class FabricFigures:
    """One fabric.

    Attributes:
        bill: its parts.
        remark: on its rate; None if there is nothing to say.
        over_direct_connect: its price over that of direct connect.
        equal_gbps: rate of a server's port at which it costs as much as the reference; None: its slowest port costs
            more.
        cabling: of its optical devices; None: it has none.
        iteration_time_s: of a language model in training on it; None: not solved there.
    """

    bill: Bill
    remark: str | None
    over_direct_connect: float
    equal_gbps: float | None
    cabling: Cabling | None
    iteration_time_s: float | None = None


@dataclass(frozen=True, eq=False)
class CostFigures:
    """All fabrics that exist for the cluster, and why the others do not."""

    fabrics: dict[str, FabricFigures]
    unavailable: dict[str, str]


def chosen_fabrics(names: str | None, equal_to: str) -> tuple[str, ...]:
    """Fabrics by name, all by default.

    Raises:
        InputError: names that no counting rule has, also of the reference.
    """
    listed = tuple(FABRIC_COSTS) if names is None else tuple(dict.fromkeys(part.strip() for part in names.split(",")))
    wrong = [("--fabrics", name) for name in listed if name not in FABRIC_COSTS]
    wrong += [("--equal-to", equal_to)] if equal_to not in FABRIC_COSTS else []
    if wrong:
        raise InputError(
            [
                Problem("no such fabric", path=option, value=value_text(name), allowed=nearest_text(name, FABRIC_COSTS))
                for option, name in wrong
            ]
        )
    return listed


def figures_of(question: CostQuestion) -> CostFigures:
    """Count every fabric.

    Raises:
        InputError: a fabric that the user named, or the reference, does not exist for the cluster.
    """
    target, book, counting = question.target, question.book, question.counting
    size = NetworkSize(
        target.servers, target.degree, question.oversubscription, target.optical_interfaces, target.rail_ports
    )

    def bill(fabric: str) -> tuple[Bill, str | None]:
        gbps, remark = port_gbps(fabric, size, target.link_gbps, book, counting)
        return bill_of(fabric, size, gbps, book, counting), remark

    direct, reference = bill(DIRECT_CONNECT)[0].usd, bill(question.equal_to)[0].usd
    found: dict[str, FabricFigures] = {}
    unavailable: dict[str, str] = {}
    problems: list[Problem] = []
    for fabric in question.fabrics:
        try:
            own, remark = bill(fabric)
        except InputError as error:
            unavailable[fabric] = str(error)
            problems += error.problems
            continue
        equal = equal_cost_gbps(fabric, size, reference, book, counting)
        over = own.usd / direct if direct else 1.0
        seconds = target.iterations_s.get(fabric)
        found[fabric] = FabricFigures(own, remark, over, equal, _cabling(question, fabric), seconds)
    if problems and question.named:
        raise InputError(problems)
    return CostFigures(found, unavailable)


def _cabling(question: CostQuestion, fabric: str) -> Cabling | None:
    entry = FABRIC_COSTS[fabric]
    device = None if entry.optical_part is None else question.book.device(entry.optical_part)
    if device is None:
        return None
    target = question.target
    return cabling_of(device, target.servers, entry.planes * target.degree, target.switches)


def cabling_error(question: CostQuestion, figures: CostFigures) -> InfeasibleError | None:
    """Why the circuits of a solution cannot be set: on any fabric the user named, else on all that have devices."""
    known = {name: one.cabling for name, one in figures.fabrics.items() if one.cabling is not None}
    bad = {name: cabling for name, cabling in known.items() if cabling.cabled is False}
    if not bad or (not question.named and len(bad) < len(known)):
        return None
    return InfeasibleError("\n".join(f"{name} cannot be cabled: {one.reason}" for name, one in bad.items()))


def cost_document(question: CostQuestion, figures: CostFigures, book_file: str | None) -> dict[str, Any]:
    """The JSON object."""
    target, book = question.target, question.book
    only = _figures(next(iter(figures.fabrics.values()))) if len(figures.fabrics) == 1 else {}
    return {
        "kind": "cost",
        "name": target.name,
        "servers": target.servers,
        "degree": target.degree,
        "link_gbps": target.link_gbps,
        **only,
        "oversubscription": question.oversubscription,
        "counting": question.counting.value,
        "equal_to": question.equal_to,
        "book": {
            "name": book.name,
            "dated": book.dated,
            "currency": "USD",
            "sha256": book.sha256,
            "file": book_file,
        },
        "fabrics": {name: _fabric(one) for name, one in figures.fabrics.items()},
        "unavailable": figures.unavailable,
    }


def _figures(figures: FabricFigures) -> dict[str, Any]:
    """What is told of each fabric; also at the top of the object if there is only one, as a study has it."""
    bill = figures.bill
    return {
        "server_ports": bill.server_ports,
        "port_gbps": bill.link_gbps,
        "server_gbps": bill.server_gbps,
        "usd": bill.usd,
        "usd_per_server": bill.usd_per_server,
        "over_direct_connect": figures.over_direct_connect,
        "equal_cost_port_gbps": figures.equal_gbps,
        "equal_cost_server_gbps": None if figures.equal_gbps is None else bill.server_ports * figures.equal_gbps,
        "watts": bill.watts,
        "known_watts": bill.known_watts,
    }


def _fabric(figures: FabricFigures) -> dict[str, Any]:
    bill, cabling = figures.bill, figures.cabling
    document: dict[str, Any] = {
        "title": bill.title,
        **_figures(figures),
        "power_missing": list(bill.power_missing),
        "notes": _notes(figures),
        "bill": [dict(zip(COLUMNS, row, strict=True)) for row in bill_rows(bill)],
    }
    if figures.iteration_time_s is not None:
        worth = iterations_per_s_per_million_usd(1e3 * figures.iteration_time_s, bill.usd)
        document |= {"iteration_time_s": figures.iteration_time_s, "iterations_per_s_per_million_usd": worth}
    if cabling is not None:
        document["devices"] = {
            "device": cabling.device,
            "ports": cabling.ports,
            "planes": cabling.planes,
            "devices_per_plane": cabling.devices_per_plane,
            "devices": cabling.devices,
            "crossing_circuits": cabling.crossing,
            "reordered_devices_per_plane": cabling.reordered,
            "cabled": cabling.cabled,
            "reason": cabling.reason,
        }
    return document


def _notes(figures: FabricFigures) -> list[str]:
    return [*([figures.remark] if figures.remark else []), *figures.bill.notes]


COLUMNS = ("part", "where", "rate_gbps", "count", "unit_usd", "usd", "unit_watts", "watts")
"""Of a row of a bill."""


def bill_rows(bill: Bill) -> Sequence[tuple[object, ...]]:
    """One row a line of the bill, under COLUMNS."""
    return [
        (one.part, one.where, one.rate_gbps, one.count, one.unit_usd, one.usd, one.unit_watts, one.watts)
        for one in bill.lines
    ]
