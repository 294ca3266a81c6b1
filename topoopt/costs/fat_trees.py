"""Three-tier fat-trees, one NIC a server; and rails, a NIC an interface, the same ones of all servers on one rail.

By ports in use, a server of a full-bisection tree takes 5 switch ports, 6 transceivers and 3 fibres: a port, two
transceivers and a fibre to its rack switch, and two ports, two transceivers and a fibre to each of the two tiers above.
Oversubscription divides what is above it. By devices, the k-ary tree is built: all switches have k ports, and every
rack and pod in use has all its uplinks; equal to the former for n = k^3 / 4 servers.

A rail-optimised fat-tree is the same tree of all interfaces. Rail-only (Wang et al., arXiv:2307.12169) leaves out its
core, that joins rails: traffic between them passes the network inside a server. Regional circuits (Liao et al., MixNet,
arXiv:2501.03905) have some interfaces in such a tree, and the others on ports of optical switches.
"""

from __future__ import annotations

from topoopt.core.graphs import fat_tree_count
from topoopt.core.price_book import OCS_PORT, SWITCH_PORT, TRANSCEIVER, PriceBook
from topoopt.costs.rule import (
    Count,
    Counting,
    NetworkSize,
    PartCount,
    devices_needed,
    fibres,
    impossible,
    interfaces,
    together,
)


def _count(
    size: NetworkSize,
    counting: Counting,
    rack_ratio: float,
    aggregation_ratio: float,
    nics: int = 1,
    *,
    core: bool = True,
) -> Count:
    """A tree of so many NICs a server; without its core tier the ports that lead there are left out too."""
    n = size.servers * nics
    if counting is Counting.PORTS:
        rack, top = n / rack_ratio, n / (rack_ratio * aggregation_ratio) if core else 0.0
        ports = float(n + 2 * (rack + top))
        return _parts(size, nics, ports, (float(n), rack, top), ())
    tree = fat_tree_count(n, rack_ratio, aggregation_ratio)
    k, half = tree.arity, tree.arity // 2
    note = f"{k}-ary: {tree.racks} rack, {tree.aggregations} aggregation and {tree.cores} core switches of {k} ports"
    notes = [note]
    for name, uplinks, ratio in (
        ("rack", tree.rack_uplinks, rack_ratio),
        ("aggregation", tree.aggregation_uplinks, aggregation_ratio),
    ):
        if ratio > 1 and uplinks and abs(half / uplinks - ratio) > 1e-9:
            notes.append(f"{name} switches of {half} downlinks and {uplinks} uplinks: {half / uplinks:.4g}:1")
    if core:
        ports = float(k * tree.switches)
        return _parts(size, nics, ports, (float(n), float(tree.rack_cables), float(tree.core_cables)), tuple(notes))
    # an aggregation switch without uplinks needs half the ports, so that one does what two did
    below = tree.racks + -(-tree.aggregations // 2)
    text = f"{k}-ary without core: {tree.racks} rack and {below - tree.racks} aggregation switches of {k} ports"
    return _parts(size, nics, float(k * below), (float(n), float(tree.rack_cables), 0.0), (text,))


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


def full_bisection(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """No tier is oversubscribed."""
    return _count(size, counting, 1.0, 1.0)


def oversubscribed_at_racks(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """Rack switches have fewer uplinks, so there are fewer switches of both tiers above."""
    return _count(size, counting, size.oversubscription, 1.0)


def oversubscribed_at_aggregation(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """Aggregation switches have fewer uplinks, so there are fewer cores."""
    return _count(size, counting, 1.0, size.oversubscription)


def rail_optimised(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """A full-bisection tree of all interfaces."""
    return _count(size, counting, 1.0, 1.0, size.degree)


def rail_only(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """The same without its core."""
    return _count(size, counting, 1.0, 1.0, size.degree, core=False)


def regional_circuits(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """A full-bisection tree of the interfaces that are not optical; an OCS port for each of the others.

    Raises:
        InputError: no interface is optical, or all are.
    """
    optical = size.optical_interfaces
    if not 0 < optical < size.degree:
        raise impossible("regional-circuits", "interfaces on both networks are needed", "cluster.optical_interfaces")
    tree = _count(size, counting, 1.0, 1.0, size.degree - optical)
    number = float(size.servers * optical)
    ports, notes = number, tree.notes
    device = book.device(OCS_PORT)
    if counting is Counting.DEVICES and device is not None:
        devices = devices_needed(size.servers, optical, device.ports)
        notes = (*notes, f"{devices} optical switches of {device.ports} ports, of which {int(number)} are used")
        ports = float(devices * device.ports)
    circuits = (fibres(number, "server to optical switch"), PartCount(OCS_PORT, "regions", ports))
    return Count(size.degree, together(tree.parts, interfaces(size, optical), circuits), notes)
