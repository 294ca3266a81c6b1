"""A counting rule lists the parts of a network (optical, direct, fat-tree, rails), its rate left open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from topoopt.core.clos import TIERS, ClosFabric, ClosStatement, clos_fabric, k_ary_tree
from topoopt.core.errors import InputError, Problem
from topoopt.core.price_book import (
    FIBRE,
    NIC,
    OCS_PORT,
    ONE_BY_TWO_SWITCH,
    PATCH_PANEL_PORT,
    SWITCH_PORT,
    TRANSCEIVER,
    PriceBook,
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
