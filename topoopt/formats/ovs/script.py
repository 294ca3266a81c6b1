"""Commands for Open vSwitch: QoS and queues at the interfaces, flows at the bridges that choose the queue."""

from __future__ import annotations

from topoopt.core.cluster import Host, HostLink, HostRates
from topoopt.formats.hosts.checks import reserved_bps
from topoopt.formats.hosts.policy_routing import HostTraffic, routing_commands, settings
from topoopt.formats.hosts.script import Command, burst_bytes, ceiling_bps, run_all, shares_script

COOKIE = "0x746f706f"
OWNER = "external_ids:owner=topoopt"
FILTERS_PER_PRIORITY = 2000
"""A hash table of u32 filters holds 2047."""


def ovs_script(rates: HostRates, traffic: HostTraffic, strict: bool) -> bytes:
    """The script of one host."""
    host = rates.hosts[traffic.host]
    commands: list[Command] = []
    for link in host.links:
        commands += [["bridge", link.bridge, link.interface], ["address", link.address, link.bridge]]
    commands.append(["address", f"{host.address}/32", "lo"])
    commands += [["setting", key, str(value)] for key, value in settings(rates, traffic)]
    for link, queues in zip(host.links, traffic.queues, strict=True):
        commands.append(["vsctl", *_qos(link, queues, strict)])
        commands += _flows(link, queues)
    commands += run_all(routing_commands(rates, traffic, bridged=True))
    return shares_script("ovs", host, "ip tc ovs-vsctl ovs-ofctl", _checks(host), commands)


def _checks(host: Host) -> list[Command]:
    return [["own_qos", link.interface] for link in host.links]


def _qos(link: HostLink, queues: tuple[tuple[int, tuple[str, ...], int], ...], strict: bool) -> list[str]:
    """One transaction: the QoS of a port with all its queues. The root rate is stated, or it would be 100 Mbit/s."""
    names = ["queues:0=@q0", *(f"queues:{number}=@q{number}" for number, _, _ in queues)]
    root = f"other_config:max-rate={link.rate_bps}"
    words = ["--", "set", "port", link.interface, "qos=@qos", "--", "--id=@qos", "create", "qos", "type=linux-htb"]
    words += [root, *names, OWNER]
    words += _queue(0, reserved_bps(link), link.rate_bps, "other_config:priority=7")
    for number, _, bps in queues:
        words += _queue(number, bps, ceiling_bps(bps, link.rate_bps, strict))
    return words


def _queue(number: int, least_bps: int, most_bps: int, *more: str) -> list[str]:
    rates = [f"other_config:min-rate={least_bps}", f"other_config:max-rate={most_bps}"]
    burst = f"other_config:burst={8 * burst_bytes(least_bps)}"
    return ["--", f"--id=@q{number}", "create", "queue", *rates, burst, *more, OWNER]


def _flows(link: HostLink, queues: tuple[tuple[int, tuple[str, ...], int], ...]) -> list[Command]:
    """What the host sends to a destination goes to its queue; NORMAL then finds the port, as for all other traffic."""
    commands: list[Command] = []
    count = 0
    for number, addresses, _ in queues:
        for address in addresses:
            match = f"cookie={COOKIE},priority=200,ip,in_port=LOCAL,nw_dst={address}"
            flow = f"{match},actions=set_queue:{number},NORMAL"
            commands.append(["run", "ovs-ofctl", "-O", "OpenFlow13", "add-flow", link.bridge, flow])
            priority = 1 + count // FILTERS_PER_PRIORITY
            commands.append(["classify", link.interface, address, format(number + 1, "x"), str(priority)])
            count += 1
    return commands
