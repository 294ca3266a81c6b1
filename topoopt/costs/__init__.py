"""What networks are made of and cost: counting rules by fabric, bills of material, rates of equal cost, cabling.

A rule counts the parts with the rate left open, so the cost of a network is piecewise linear in it and every question
of equal cost has an exact answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, partial
from importlib.resources import files

import numpy as np
from ruamel.yaml import YAML

from topoopt.core.arrays import Int32s
from topoopt.core.clos import TIERS, ClosFabric, ClosStatement, clos_fabric, k_ary_tree
from topoopt.core.cluster import Cluster, block_layer
from topoopt.core.errors import InputError, Problem
from topoopt.core.price_book import (
    FIBRE,
    NIC,
    OCS_PORT,
    ONE_BY_TWO_SWITCH,
    PATCH_PANEL_PORT,
    PLAN_FABRIC,
    RATED_PARTS,
    SWITCH_PORT,
    TRANSCEIVER,
    Bill,
    BillLine,
    FabricPrices,
    PriceBook,
    PricedDevice,
    price_book,
)


class Counting(StrEnum):
    """What of a switch is paid.

    `ports`: the ports in use, the rule of the paper, the same for every server. `devices`: whole devices, so that the
    cost of a server depends on how well the cluster fills them.
    """

    PORTS = "ports"
    DEVICES = "devices"


@dataclass(frozen=True)
class NetworkSize:
    """What a rule needs to know of a cluster.

    Attributes:
        servers: n.
        degree: d, interfaces of a server on direct-connect networks.
        oversubscription: downlinks over uplinks, for the networks that are oversubscribed.
        optical_interfaces: of the d, those on the optical switch of a region; 0: none.
        rail_ports: of a server on the optical switches of its rails together; 0: two for each interface.
        clos: electrical switches as they are built; None: the fabric `clos` is not there, and whole switches of
            fat-trees have the least arity that holds the servers.
    """

    servers: int
    degree: int
    oversubscription: float = 2.0
    optical_interfaces: int = 0
    rail_ports: int = 0
    clos: ClosStatement | None = None


@dataclass(frozen=True)
class PartCount:
    """So many pieces of a part, what they are for, and their rate over that of a port of a server."""

    part: str
    where: str
    count: float
    speed: float = 1.0


@dataclass(frozen=True)
class Count:
    """The parts of a network.

    Attributes:
        server_ports: ports of a server, all of one rate.
        parts: of the whole network.
        notes: how it was counted.
        switches: the tree of electrical switches, where these are counted whole.
    """

    server_ports: int
    parts: tuple[PartCount, ...]
    notes: tuple[str, ...] = ()
    switches: ClosFabric | None = None


CountingRule = Callable[[NetworkSize, PriceBook, Counting], Count]
"""Counts the parts of a network; raises InputError where the network does not exist for the cluster."""


def interfaces(size: NetworkSize, ports: int) -> tuple[PartCount, ...]:
    """NICs and transceivers of servers with so many ports."""
    number = float(size.servers * ports)
    return (PartCount(NIC, "servers", number), PartCount(TRANSCEIVER, "servers", number))


def fibres(number: float, where: str) -> PartCount:
    return PartCount(FIBRE, where, number)


def impossible(fabric: str, why: str, allowed: str) -> InputError:
    """There is no such network for the cluster."""
    return InputError([Problem(f"{fabric}: {why}", allowed=allowed)])


def devices_needed(servers: int, planes: int, ports: int) -> int:
    """Optical devices for planes of `servers` ports: several planes share one where they fit whole."""
    return planes * -(-servers // ports) if servers > ports else -(-planes // (ports // servers))


def together(*groups: Sequence[PartCount]) -> tuple[PartCount, ...]:
    """All parts, in order."""
    return tuple(part for group in groups for part in group)


def _count(size: NetworkSize, book: PriceBook, counting: Counting, *, port_part: str, look_ahead: bool) -> Count:
    number = size.servers * size.degree
    planes = size.degree * (2 if look_ahead else 1)
    ports = float(size.servers * planes)
    notes: tuple[str, ...] = ()
    device = book.device(port_part)
    if counting is Counting.DEVICES and device is not None:
        devices = devices_needed(size.servers, planes, device.ports)
        notes = (f"{devices} devices of {device.ports} ports, of which {int(ports)} are used",)
        ports = float(devices * device.ports)
    switches = (PartCount(ONE_BY_TWO_SWITCH, "between both planes", float(number)),) if look_ahead else ()
    where = "active and look-ahead planes" if look_ahead else "planes"
    return Count(
        size.degree,
        together(
            interfaces(size, size.degree),
            (fibres(float(number), "server to plane"),),
            switches,
            (PartCount(port_part, where, ports),),
        ),
        notes,
    )


RAIL_PORTS = 2
"""Of an interface on its rail where nothing else is said: a ring needs two."""


def photonic_rails(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """One optical switch a rail; an interface has one transceiver, whatever its ports there, as is published."""
    number = size.servers * size.degree
    ports = float(size.servers * (size.rail_ports or RAIL_PORTS * size.degree))
    notes = [f"{ports / number:g} ports of an optical switch for each transceiver"]
    paid, device = ports, book.device(OCS_PORT)
    if device is not None:
        rail = round(ports / size.degree)
        if rail > device.ports:
            notes.append(
                f"a rail of {rail} ports is more than a switch of {device.ports} has: counted as if it were one"
            )
        if counting is Counting.DEVICES:
            devices = devices_needed(rail, size.degree, device.ports)
            notes.append(f"{devices} devices of {device.ports} ports, of which {int(ports)} are used")
            paid = float(devices * device.ports)
    circuits = (fibres(ports, "server to rail"), PartCount(OCS_PORT, "rails", paid))
    return Count(size.degree, together(interfaces(size, size.degree), circuits), tuple(notes))


panels_with_look_ahead = partial(_count, port_part=PATCH_PANEL_PORT, look_ahead=True)
panels = partial(_count, port_part=PATCH_PANEL_PORT, look_ahead=False)
optical_circuit_switches = partial(_count, port_part=OCS_PORT, look_ahead=False)


def _wired(size: NetworkSize, ports: int, notes: tuple[str, ...] = ()) -> Count:
    links = float(size.servers * ports // 2)
    return Count(ports, together(interfaces(size, ports), (fibres(links, "server to server"),)), notes)


def regular_graph(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """Random regular and generalized Kautz graphs: all d interfaces; a fibre pair for two interfaces.

    Where transmit and receive fibre go to different servers, a link is one fibre and counts as half a pair.
    """
    return _wired(size, size.degree)


def torus(size: NetworkSize, book: PriceBook, counting: Counting, *, axes: int) -> Count:
    """Two interfaces an axis, more of them for parallel links two at a time; one left over stays dark."""
    if size.degree < 2 * axes:
        why = f"{axes} axes take two interfaces each, there are {size.degree}"
        raise impossible(f"torus-{axes}d", why, f"a degree of at least {2 * axes}")
    if _prime_factors(size.servers) < axes:
        raise impossible(f"torus-{axes}d", f"{size.servers} servers", f"a product of {axes} sides of at least 2")
    unused = (f"one of {size.degree} interfaces is not used",) if size.degree % 2 else ()
    return _wired(size, size.degree // 2 * 2, unused)


torus_2d = partial(torus, axes=2)
torus_3d = partial(torus, axes=3)


def _prime_factors(number: int) -> int:
    """How many there are, repeated ones counted."""
    count, factor = 0, 2
    while factor * factor <= number:
        if number % factor:
            factor += 1
        else:
            number //= factor
            count += 1
    return count + (number > 1)


def hypercube(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """log2 n interfaces, more of them for parallel links."""
    dimensions = size.servers.bit_length() - 1
    if size.servers != 1 << dimensions or dimensions < 1:
        raise impossible("hypercube", f"{size.servers} servers", "a power of two")
    if dimensions > size.degree:
        why = f"{size.servers} servers take {dimensions} interfaces each, there are {size.degree}"
        raise impossible("hypercube", why, f"a degree of at least {dimensions}")
    return _wired(size, size.degree)


def _count_tree(
    size: NetworkSize, counting: Counting, rack_ratio: float, aggregation_ratio: float, nics: int | None = None
) -> Count:
    """A tree of so many NICs a server: ports in use, or whole switches.

    None: one as fast as all interfaces together, and all interfaces where switches are stated, whose ports have a rate.
    """
    if nics is None:
        nics = 1 if size.clos is None or size.clos.radix is None else size.degree
    n = size.servers * nics
    if counting is Counting.PORTS:
        rack, top = n / rack_ratio, n / (rack_ratio * aggregation_ratio)
        return _parts(size, nics, float(n + 2 * (rack + top)), (float(n), rack, top), ())
    return _whole(size, nics, _tree(size, nics, rack_ratio, aggregation_ratio))


def _tree(size: NetworkSize, nics: int, rack_ratio: float, aggregation_ratio: float) -> ClosFabric:
    """Of the switches that are stated, else of the least arity that holds the servers."""
    if size.clos is None or size.clos.radix is None:
        return k_ary_tree(size.servers * nics, rack_ratio, aggregation_ratio)
    return clos_fabric(
        ClosStatement(
            servers=size.servers,
            degree=nics,
            link_gbps=1.0,
            radix=size.clos.radix,
            oversubscription=(rack_ratio, aggregation_ratio),
        )
    )


def _whole(size: NetworkSize, nics: int, tree: ClosFabric) -> Count:
    """All ports of all switches of a tree."""
    names = ("rack", "aggregation", "core")
    counts = [f"{tier.switches} {name}" for tier, name in zip(tree.tiers, names, strict=False)]
    listed = counts[0] if len(counts) == 1 else f"{', '.join(counts[:-1])} and {counts[-1]}"
    notes = [f"{listed} switches of {tree.radix} ports"]
    for tier, name in zip(tree.tiers[:-1], names, strict=False):
        if tier.down > tier.up:
            ratio = f"{tier.down / tier.up:.4g}:1"
            notes.append(f"{name} switches of {tier.down} downlinks and {tier.up} uplinks: {ratio}")
    cables = (*map(float, tree.cables), 0.0, 0.0)[:3]
    count = _parts(size, nics, float(tree.radix * tree.switches), (cables[0], cables[1], cables[2]), tuple(notes))
    return replace(count, switches=tree)


def _parts(
    size: NetworkSize, nics: int, ports: float, cables: tuple[float, float, float], notes: tuple[str, ...]
) -> Count:
    host, rack, core = cables
    return Count(
        nics,
        together(
            interfaces(size, nics),
            (
                PartCount(TRANSCEIVER, "switches", host + 2 * (rack + core)),
                PartCount(SWITCH_PORT, "switches", ports),
                fibres(host, "server to rack"),
                fibres(rack, "rack to aggregation"),
                fibres(core, "aggregation to core"),
            ),
        ),
        notes,
    )


def clos(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """The fabric that is stated, with the modules at its cables; a port is paid where it is in use, or all are.

    Raises:
        InputError: none is stated, or its ports do not add up.
    """
    if size.clos is None:
        raise impossible("clos", "no switches are stated", "an instance with fabric: {clos: ...}, or --set radix")
    fabric = clos_fabric(size.clos)
    q, design = fabric.planes, size.clos
    up = fabric.port_gbps / fabric.link_gbps
    cables, module = fabric.cables, design.switch_module_ports
    used = cables[0] + 2 * sum(cables[1:])
    ports = used if counting is Counting.PORTS else fabric.radix * fabric.switches
    parts = [PartCount(NIC, "servers", float(fabric.endpoints))]
    for side, count in fabric.transceivers.items():
        speed = design.server_module_ports / q if side == "server" else module * up
        parts.append(PartCount(TRANSCEIVER, side, float(count), speed))
    parts.append(PartCount(SWITCH_PORT, "switches", float(ports), up))
    below = ("server", *TIERS)
    for level, count in enumerate(cables):
        if level or not fabric.copper:
            parts.append(PartCount(FIBRE, f"{below[level]} to {below[level + 1]}", float(count), up))
    notes = [fabric.text]
    notes += [
        f"{name} switches: {float(ratio):.4g}:1"
        for name, ratio in zip(TIERS, fabric.oversubscription, strict=False)
        if ratio > 1
    ]
    if fabric.copper:
        notes.append(f"{cables[0]} copper cables between servers and leaves are not in the price book")
    if not fabric.even:
        notes.append("links up cannot be spread evenly over the switches above")
    return Count(fabric.degree, tuple(parts), tuple(notes), fabric)


def full_bisection(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """Parts of a fat tree in which no tier is oversubscribed."""
    return _count_tree(size, counting, 1.0, 1.0)


def oversubscribed_at_racks(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """Rack switches have fewer uplinks, so there are fewer switches of both tiers above."""
    return _count_tree(size, counting, size.oversubscription, 1.0)


def oversubscribed_at_aggregation(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """Aggregation switches have fewer uplinks, so there are fewer cores."""
    return _count_tree(size, counting, 1.0, size.oversubscription)


def rail_optimised(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """A full-bisection tree of all interfaces."""
    return _count_tree(size, counting, 1.0, 1.0, size.degree)


def rail_only(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """A full-bisection tree of all interfaces without its core; of stated switches, one tree a rail.

    An aggregation switch without uplinks needs half the ports, so that one does what two did.
    """
    n = float(size.servers * size.degree)
    if counting is Counting.PORTS:
        return _parts(size, size.degree, 3 * n, (n, n, 0.0), ())
    if size.clos is not None and size.clos.radix is not None:
        rail = _whole(size, size.degree, _tree(size, 1, 1.0, 1.0))
        parts = tuple(replace(part, count=size.degree * part.count) for part in rail.parts if part.where != "servers")
        notes = (f"each of {size.degree} rails: {rail.notes[0]}",)
        return Count(size.degree, together(interfaces(size, size.degree), parts), notes)
    tree = _tree(size, size.degree, 1.0, 1.0)
    above = -(-tree.tiers[1].switches // 2) if len(tree.tiers) > 1 else 0
    racks, ports = tree.tiers[0].switches, float(tree.radix * (tree.tiers[0].switches + above))
    note = f"{tree.radix}-ary without core: {racks} rack and {above} aggregation switches of {tree.radix} ports"
    return _parts(size, size.degree, ports, (n, float((*tree.cables, 0)[1]), 0.0), (note,))


def regional_circuits(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """A full-bisection tree of the interfaces that are not optical; an OCS port for each of the others.

    Raises:
        InputError: no interface is optical, or all are.
    """
    optical = size.optical_interfaces
    if not 0 < optical < size.degree:
        raise impossible("regional-circuits", "interfaces on both networks are needed", "cluster.optical_interfaces")
    tree = _count_tree(size, counting, 1.0, 1.0, size.degree - optical)
    number = float(size.servers * optical)
    ports, notes = number, tree.notes
    device = book.device(OCS_PORT)
    if counting is Counting.DEVICES and device is not None:
        devices = devices_needed(size.servers, optical, device.ports)
        notes = (*notes, f"{devices} optical switches of {device.ports} ports, of which {int(number)} are used")
        ports = float(devices * device.ports)
    circuits = (fibres(number, "server to optical switch"), PartCount(OCS_PORT, "regions", ports))
    return Count(size.degree, together(tree.parts, interfaces(size, optical), circuits), notes)


def ideal_switch(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """d fat-trees, each with one port of every server."""
    tree = _count_tree(size, counting, 1.0, 1.0, 1)
    d = size.degree
    parts = tuple(replace(part, count=d * part.count) for part in tree.parts)
    return Count(d, parts, (f"hypothetical: counted as {d} full-bisection fat-trees side by side", *tree.notes))


__all__ = ["DIRECT_CONNECT", "FABRIC_COSTS", "SAME_BILL", "Counting", "FabricCost", "NetworkSize"]

LINK, SERVER, EQUAL = "link", "server", "equal-cost"


@dataclass(frozen=True)
class FabricCost:
    """How a network is counted.

    Attributes:
        title: in words.
        count: its rule.
        rate: of a port of a server: `link`, that of the cluster's interfaces; `server`, that of all interfaces of a
            server together; `equal-cost`, the one at which the network costs as much as direct connect, at most the
            former.
        optical_part: the part that prices a port of its optical devices; None: it has none.
        planes: optical planes for each interface of a server.
    """

    title: str
    count: CountingRule
    rate: str
    optical_part: str | None = None
    planes: int = 1


DIRECT_CONNECT = PLAN_FABRIC

FABRIC_COSTS: Mapping[str, FabricCost] = {
    DIRECT_CONNECT: FabricCost("patch panels, look-ahead plane", panels_with_look_ahead, LINK, PATCH_PANEL_PORT, 2),
    "direct-connect-one-plane": FabricCost("patch panels, no look-ahead", panels, LINK, PATCH_PANEL_PORT),
    "direct-connect-ocs": FabricCost("optical circuit switches", optical_circuit_switches, LINK, OCS_PORT),
    "fat-tree": FabricCost("fat-tree of equal cost", full_bisection, EQUAL),
    "full-fat-tree": FabricCost("full-bisection fat-tree", full_bisection, SERVER),
    "oversubscribed-fat-tree": FabricCost("fat-tree, racks oversubscribed", oversubscribed_at_racks, SERVER),
    "aggregation-oversubscribed-fat-tree": FabricCost(
        "fat-tree, aggregation oversubscribed", oversubscribed_at_aggregation, SERVER
    ),
    "clos": FabricCost("Clos fabric as it is built", clos, LINK),
    "rail-fat-tree": FabricCost("rail-optimised fat-tree", rail_optimised, LINK),
    "rail-only": FabricCost("rails without a core", rail_only, LINK),
    "photonic-rails": FabricCost("an optical circuit switch a rail", photonic_rails, LINK),
    "regional-circuits": FabricCost("regional circuits, fat-tree of the other interfaces", regional_circuits, LINK),
    "ideal-switch": FabricCost("ideal switch", ideal_switch, LINK),
    "random-regular": FabricCost("random regular graph, wired directly", regular_graph, LINK),
    "generalized-kautz": FabricCost("generalized Kautz graph, wired directly", regular_graph, LINK),
    "torus-2d": FabricCost("torus of two axes, wired directly", torus_2d, LINK),
    "torus-3d": FabricCost("torus of three axes, wired directly", torus_3d, LINK),
    "hypercube": FabricCost("hypercube, wired directly", hypercube, LINK),
}
"""Counting rules by fabric; a new one is one rule and one line here."""

SAME_BILL: Mapping[str, str] = {
    "expander": "random-regular",
    "twisted-torus-2d": "torus-2d",
    "twisted-torus-3d": "torus-3d",
}
"""Fabrics with the parts of another, wired otherwise."""


SHIPPED_BOOKS = {"2023": "prices-2023.yaml", "h200": "prices-h200.yaml"}
"""Their files, beside this module, by the name that `--prices` takes."""

DEFAULT_BOOK = SHIPPED_BOOKS["2023"]


@cache
def shipped_price_book(name: str) -> PriceBook:
    """A book of `SHIPPED_BOOKS`; files of ours, read as they are (a test puts them through the validating reader)."""
    text = files("topoopt.costs").joinpath(SHIPPED_BOOKS[name]).read_text(encoding="utf-8")
    return price_book(YAML(typ="safe", pure=True).load(text))


def default_price_book() -> PriceBook:
    """The book of 2023."""
    return shipped_price_book("2023")


def cost_usd(count: Count, book: PriceBook, gbps: float) -> float:
    """Price of the parts when a port of a server runs at `gbps`."""
    usd = 0.0
    for speed, parts in _by_speed(count):
        rate, links = book.priced_as(gbps * speed)
        usd += links * sum(part.count * book.quote(part.part, rate).usd for part in parts)
    return usd


def _by_speed(count: Count) -> list[tuple[float, list[PartCount]]]:
    """Parts by their rate over that of a port of a server."""
    parts: dict[float, list[PartCount]] = {}
    for part in count.parts:
        parts.setdefault(part.speed, []).append(part)
    return list(parts.items())


def affordable_gbps(count: Count, book: PriceBook, usd: float) -> float | None:
    """Largest rate at which the network costs at most `usd`, exactly: the root on its piece of the cost.

    Returns:
        None when not even the slowest listed rate can be paid.
    """
    listed = sorted({rate / speed for speed, _ in _by_speed(count) for rate in book.rates_gbps})
    rates, costs = np.array(listed), np.array([cost_usd(count, book, rate) for rate in listed])
    if usd >= costs[-1]:
        return float(rates[-1] * (usd / costs[-1])) if costs[-1] > 0 else None
    # Prices need not rise with the rate everywhere, so the highest piece that holds the budget counts.
    pieces = np.flatnonzero((costs[:-1] <= usd) & (usd < costs[1:]))
    if not len(pieces):
        return None
    low = int(pieces[-1])
    part = (usd - costs[low]) / (costs[low + 1] - costs[low])
    return float(rates[low] + part * (rates[low + 1] - rates[low]))


def port_gbps(
    fabric: str, size: NetworkSize, link_gbps: float, book: PriceBook, counting: Counting
) -> tuple[float, str | None]:
    """Rate of a port of a server on a fabric of a cluster with `link_gbps` interfaces, and a remark on it.

    Raises:
        InputError: the network does not exist for the cluster.
    """
    entry = FABRIC_COSTS[fabric]
    if entry.rate not in (SERVER, EQUAL):
        return link_gbps, None
    count = entry.count(size, book, counting)
    total = size.degree * link_gbps / count.server_ports
    if entry.rate == SERVER:
        return total, None
    budget = cost_usd(FABRIC_COSTS[DIRECT_CONNECT].count(size, book, counting), book, link_gbps)
    rate = affordable_gbps(count, book, budget)
    if rate is None:
        slowest = book.rates_gbps[0]
        share = budget / cost_usd(count, book, slowest)
        return min(share * slowest, total), f"the money buys {share:.3g} of a port of {slowest:g} Gbit/s a server"
    if rate > total:
        return total, f"full rate for less; {rate:.4g} Gbit/s would cost as much"
    return rate, "costs as much as direct connect"


def bill_of(fabric: str, size: NetworkSize, gbps: float, book: PriceBook, counting: Counting = Counting.PORTS) -> Bill:
    """The bill of a fabric whose servers have ports of `gbps`.

    Raises:
        InputError: the network does not exist for the cluster.
    """
    entry = FABRIC_COSTS[fabric]
    count = entry.count(size, book, counting)
    rate, links = book.priced_as(gbps)
    notes = list(count.notes)
    if links != 1:
        notes.append(f"{gbps:.6g} Gbit/s is beyond the price book: counted as {links:.4g} links of {rate:g} Gbit/s")
    elif gbps < rate:
        notes.append(f"{gbps:.6g} Gbit/s is below the price book: parts of {rate:g} Gbit/s")
    elif gbps not in book.rates_gbps:
        notes.append(f"{gbps:.6g} Gbit/s is between two rates of the price book: interpolated")
    lines = []
    for part in count.parts:
        rate, links = book.priced_as(gbps * part.speed)
        quote = book.quote(part.part, rate)
        own = rate if part.part in RATED_PARTS else None
        lines.append(BillLine(part.part, part.where, own, links * part.count, quote.usd, quote.watts))
    return Bill(fabric, entry.title, size.servers, count.server_ports, gbps, tuple(lines), tuple(notes), count.switches)


def equal_cost_gbps(
    fabric: str, size: NetworkSize, usd: float, book: PriceBook, counting: Counting = Counting.PORTS
) -> float | None:
    """Rate of a server's port at which a fabric costs `usd`; None when the slowest listed rate costs more.

    Raises:
        InputError: the network does not exist for the cluster.
    """
    return affordable_gbps(FABRIC_COSTS[fabric].count(size, book, counting), book, usd)


def cost_equivalent_fat_tree_gbps(
    degree: int, link_gbps: float, oversubscription: float = 1.0, book: PriceBook | None = None
) -> float:
    """NIC rate at which a fat-tree costs as much per server as `degree` patch-panel interfaces of `link_gbps`.

    Counted by ports in use, so the number of servers does not matter. Capped at degree * link_gbps: a fat-tree that
    costs less for the same rate is not made faster. Where the money does not buy the slowest port of the book, the rate
    is the share of one that it buys.

    Args:
        degree, link_gbps: of the direct-connect network.
        oversubscription: of the rack switches of the fat-tree.
        book: prices; None: those shipped.
    """
    prices = default_price_book() if book is None else book
    size = NetworkSize(1, degree, oversubscription)
    budget = cost_usd(FABRIC_COSTS[DIRECT_CONNECT].count(size, prices, Counting.PORTS), prices, link_gbps)
    tree = oversubscribed_at_racks(size, prices, Counting.PORTS)
    gbps = affordable_gbps(tree, prices, budget)
    if gbps is None:
        slowest = prices.rates_gbps[0]
        gbps = slowest * budget / cost_usd(tree, prices, slowest)
    return min(gbps, degree * link_gbps)


AGGREGATION = "aggregation"


@dataclass(frozen=True)
class SimulatedFabric:
    """A fabric a job was simulated on.

    Attributes:
        name: in results.
        fabric: which one.
        nic_gbps: rate of the one NIC of a server, where it was given.
        oversubscription: where it was given.
        layer: switches that are oversubscribed, `rack` or `aggregation`.
    """

    name: str
    fabric: str
    nic_gbps: float | None = None
    oversubscription: float | None = None
    layer: str = "rack"


def fabric_prices(cluster: Cluster, fabrics: Sequence[SimulatedFabric], book: PriceBook) -> FabricPrices:
    """Prices of direct connect (patch panels, look-ahead) and of simulated fabrics, ports in use counted.

    Fabrics without a counting rule, or that exist for the cluster in a simulation only, get no price.
    """
    prices = {DIRECT_CONNECT: _price(cluster, SimulatedFabric(DIRECT_CONNECT, DIRECT_CONNECT), book)}
    for fabric in fabrics:
        try:
            prices.setdefault(fabric.name, _price(cluster, fabric, book))
        except InputError:
            continue
    priced = tuple((name, usd) for name, usd in prices.items() if usd is not None)
    return FabricPrices(book.name, book.sha256, priced)


def _price(cluster: Cluster, simulated: SimulatedFabric, book: PriceBook) -> float | None:
    fabric = SAME_BILL.get(simulated.fabric, simulated.fabric)
    if fabric == "fat-tree":
        return _fat_tree(cluster, simulated, book)
    if fabric == "oversubscribed-fat-tree" and simulated.layer == AGGREGATION:
        fabric = "aggregation-oversubscribed-fat-tree"
    if fabric not in FABRIC_COSTS:
        return None
    size = NetworkSize(cluster.servers, cluster.degree, simulated.oversubscription or 2.0)
    count = FABRIC_COSTS[fabric].count(size, book, Counting.PORTS)
    rate, _ = port_gbps(fabric, size, cluster.link_gbps, book, Counting.PORTS)
    if simulated.nic_gbps is not None:
        rate = simulated.nic_gbps / count.server_ports
    return cost_usd(count, book, rate)


def _fat_tree(cluster: Cluster, simulated: SimulatedFabric, book: PriceBook) -> float:
    """At its rate; where the money buys a share of the slowest port, the share is what is paid."""
    ratio = simulated.oversubscription or 1.0
    count = oversubscribed_at_racks(NetworkSize(cluster.servers, cluster.degree, ratio), book, Counting.PORTS)
    if simulated.nic_gbps is not None:
        return cost_usd(count, book, simulated.nic_gbps)
    rate = cost_equivalent_fat_tree_gbps(cluster.degree, cluster.link_gbps, ratio, book)
    return cost_usd(count, book, rate) * min(rate / book.rates_gbps[0], 1.0)


SHOWN = 3


@dataclass(frozen=True)
class Cabling:
    """Devices of a direct-connect network, and whether its circuits can be set.

    Attributes:
        device, ports: kind of device, and the ports of one.
        planes: d, or 2 d with look-ahead.
        devices_per_plane: so many hold the servers of a plane.
        devices: in all, planes that fit whole sharing one.
        crossing: circuits between servers of different devices; None: the circuits are not known.
        longest: servers of the longest ring or chain of circuits in one plane; None: not known.
        reordered: devices that hold a plane when each plane is patched in an order of its own (first fit); None: no
            order helps, or not known.
        cabled: whether all circuits can be set; None: not known, it depends on the topology.
        reason: why not, or why it is not known; empty if all can.
    """

    device: str
    ports: int
    planes: int
    devices_per_plane: int
    devices: int
    crossing: int | None
    longest: int | None
    reordered: int | None
    cabled: bool | None
    reason: str


def cabling_of(device: PricedDevice, servers: int, planes: int, switches: Int32s | None) -> Cabling:
    """Servers are patched to the devices of every plane in the same order.

    Args:
        device: of all planes.
        servers, planes: n, and all planes.
        switches: int32[d, n], server that interface j of server i sends to, -1 if dark; None: not known.
    """
    layer = block_layer(servers, planes, device.ports, device.switching_time_s or 0.0)
    per_plane = int(layer.switch_of.max()) + 1
    devices = devices_needed(servers, planes, device.ports)
    if per_plane == 1:
        return Cabling(device.name, device.ports, planes, 1, devices, 0, None, 1, True, "")
    too_many = f"{servers} servers take {per_plane} devices of {device.ports} ports ({device.name}) in every plane"
    if switches is None:
        reason = (
            f"{too_many}; a circuit joins ports of one device, so servers patched in order fall into {per_plane} "
            "clusters that no circuit joins"
        )
        return Cabling(device.name, device.ports, planes, per_plane, devices, None, None, None, None, reason)
    rows, tails = np.nonzero((switches >= 0) & (switches != np.arange(servers)))
    heads = switches[rows, tails]
    apart = np.flatnonzero(layer.switch_of[rows, tails] != layer.switch_of[rows, heads])
    hanging = [_hanging(row) for row in switches]
    longest = max(sizes[0] for sizes in hanging)
    reordered = max(_packed(sizes, device.ports) for sizes in hanging) if longest <= device.ports else None
    reason = ""
    if len(apart):
        named = ", ".join(f"plane {rows[i]}: {tails[i]} to {heads[i]}" for i in apart[:SHOWN])
        more = f" and {len(apart) - SHOWN} more" if len(apart) > SHOWN else ""
        hope = (
            f"no order of the servers helps: {longest} of them hang together in one plane"
            if reordered is None
            else f"patched in another order, plane by plane, they fit on {reordered} devices a plane"
        )
        reason = f"{too_many}; {len(apart)} circuits join servers of different devices ({named}{more}); {hope}"
    return Cabling(
        device.name, device.ports, planes, per_plane, devices, len(apart), longest, reordered, not len(apart), reason
    )


def _hanging(row: Int32s) -> list[int]:
    """Servers of each ring or chain of a partial permutation, largest first."""
    n = len(row)
    target = row.tolist()
    sent_to = np.zeros(n, dtype=bool)
    sent_to[row[row >= 0]] = True
    seen = [False] * n
    sizes = []
    for first in (*np.flatnonzero(~sent_to).tolist(), *range(n)):  # chains from their starts, then rings
        length, server = 0, first
        while server >= 0 and not seen[server]:
            seen[server] = True
            length, server = length + 1, target[server]
        sizes.append(length)
    return sorted(filter(None, sizes), reverse=True)


def _packed(sizes: list[int], ports: int) -> int:
    """Devices that hold all of them whole: first fit, largest first."""
    free: list[int] = []
    for size in sizes:
        index = next((index for index, left in enumerate(free) if left >= size), None)
        if index is None:
            free.append(ports - size)
        else:
            free[index] -= size
    return len(free)
