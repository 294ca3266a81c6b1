"""Bills of every fabric are counted for one cluster or a range of sizes, and shown as an answer, tables and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from topoopt.core.clos import TIERS, ClosFabric, ClosStatement
from topoopt.core.collective import CollectiveProblem
from topoopt.core.errors import InfeasibleError, InputError, Problem, raise_any
from topoopt.core.job import CoOptimisation
from topoopt.core.llm_training import LlmTrainingProblem
from topoopt.core.network import RoutingProblem, TopologyProblem
from topoopt.core.price_book import (
    OCS_PORT,
    PATCH_PANEL_PORT,
    SWITCH_PORT,
    Bill,
    PriceBook,
    iterations_per_s_per_million_usd,
)
from topoopt.core.process import verbose, versions_text
from topoopt.core.topology import Topology
from topoopt.costs import (
    DIRECT_CONNECT,
    FABRIC_COSTS,
    SAME_BILL,
    Cabling,
    Counting,
    NetworkSize,
    bill_of,
    cabling_of,
    equal_cost_gbps,
    port_gbps,
)
from topoopt.files.documents import parse_document
from topoopt.files.issues import nearest_text, value_text
from topoopt.files.results import KIND_LIMITS, SUFFIX
from topoopt.kinds import kind_named
from topoopt.kinds.files import build_instance
from topoopt.kinds.job import SOLUTION_FILE as PLAN_FILE
from topoopt.page.output import say
from topoopt.page.render import TerminalTable, render_page
from topoopt.page.text import counted, number, ratio
from topoopt.page.vega import MISSING, altair, installed, number_axis, svg, svg_text, xy_chart

COSTED = ("co-optimisation", "routing", "topology", "llm-training", "collective")
"""Kinds of instances whose network is one of servers with interfaces; of collectives those on a Clos fabric."""

BILL_OF = {"fat-tree": "full-fat-tree", **SAME_BILL}
"""Fabrics of language models in training that are counted as another."""


@dataclass(frozen=True, eq=False)
class Target:
    """A cluster.

    Attributes:
        name: of the instance; empty for a size.
        servers, degree, link_gbps: n, d, B.
        switches: int32[d, n], circuits of a solution, see `Topology`; None: not known.
        solved: whether it is a solution.
        optical_interfaces: of the d, those on the optical switch of a region.
        iterations_s: of a language model in training, seconds of an iteration on the fabrics of its solution, by
            their names in the table of counting rules.
        rail_ports: of a server on optical switches of rails; 0: not said.
        clos: the fabric of a collective.
    """

    name: str
    servers: int
    degree: int
    link_gbps: float
    switches: NDArray[np.int32] | None = None
    solved: bool = False
    iterations_s: Mapping[str, float] = field(default_factory=dict)
    optical_interfaces: int = 0
    rail_ports: int = 0
    clos: ClosStatement | None = None


def target_of(file: Path | None, servers: int | None, degree: int | None, link_gbps: float | None) -> Target:
    """The cluster of a file, at another rate if one is given; or one of the given size.

    Raises:
        InputError: everything wrong with the file, a kind without a bill, no rate, a size beside a file or half of one.
    """
    sizes = (("--servers", servers), ("--degree", degree))
    if file is None:
        if servers is None or degree is None or link_gbps is None:
            missing = [name for name, value in (*sizes, ("--link-gbps", link_gbps)) if value is None]
            allowed = "a value, or an instance or solution file"
            raise InputError([Problem("missing", path=name, allowed=allowed) for name in missing])
        return Target("", servers, degree, link_gbps)
    beside = [Problem("not beside a file", path=name, value=str(value)) for name, value in sizes if value is not None]
    raise_any(beside)
    target, own_gbps = _solved(file) or _declared(file)
    gbps = own_gbps if link_gbps is None else link_gbps
    if gbps is None:
        raise InputError([Problem("the file has no rate of links", file=str(file), allowed="--link-gbps")])
    return replace(target, link_gbps=gbps, iterations_s=target.iterations_s if gbps == own_gbps else {})


_RatedTarget = tuple[Target, float | None]
"""A cluster, and the rate that its file says; None: it says none."""


def _rated(
    name: str,
    servers: int,
    degree: int,
    gbps: float | None,
    switches: NDArray[np.int32] | None = None,
    *,
    solved: bool = False,
) -> _RatedTarget:
    return Target(name, servers, degree, gbps or 0.0, switches, solved), gbps


def _solved(file: Path) -> _RatedTarget | None:
    """The cluster of a solution; None for any other file."""
    data = parse_document(file, KIND_LIMITS).data
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str) or not kind.endswith(SUFFIX):
        return None
    kind = kind.removesuffix(SUFFIX)
    if kind == "co-optimisation":
        plan = PLAN_FILE.read(file)
        cluster = plan.figures.cluster
        lit = _lit(plan.plan.topology)
        return _rated(plan.name, cluster.servers, cluster.degree, cluster.link_gbps, lit, solved=True)
    if kind == "llm-training":
        return _trained(file)
    if kind == "collective":
        return _on_clos(file, kind_named(kind).files.solutions.read(file).problem)
    if kind in COSTED:
        network: Any = kind_named(kind).files.solutions.read(file)
        topology, gbps = network.figures.topology, network.figures.problem.link_gbps
        return _rated(network.name, topology.servers, topology.degree, gbps, _lit(topology), solved=True)
    raise _no_bill(file, kind)


def _trained(file: Path) -> _RatedTarget:
    """The cluster of a language model in training, by the instance that stands in its solution.

    Raises:
        InputError: none stands there.
    """
    result = kind_named("llm-training").files.solutions.read(file)
    if result.problem is None:
        text, allowed = "no instance stands in the solution", "the instance file"
        raise InputError([Problem(text, file=str(file), path="instance", allowed=allowed)])
    times = {BILL_OF.get(row.fabric, row.fabric): row.iteration_time_s for row in result.figures.fabrics}
    target, gbps = _trained_on(result.problem)
    return replace(target, iterations_s=times), gbps


def _trained_on(problem: LlmTrainingProblem) -> _RatedTarget:
    cluster = problem.cluster
    target, gbps = _rated(problem.name, cluster.servers, cluster.degree, cluster.link_gbps)
    ports = 0 if problem.switching is None else problem.switching.ports * cluster.gpus_per_server
    return replace(target, optical_interfaces=cluster.optical_interfaces, rail_ports=ports), gbps


def _lit(topology: Topology) -> NDArray[np.int32] | None:
    """Circuits, if the solution says which interface takes which."""
    return topology.switches if (topology.switches >= 0).any() or not len(topology.arcs) else None


def _declared(file: Path) -> _RatedTarget:
    instance = build_instance(parse_document(file))
    if isinstance(instance, CoOptimisation):
        cluster = instance.cluster
        return _rated(instance.name, cluster.servers, cluster.degree, cluster.link_gbps)
    if isinstance(instance, LlmTrainingProblem):
        return _trained_on(instance)
    if isinstance(instance, CollectiveProblem):
        return _on_clos(file, instance)
    if isinstance(instance, TopologyProblem):
        return _rated(instance.name, instance.servers, instance.degree, instance.link_gbps)
    if isinstance(instance, RoutingProblem):
        topology = instance.topology
        return _rated(instance.name, topology.servers, topology.degree, instance.link_gbps)
    raise _no_bill(file, instance.kind)


def _on_clos(file: Path, problem: CollectiveProblem | None) -> _RatedTarget:
    clos = None if problem is None else problem.fabric
    if problem is None or clos is None:
        text, allowed = "only a Clos fabric has a bill", "fabric: {clos: ...}"
        raise InputError([Problem(text, file=str(file), path="fabric", allowed=allowed)])
    target, gbps = _rated(problem.name, clos.servers, clos.degree, clos.link_gbps)
    return replace(target, clos=clos), gbps


def _no_bill(file: Path, kind: str) -> InputError:
    text = "networks of this kind are not counted"
    return InputError([Problem(text, file=str(file), path="kind", value=kind, allowed=", ".join(COSTED))])


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
        clos: electrical switches as they are built; None: nothing is stated.
    """

    target: Target
    fabrics: tuple[str, ...]
    named: bool
    equal_to: str
    oversubscription: float
    counting: Counting
    book: PriceBook
    clos: ClosStatement | None = None


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


