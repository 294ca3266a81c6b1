"""Real hosts: for each one a script for Open vSwitch and one for plain tc that give destinations their bandwidth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from topoopt.core.cluster import HostRates, HostSetting
from topoopt.formats.exporter import NOTES_FILE, Export, Exporter, ExportOptions, notes_bytes, refuse
from topoopt.formats.hosts.checks import check_hosts, check_neighbours, fitted
from topoopt.formats.hosts.policy_routing import traffic_of_hosts
from topoopt.formats.hosts.settings import MAX_RATES
from topoopt.formats.ovs.allocation_hosts import hosts_of_allocation
from topoopt.formats.ovs.placement_hosts import hosts_of_placement
from topoopt.formats.ovs.script import ovs_script
from topoopt.formats.ovs.tc_script import tc_script

HOST_RATES: dict[str, Callable[[Any, tuple[HostSetting, ...]], HostRates]] = {
    "placement": hosts_of_placement,
    "allocation": hosts_of_allocation,
}
"""How rates of hosts are read of the solutions of each kind."""

OLD_LIMIT_BPS = 34_000_000_000
"""Open vSwitch before 64-bit rates counts 32-bit bytes a second: 34.36 Gbit/s wrap to 0."""


def build(solution: Any, options: ExportOptions) -> Export:
    """Scripts of the rates in a solution.

    Raises:
        InputError: no rates, or hosts that no script is written for; InfeasibleError: rates exceed a link.
    """
    return host_export(HOST_RATES[solution.kind](solution, options.hosts), options.strict)


def host_export(wanted: HostRates, strict: bool) -> Export:
    """Scripts of any rates.

    Raises:
        InputError, InfeasibleError: as `build`.
    """
    if len(wanted.rates) > MAX_RATES:
        raise refuse("too many rates", value=len(wanted.rates), allowed=f"at most {MAX_RATES}")
    check_hosts(wanted)
    check_neighbours(wanted)
    rates = fitted(wanted)
    if not any(rate.rate_bps for rate in rates.rates):
        raise refuse("no rate above zero: nothing to configure")
    files: list[tuple[str, bytes]] = []
    for traffic in traffic_of_hosts(rates):
        name = rates.hosts[traffic.host].name
        files.append((f"{name}.ovs.sh", ovs_script(rates, traffic, strict)))
        files.append((f"{name}.tc.sh", tc_script(rates, traffic, strict)))
    notes = (*rates.notes, *_warnings(rates, strict), *LIMITS)
    files.append((NOTES_FILE, notes_bytes("Scripts for hosts, written by topoopt export", notes)))
    matrix = rate_table(rates)
    return Export(tuple(files), {"ovs": matrix, "tc": matrix}, notes)


def rate_table(rates: HostRates) -> dict[tuple[str, str, str], int]:
    """Bit/s by host, interface and destination."""
    table: dict[tuple[str, str, str], int] = defaultdict(int)
    for rate in rates.rates:
        if rate.rate_bps:
            host = rates.hosts[rate.source]
            table[host.name, host.links[rate.link].interface, rates.hosts[rate.destination].name] += rate.rate_bps
    return dict(table)


def _warnings(rates: HostRates, strict: bool) -> list[str]:
    links = [link for host in rates.hosts for link in host.links]
    largest = max((rate.rate_bps for rate in rates.rates), default=0) if strict else max(x.rate_bps for x in links)
    notes = []
    if largest > OLD_LIMIT_BPS:
        notes.append(
            f"WARNING: classes up to {largest / 1e9:g} Gbit/s; Open vSwitch that counts 32-bit rates wraps above 34: "
            "compare `tc class show` with the script after it is applied, or use the tc scripts"
        )
    hops: dict[tuple[int, int], int] = defaultdict(int)
    for rate in rates.rates:
        hops[rate.source, rate.destination] += rate.rate_bps > 0
    split = sum(count > 1 for count in hops.values())
    if split:
        notes.append(
            f"{split} pairs use several links: the kernel shares sockets out by weight, so that they need several "
            "(8 or more, such as NCCL_NSOCKS_PERTHREAD times NCCL_SOCKET_NTHREADS)"
        )
    notes.append("shares are limits" if strict else "shares are guaranteed; what others leave of a link may be used")
    return notes


LIMITS = (
    "traffic of the kernel's IPv4 sockets alone: RDMA (RoCE) passes by, such libraries must be set to use sockets",
    "the userspace datapath of Open vSwitch takes set_queue and ignores it: TOPOOPT_DATAPATH=netdev adds tc filters",
    "bandwidth above the shares may meet at a receiver, where its switch port divides it (not with --strict)",
    "answers (TCP ACKs) of pairs without a share of their own use the default queue, a thousandth at least",
    "addresses and names are defaults unless --hosts gives them; interfaces must exist and have no address of theirs",
)

EXPORTER = Exporter(
    kinds=tuple(HOST_RATES),
    makes="for each host HOST.ovs.sh (Open vSwitch) and HOST.tc.sh (tc): dry run, apply, teardown; NOTES.txt",
    limits=LIMITS,
    folder=True,
    build=build,
)
