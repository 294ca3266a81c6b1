"""What the networks that a solution compares cost: that of the plan, and each fabric the job was simulated on."""

from __future__ import annotations

from collections.abc import Sequence

from topoopt.core.bill import FabricPrices
from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError
from topoopt.core.price_book import PriceBook
from topoopt.costs import DIRECT_CONNECT, FABRIC_COSTS, Counting, NetworkSize
from topoopt.costs.bills import cost_usd, port_gbps
from topoopt.costs.equivalence import cost_equivalent_fat_tree_gbps
from topoopt.costs.fat_trees import oversubscribed_at_racks

FAT_TREE = "fat-tree"


def fabric_prices(
    cluster: Cluster,
    fabrics: Sequence[str],
    book: PriceBook,
    *,
    fat_tree_gbps: float | None = None,
    oversubscription: float = 1.0,
) -> FabricPrices:
    """Prices of direct connect (patch panels, look-ahead) and of simulated fabrics, ports in use counted.

    Args:
        cluster: its size and rate.
        fabrics: names of simulated fabrics; those without a counting rule get no price.
        book: prices.
        fat_tree_gbps, oversubscription: of the simulated fat-tree; None: the rate of equal cost.
    """
    size = NetworkSize(cluster.servers, cluster.degree, oversubscription)
    prices = []
    for fabric in dict.fromkeys((DIRECT_CONNECT, *fabrics)):
        if fabric == FAT_TREE:
            rate = fat_tree_gbps or cost_equivalent_fat_tree_gbps(
                cluster.degree, cluster.link_gbps, oversubscription, book
            )
            usd = cost_usd(oversubscribed_at_racks(size, book, Counting.PORTS), book, rate)
            if fat_tree_gbps is None:  # where the money buys a share of the slowest port, the share is what is paid
                usd *= min(rate / book.rates_gbps[0], 1.0)
            prices.append((fabric, usd))
        elif fabric in FABRIC_COSTS:
            try:
                rate, _ = port_gbps(fabric, size, cluster.link_gbps, book, Counting.PORTS)
                count = FABRIC_COSTS[fabric].count(size, book, Counting.PORTS)
            except InputError:  # the fabric was simulated in another shape than the rule counts
                continue
            prices.append((fabric, cost_usd(count, book, rate)))
    return FabricPrices(book.name, book.sha256, tuple(prices))