CLOS = "clos"


def switches_of(target: Target, book: PriceBook, design: Mapping[str, Any]) -> ClosStatement | None:
    """The electrical switches that a file, settings or the price book state; None: none does.

    Args:
        design: `radix`, `tiers`, `planes`, `breakout`, `oversubscription` of the settings.

    Raises:
        InputError: settings beside the fabric of a file, or without a radix.
    """
    parts = {name: design[name] for name in ("radix", "tiers", "planes", "breakout") if name in design}
    if target.clos is not None:
        text, allowed = "not beside the fabric that the file states", "left out"
        beside = [
            Problem(text, path=f"--set {name}", value=str(value), allowed=allowed) for name, value in parts.items()
        ]
        raise_any(beside)
        return target.clos
    device = book.device(SWITCH_PORT)
    if "radix" not in parts and device is not None:
        parts["radix"] = device.ports
    if parts and "radix" not in parts:
        text, allowed = "missing: ports of a switch", "--set radix=64, or a switch in the price book"
        raise InputError([Problem(text, path="--set radix", allowed=allowed)])
    if not parts:
        return None
    ratio = (float(design.get("oversubscription", 1.0)),)
    return ClosStatement(
        servers=target.servers, degree=target.degree, link_gbps=target.link_gbps, oversubscription=ratio, **parts
    )


