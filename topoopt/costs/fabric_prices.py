"""What the networks that a solution compares cost: that of the plan, and each fabric the job was simulated on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError
from topoopt.core.price_book import FabricPrices, PriceBook
from topoopt.costs import DIRECT_CONNECT, FABRIC_COSTS, SAME_BILL, Counting, NetworkSize
from topoopt.costs.bills import cost_usd, port_gbps
from topoopt.costs.equivalence import cost_equivalent_fat_tree_gbps
from topoopt.costs.fat_trees import oversubscribed_at_racks

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
    known = tuple((name, usd) for name, usd in prices.items() if usd is not None)
    return FabricPrices(book.name, book.sha256, known)


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
