"""The fat-tree that costs as much as a direct-connect network (baseline of the TopoOpt paper)."""

from __future__ import annotations

from topoopt.core.price_book import PriceBook
from topoopt.costs import DIRECT_CONNECT, FABRIC_COSTS
from topoopt.costs.bills import affordable_gbps, cost_usd
from topoopt.costs.default_book import default_price_book
from topoopt.costs.fat_trees import oversubscribed_at_racks
from topoopt.costs.rule import Counting, NetworkSize


def cost_equivalent_fat_tree_gbps(
    degree: int, link_gbps: float, oversubscription: float = 1.0, book: PriceBook | None = None
) -> float:
    """NIC rate at which a fat-tree costs as much per server as `degree` patch-panel interfaces of `link_gbps`.

    Counted by ports in use, so the number of servers does not matter. Capped at degree * link_gbps: a fat-tree that
    costs less for the same rate is not made faster. Where the money does not buy the slowest port of the book, the rate
    is the share of one that it buys.

    Args:
        degree, link_gbps: of the direct-connect network.
        oversubscription: of the rack switches of the fat-tree.
        book: prices; None: those shipped.
    """
    prices = default_price_book() if book is None else book
    size = NetworkSize(1, degree, oversubscription)
    budget = cost_usd(FABRIC_COSTS[DIRECT_CONNECT].count(size, prices, Counting.PORTS), prices, link_gbps)
    tree = oversubscribed_at_racks(size, prices, Counting.PORTS)
    gbps = affordable_gbps(tree, prices, budget)
    if gbps is None:
        slowest = prices.rates_gbps[0]
        gbps = slowest * budget / cost_usd(tree, prices, slowest)
    return min(gbps, degree * link_gbps)