def chosen_fabrics(names: str | None, equal_to: str, *, clos: bool) -> tuple[str, ...]:
    """Fabrics by name, all by default.

    Args:
        clos: switches are stated, so that the fabric `clos` is among all.

    Raises:
        InputError: names that no counting rule has, also of the reference.
    """
    every = tuple(name for name in FABRIC_COSTS if clos or name != CLOS)
    listed = every if names is None else tuple(dict.fromkeys(part.strip() for part in names.split(",")))
    wrong = [("--fabrics", name) for name in listed if name not in FABRIC_COSTS]
    wrong += [("--set equal_to", equal_to)] if equal_to not in FABRIC_COSTS else []
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
        target.servers,
        target.degree,
        question.oversubscription,
        target.optical_interfaces,
        target.rail_ports,
        question.clos,
    )

    def bill(fabric: str) -> tuple[Bill, str | None]:
        gbps, remark = port_gbps(fabric, size, target.link_gbps, book, counting)
        return bill_of(fabric, size, gbps, book, counting), remark

    direct, reference = bill(DIRECT_CONNECT)[0].usd, bill(question.equal_to)[0].usd
    fabrics: dict[str, FabricFigures] = {}
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
        fabrics[fabric] = FabricFigures(own, remark, over, equal, _cabling(question, fabric), seconds)
    if problems and question.named:
        raise InputError(problems)
    return CostFigures(fabrics, unavailable)


def _cabling(question: CostQuestion, fabric: str) -> Cabling | None:
    entry = FABRIC_COSTS[fabric]
    device = None if entry.optical_part is None else question.book.device(entry.optical_part)
    if device is None:
        return None
    target = question.target
    return cabling_of(device, target.servers, entry.planes * target.degree, target.switches)


def cabling_error(question: CostQuestion, figures: CostFigures) -> InfeasibleError | None:
    """Why the circuits of a solution cannot be set: on any fabric the user named, else on all that have devices."""
    cablings = {name: fabric.cabling for name, fabric in figures.fabrics.items() if fabric.cabling is not None}
    bad = {name: cabling for name, cabling in cablings.items() if cabling.cabled is False}
    if not bad or (not question.named and len(bad) < len(cablings)):
        return None
    return InfeasibleError("\n".join(f"{name} cannot be cabled: {fabric.reason}" for name, fabric in bad.items()))


def cost_document(question: CostQuestion, figures: CostFigures, book_file: str | None) -> dict[str, Any]:
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
        "fabrics": {name: _fabric(fabric) for name, fabric in figures.fabrics.items()},
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
        "known_watts": bill.listed_watts,
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
    if bill.switches is not None:
        document["clos"] = clos_document(bill.switches, bill.link_gbps)
    if figures.iteration_time_s is not None:
        iterations_per_million = iterations_per_s_per_million_usd(1e3 * figures.iteration_time_s, bill.usd)
        document |= {
            "iteration_time_s": figures.iteration_time_s,
            "iterations_per_s_per_million_usd": iterations_per_million,
        }
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


