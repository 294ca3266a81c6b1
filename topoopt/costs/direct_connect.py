"""Direct connect through optical devices (TopoOpt, NSDI'23, section 6.2): interface j of every server goes to plane j.

An interface has a NIC, a transceiver and a fibre to its plane, where it takes one port. With patch panels, a 1x2 switch
at the interface chooses between the active plane and a second one that is wired for the next job meanwhile
(look-ahead), so there are two panel ports.

Photonic rails (Opus, arXiv:2602.12521) join interface r of all servers to one optical circuit switch, two ports each.
"""

from __future__ import annotations

from functools import partial

from topoopt.core.price_book import OCS_PORT, ONE_BY_TWO_SWITCH, PATCH_PANEL_PORT, PriceBook
from topoopt.costs.rule import Count, Counting, NetworkSize, PartCount, devices_needed, fibres, interfaces, together


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
