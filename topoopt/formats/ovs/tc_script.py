"""Commands for plain tc: an HTB class for every destination at the interfaces, filters by destination address.

For hosts without Open vSwitch, and for classes above 34 Gbit/s: tc carries rates of 64 bits.
"""

from __future__ import annotations

from topoopt.core.cluster import HostLink, HostRates
from topoopt.formats.hosts.checks import reserved_bps
from topoopt.formats.hosts.policy_routing import HostTraffic, routing_commands, settings
from topoopt.formats.hosts.script import Command, burst_bytes, ceiling_bps, run_all, shares_script
from topoopt.formats.ovs.script import FILTERS_PER_PRIORITY

HANDLE = "7106"
ROOT = "ffff"


def tc_script(rates: HostRates, traffic: HostTraffic, strict: bool) -> bytes:
    """The script of one host."""
    host = rates.hosts[traffic.host]
    commands: list[Command] = []
    for link in host.links:
        commands += [["address", link.address, link.interface], ["run", "ip", "link", "set", link.interface, "up"]]
    commands.append(["address", f"{host.address}/32", "lo"])
    commands += [["setting", key, str(value)] for key, value in settings(rates, traffic)]
    for link, queues in zip(host.links, traffic.queues, strict=True):
        commands += run_all(_classes(link, queues, strict))
        commands += run_all(_filters(link, queues))
    commands += run_all(routing_commands(rates, traffic, bridged=False))
    checks = [["own_qdisc", link.interface] for link in host.links]
    return shares_script("tc", host, "ip tc", checks, commands)


def _classes(link: HostLink, queues: tuple[tuple[int, tuple[str, ...], int], ...], strict: bool) -> list[Command]:
    root = ["tc", "qdisc", "replace", "dev", link.interface, "root", "handle", f"{HANDLE}:", "htb", "default", "1"]
    full = link.rate_bps
    whole = _class(link, "", ROOT, full, full)
    commands = [root, whole, _class(link, ROOT, "1", reserved_bps(link), full, "prio", "7")]
    for number, _, bps in queues:
        commands.append(_class(link, ROOT, format(number + 1, "x"), bps, ceiling_bps(bps, full, strict)))
    return commands


def _class(link: HostLink, parent: str, number: str, least_bps: int, most_bps: int, *more: str) -> Command:
    head = ["tc", "class", "add", "dev", link.interface, "parent", f"{HANDLE}:{parent}", "classid"]
    rates = [f"{HANDLE}:{number}", "htb", "rate", f"{least_bps}bit", "ceil", f"{most_bps}bit"]
    bursts = ["burst", f"{burst_bytes(least_bps)}b", "cburst", f"{burst_bytes(most_bps)}b"]
    quantum = ["quantum", str(min(60_000, max(1514, least_bps // 800)))]
    return [*head, *rates, *bursts, *quantum, *more]


def _filters(link: HostLink, queues: tuple[tuple[int, tuple[str, ...], int], ...]) -> list[Command]:
    commands: list[Command] = []
    for number, addresses, _ in queues:
        for address in addresses:
            priority = str(1 + len(commands) // FILTERS_PER_PRIORITY)
            head = ["tc", "filter", "add", "dev", link.interface, "parent", f"{HANDLE}:", "protocol", "ip"]
            match = ["prio", priority, "u32", "match", "ip", "dst", f"{address}/32"]
            commands.append([*head, *match, "flowid", f"{HANDLE}:{number + 1:x}"])
    return commands