def clos_document(fabric: ClosFabric, link_gbps: float) -> dict[str, Any]:
    """Counts of a tree of switches, all planes together; cables of a tier are those below it.

    Args:
        link_gbps: rate of an interface, where trees are counted for any.
    """
    rows = zip(TIERS, fabric.tiers, fabric.cables, strict=False)
    return {
        "switches": fabric.switches,
        "cables": sum(fabric.cables),
        "transceivers": sum(fabric.transceivers.values()),
        "bisection_gbps": fabric.bisection_gbps * link_gbps / fabric.link_gbps,
        "radix": fabric.radix,
        "planes": fabric.planes,
        "pods": fabric.pods,
        "oversubscription": [float(ratio) for ratio in fabric.oversubscription],
        "tiers": [
            {
                "tier": name,
                "switches": fabric.planes * tier.switches,
                "down": tier.down,
                "up": tier.up,
                "cables": count,
            }
            for name, tier, count in rows
        ],
        "transceivers_by_side": fabric.transceivers,
    }


def _notes(figures: FabricFigures) -> list[str]:
    return [*([figures.remark] if figures.remark else []), *figures.bill.notes]


COLUMNS = ("part", "where", "rate_gbps", "count", "unit_usd", "usd", "unit_watts", "watts")
"""Of a row of a bill."""


def bill_rows(bill: Bill) -> Sequence[tuple[object, ...]]:
    """One row a line of the bill, under COLUMNS."""
    return [
        (line.part, line.where, line.rate_gbps, line.count, line.unit_usd, line.usd, line.unit_watts, line.watts)
        for line in bill.lines
    ]


COMPARED = ("oversubscribed-fat-tree", "full-fat-tree", "ideal-switch")
"""Networks of switches that direct connect is set beside."""


def answer(question: CostQuestion, figures: CostFigures) -> str:
    """Direct connect where it is counted, else the first fabric; others as multiples of direct connect."""
    target = question.target
    own = DIRECT_CONNECT if DIRECT_CONNECT in figures.fabrics else next(iter(figures.fabrics), "")
    where = f"{counted(target.servers, 'server')} with {target.degree} × {target.link_gbps:g} Gbit/s"
    if not own:
        return f"None of the fabrics exists for {where}."
    fabric = figures.fabrics[own]
    others = [name for name in COMPARED if name in figures.fabrics and name != own]
    against = [f"{name} {ratio(figures.fabrics[name].over_direct_connect)}" for name in others]
    than = "" if own == DIRECT_CONNECT or not others else " as direct connect"
    return (
        f"{own[0].upper()}{own[1:]} for {where} costs {fabric.bill.usd:,.0f} USD, "
        f"{fabric.bill.usd_per_server:,.0f} a server"
        f"{'; ' + ', '.join(against) + ' as much' + than if against else ''}."
    )


COUNTING_WORDS = {Counting.PORTS: "ports in use", Counting.DEVICES: "whole devices"}
"""What of switches and panels is paid."""


def show_cost(console: Console, question: CostQuestion, figures: CostFigures) -> None:
    """Prices side by side, the bill of each fabric, optical devices, and how it was counted."""
    target, book = question.target, question.book
    head = f"{target.name + ': ' if target.name else ''}{counted(target.servers, 'server')}, "
    head += f"{counted(target.degree, 'interface')} of "
    head += f"{target.link_gbps:g} Gbit/s; prices {book.name} of {book.dated}, USD; {COUNTING_WORDS[question.counting]}"
    say(console, head)
    _wide(console, _overview(question, figures))
    if verbose():
        _wide(console, _bills(figures))
    if any(fabric.cabling for fabric in figures.fabrics.values()):
        _wide(console, _devices(question, figures))
    by_note: dict[str, list[str]] = {}
    for name, fabric in figures.fabrics.items():
        notes = [*([fabric.remark] if fabric.remark else []), *fabric.bill.notes]
        notes += [fabric.cabling.reason] if fabric.cabling is not None and fabric.cabling.reason else []
        if fabric.iteration_time_s is not None:
            iterations_per_million = iterations_per_s_per_million_usd(1e3 * fabric.iteration_time_s, fabric.bill.usd)
            bought = (
                ""
                if iterations_per_million is None
                else f", {number(iterations_per_million)} iterations a second for a million USD"
            )
            notes.append(f"an iteration takes {number(fabric.iteration_time_s)} s{bought}")
        for note in notes:
            by_note.setdefault(note, []).append(name)
    for note, names in by_note.items():
        say(console, f"{', '.join(names)}: {note}")
    for reason in figures.unavailable.values():
        say(console, f"left out: {reason}")
    missing = dict.fromkeys(part for fabric in figures.fabrics.values() for part in fabric.bill.power_missing)
    if missing:
        say(console, f"power not in the price book, so totals are lower limits: {', '.join(missing)}")


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
    return f"{value:,.0f}"


