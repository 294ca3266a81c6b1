"""What scripts for hosts do, found by following their commands; shares no code with what writes them.

The scripts of a folder are read as one network: addresses say which host and interface a next hop or a destination
is. Every command must be understood. What is rebuilt is the rate of every host, interface and destination; on the way
the promises are checked: whole numbers, guarantees within every link in both directions, one queue for each
destination of a bridge, next hops weighted like the rates, every rule with its table.
"""

from __future__ import annotations

from collections import defaultdict
from ipaddress import IPv4Address
from pathlib import Path

from tests.support.read_back.commands import Machine, read_machine, refused

Rates = dict[tuple[str, str, str], int]
Owners = dict[IPv4Address, tuple[Machine, str]]
WEIGHT_STEP = 256


def interpret(folder: Path) -> dict[str, Rates]:
    """Bit/s by host, interface and destination, of each rendering in a folder.

    Raises:
        InputError: a command that is not understood, or a promise that is broken.
    """
    return {
        rendering: _rates([read_machine(file, rendering) for file in sorted(folder.glob(f"*.{rendering}.sh"))])
        for rendering in ("ovs", "tc")
    }


def _rates(machines: list[Machine]) -> Rates:
    """The matrix, and the promises."""
    owner: Owners = {}
    for machine in machines:
        for address, device in machine.addresses:
            if address.ip in owner:
                raise refused(machine.name, "an address of two hosts", address.ip)
            owner[address.ip] = machine, device
    rates: Rates = {}
    entering: dict[tuple[str, str], int] = defaultdict(int)
    for machine in machines:
        for interface, classes in machine.classes.items():
            least, root = sum(low for low, _ in classes.values()), machine.root[interface]
            if least > root:
                raise refused(machine.name, f"{interface} promises {least} of {root} bit/s")
            if 0 not in classes or any(low > high or high > root for low, high in classes.values()):
                raise refused(machine.name, f"{interface}: a guarantee above its limit, or no default queue")
            rates.update(_of_interface(machine, interface, owner))
        _check_rules(machine)
        _enter(machine, rates, owner, entering)
    for machine in machines:
        for interface, root in machine.root.items():
            if entering[machine.name, interface] > root:
                raise refused(machine.name, f"{interface} is promised {entering[machine.name, interface]} of {root}")
    return rates


def _owner(machine: Machine, owner: Owners, address: IPv4Address) -> tuple[Machine, str]:
    if address not in owner:
        raise refused(machine.name, "an address of no host", address)
    return owner[address]


def _of_interface(machine: Machine, interface: str, owner: Owners) -> Rates:
    chosen, classes = machine.chosen[interface], machine.classes[interface]
    queue: dict[str, int] = {}
    for target, number in chosen.items():
        there = _owner(machine, owner, target)[0].name
        if number not in classes or queue.setdefault(there, number) != number:
            raise refused(machine.name, f"{interface}: {there} has no queue, or two", number)
    if set(queue.values()) != set(classes) - {0} or len(set(queue.values())) != len(queue):
        raise refused(machine.name, f"{interface}: a queue of no destination, or of two", sorted(queue.values()))
    if machine.bridges and dict(machine.filters[interface]) != dict(chosen):
        raise refused(machine.name, f"{interface}: filters and flows differ")
    return {(machine.name, interface, there): classes[number][0] for there, number in queue.items()}


def _check_rules(machine: Machine) -> None:
    for table in machine.routes:
        if len(machine.rules[table]) != 1:
            raise refused(machine.name, f"table {table} without a rule of its own")
    for table, (source,) in ((table, rules) for table, rules in machine.rules.items()):
        if source == "all":
            continue
        devices = {device for _, device, _ in next(iter(machine.routes[table].values()))}
        if (IPv4Address(source), devices) not in ((a.ip, {device}) for a, device in machine.addresses):
            raise refused(machine.name, f"table {table} leads from {source} to another link")


def _enter(machine: Machine, rates: Rates, owner: Owners, entering: dict[tuple[str, str], int]) -> None:
    """Adds what a host sends to what the next hops receive; weights must follow the rates."""
    routed: Rates = {}
    for hops_by_target in (machine.routes[table] for table, rules in machine.rules.items() if rules == ["all"]):
        for target, hops in hops_by_target.items():
            there = _owner(machine, owner, target.network_address)[0].name
            sent = {device: rates.get((machine.name, machine.interface_of(device), there), 0) for _, device, _ in hops}
            total, weight = sum(sent.values()), sum(one for _, _, one in hops)
            for via, device, one in hops:
                if via is None or len(sent) != len(hops):
                    raise refused(machine.name, f"next hops to {there}")
                if total and abs(one / weight - sent[device] / total) > len(hops) / WEIGHT_STEP:
                    raise refused(machine.name, f"weights to {there} are not as the rates", one)
                receiver, at = _owner(machine, owner, via)
                entering[receiver.name, receiver.interface_of(at)] += sent[device]
                routed[machine.name, machine.interface_of(device), there] = sent[device]
    lost = [key for key, bps in rates.items() if key[0] == machine.name and routed.get(key) != bps]
    if lost:
        raise refused(machine.name, "a rate without a route", lost[0])
