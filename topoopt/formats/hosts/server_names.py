"""Names of the servers of a topology, its interfaces and their addresses, for files that name them."""

from __future__ import annotations

from topoopt.core.cluster import Host, HostRates, HostSetting
from topoopt.core.topology import Topology
from topoopt.formats.hosts.checks import check_hosts
from topoopt.formats.hosts.settings import ServerLink, cable_address, make_hosts


def named_servers(topology: Topology, settings: tuple[HostSetting, ...], link_gbps: float = 1.0) -> tuple[Host, ...]:
    """Hosts of the servers of a topology; interface j of a server is patched to optical switch j.

    Raises:
        InputError: names that no file or script should hold, or settings that do not fit.
    """
    return numbered_servers(topology.servers, topology.degree, settings, link_gbps)


def numbered_servers(
    servers: int, interfaces: int, settings: tuple[HostSetting, ...], link_gbps: float = 1.0
) -> tuple[Host, ...]:
    """A host for each server: `server0`, ... with `eth1`, ... for its interfaces, unless a setting says otherwise.

    Every interface is one, dark or not.

    Raises:
        InputError: names that no file or script should hold, or settings that do not fit.
    """
    ports = [
        (
            f"server{server}",
            tuple(
                ServerLink(f"eth{port + 1}", cable_address(server * interfaces + port, 0), link_gbps)
                for port in range(interfaces)
            ),
        )
        for server in range(servers)
    ]
    hosts = make_hosts(tuple(ports), settings)
    check_hosts(HostRates("", hosts, ()))
    return hosts