def watts_text(bill: Bill) -> str:
    """Power, as a lower limit where some part's is not known."""
    if bill.watts is not None:
        return f"{bill.watts:,.0f}"
    return f"> {bill.listed_watts:,.0f}" if bill.listed_watts else "?"


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
    for name, fabric in figures.fabrics.items():
        bill = fabric.bill
        ports = f"{bill.server_ports} x {number(bill.link_gbps)} Gbit/s"
        price = (dollars(bill.usd), dollars(bill.usd_per_server), f"{fabric.over_direct_connect:.3f}")
        table.add_row(name, ports, *price, _equal(fabric), watts_text(bill))
    return table


def _equal(fabric: FabricFigures) -> str:
    if fabric.equal_gbps is None:
        return "slowest is dearer"
    return f"{fabric.bill.server_ports} x {number(fabric.equal_gbps)} Gbit/s"


def _bills(figures: CostFigures) -> TerminalTable:
    table = _table(*((name, False) for name in ("bill", "part", "for")))
    for name in ("Gbit/s", "count", "USD each", "USD", "W each"):
        table.add_column(name, justify="right")
    for name, fabric in figures.fabrics.items():
        for index, line in enumerate(fabric.bill.lines):
            table.add_row(
                Text(name if index == 0 else ""),
                line.part.replace("_", " "),
                line.where,
                "" if line.rate_gbps is None else number(line.rate_gbps),
                f"{line.count:,.10g}" if line.count == int(line.count) else f"{line.count:,.2f}",
                f"{line.unit_usd:,.2f}",
                dollars(line.usd),
                "?" if line.unit_watts is None else f"{line.unit_watts:g}",
                end_section=index == len(fabric.bill.lines) - 1,
            )
    return table


def _devices(question: CostQuestion, figures: CostFigures) -> TerminalTable:
    table = _table(
        ("optical devices", False),
        ("kind", False),
        *((name, True) for name in ("ports", "planes", "a plane", "in all")),
        ("circuits" if question.target.solved else "any circuits", False),
    )
    for name, fabric in figures.fabrics.items():
        cabling = fabric.cabling
        if cabling is not None:
            verdict = {True: "fit", False: "CANNOT BE CABLED", None: "not all"}[cabling.cabled]
            numbers = (cabling.ports, cabling.planes, cabling.devices_per_plane, cabling.devices)
            table.add_row(name, cabling.device, *map(str, numbers), verdict)
    return table


TEMPLATE = "analyses/costs/page.html.j2"
MILLION = 1e6

Curves = dict[str, dict[int, float]]
"""Of one degree and rate: USD by size, by fabric."""

Panels = list[tuple[str, Curves]]
"""Title and curves of every panel; the first is of the degree and rate of the cluster."""


def _names(panels: Panels) -> list[str]:
    """Fabrics in order, the same colour for each in every panel."""
    return list(dict.fromkeys(name for _, curves in panels for name in curves))


def _charts(panels: Panels, titles: Mapping[str, str]) -> list[Any]:
    """Cost against servers, a chart a panel, over the same axes; fabrics are called by their `titles`."""
    names = [titles[name] for name in _names(panels)]
    points = [(n, usd) for _, curves in panels for curve in curves.values() for n, usd in curve.items()]
    sizes = [n for n, _ in points]
    powers = [2**power for power in range(21) if min(sizes, default=0) <= 2**power <= max(sizes, default=0)]
    x = number_axis("x", "servers", sizes, log=True).axis(values=powers, format=",")
    y = number_axis("y", "cost, USD", [usd for _, usd in points], log=True)
    return [
        xy_chart(
            [
                {"x": n, "y": usd, "series": titles[name], "tip": f"{name}\n{n:,} servers\n{usd:,.0f} USD"}
                for name, curve in curves.items()
                for n, usd in curve.items()
            ],
            names,
            x,
            y,
            line="linear",
        )
        for _, curves in panels
    ]


def cost_svg(question: CostQuestion) -> str:
    """Two panels a row, the legend below, the prices above; an SVG file on white paper."""
    alt, panels = altair(), _panels(question)
    charts = _charts(panels, {name: f"{name}: {FABRIC_COSTS[name].title}" for name in _names(panels)})
    titled = [chart.properties(title=title) for chart, (title, _) in zip(charts, panels, strict=True)]
    whole = alt.concat(*titled, columns=2, spacing=36)
    heading = alt.Title("Cost against the size of the cluster", subtitle=list(_price_notes(question)))
    return svg_text(whole.properties(title=heading))


def cost_html(question: CostQuestion, figures: CostFigures) -> str:
    """The panels, and every figure in tables; tables alone without the library that draws."""
    panels, target, drawn = _panels(question), question.target, installed()
    names = _names(panels)
    charts = _charts(panels, {name: name for name in names}) if drawn else []
    return render_page(
        TEMPLATE,
        answer(question, figures),
        title=target.name or counted(target.servers, "server"),
        own=[
            (
                name,
                f"{number(fabric.bill.link_gbps)} Gbit/s",
                dollars(fabric.bill.usd),
                dollars(fabric.bill.usd_per_server),
                ratio(fabric.over_direct_connect),
                fabric.bill.title,
            )
            for name, fabric in figures.fabrics.items()
        ],
        charts=[
            (title, svg(chart, f"Cost against servers, {title}"))
            for chart, (title, _) in zip(charts, panels, strict=False)
        ],
        left_out="" if drawn else MISSING,
        tables=[(title, _rows(curves, names)) for title, curves in panels],
        names=names,
        notes=_price_notes(question),
        versions=versions_text(),
    )


def _rows(curves: Curves, names: list[str]) -> list[list[str]]:
    rows = []
    for n in sorted({n for curve in curves.values() for n in curve}):
        row = [curves.get(name, {}).get(n) for name in names]
        rows.append([f"{n:,}", *("–" if usd is None else f"{usd / MILLION:,.3f}" for usd in row)])
    return rows


SERVERS = (
    128, 160, 192, 224, 256, 320, 384, 432, 512, 640, 768, 896, 1024, 1280, 1536, 1792, 2048, 2560, 3072, 3456, 4096,
)  # fmt: skip
"""Sizes, with those of full fat-trees (k = 8, 12, 16, 24)."""

SETTINGS = ((4, 100.0), (4, 200.0), (8, 100.0), (8, 200.0))
"""Degree and rate of the panels of the figure."""

SHOWN = (
    DIRECT_CONNECT,
    "direct-connect-ocs",
    "oversubscribed-fat-tree",
    "full-fat-tree",
    "ideal-switch",
    "random-regular",
)
"""Fabrics of the plot unless others are named."""


def _price_notes(question: CostQuestion) -> tuple[str, ...]:
    book = question.book
    limits = [
        f"{device.name}: {device.ports} ports, so more servers take several in every plane."
        for device in map(book.device, (PATCH_PANEL_PORT, OCS_PORT))
        if device is not None
    ]
    return (
        f"Prices {book.name} of {book.dated}, US dollars; paid are {COUNTING_WORDS[question.counting]}.",
        "A fat-tree of equal cost lies on the line of direct connect by definition, where it is not faster than all "
        "interfaces together.",
        *limits,
    )


def _panels(question: CostQuestion) -> Panels:
    """A panel for the degree and rate of the cluster, and one for each other setting of the figure."""
    own = (question.target.degree, float(question.target.link_gbps))
    settings = (own, *(setting for setting in SETTINGS if setting != own))
    sizes = sorted({*SERVERS, question.target.servers})
    return [
        (f"d = {degree}, {gbps:g} Gbit/s", _curves(question, degree, gbps, sizes if index == 0 else SERVERS))
        for index, (degree, gbps) in enumerate(settings)
    ]


def _curves(question: CostQuestion, degree: int, gbps: float, sizes: Sequence[int]) -> Curves:
    """Cost at every size at which a fabric exists; fabrics that exist at none are left out."""
    curves: Curves = {}
    for name in question.fabrics if question.named else SHOWN:
        for servers in sizes:
            size = NetworkSize(servers, degree, question.oversubscription)
            try:
                rate, _ = port_gbps(name, size, gbps, question.book, question.counting)
                usd = bill_of(name, size, rate, question.book, question.counting).usd
            except InputError:
                continue
            curves.setdefault(name, {})[servers] = usd
    return curves
