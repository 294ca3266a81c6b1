"""What a network costs: its parts counted by ports in use, at the prices of a book.

Counts of the TopoOpt paper (NSDI'23, section 6.2): an interface of the plan's network has a NIC, a transceiver, a fibre
to its patch panel, a 1x2 switch and a port on the panels of both planes. A fat-tree whose uplinks are divided by r at
the racks and by a at the aggregation switches has n, n/r and n/(r a) cables in its tiers: a fibre each, a transceiver
and a port at every switch end, a transceiver and a NIC at a server. An ideal switch counts as d such trees.
Servers wired to each other have a NIC and a transceiver an interface, and a fibre for two of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from topoopt.core.cluster import Cluster
from topoopt.core.price_book import FIBRE, NIC, ONE_BY_TWO_SWITCH, PATCH_PANEL_PORT, SWITCH_PORT, TRANSCEIVER, PriceBook
from topoopt.verify.job.fabrics.asked import RACK, AskedFabric

Counts = Mapping[str, float]
"""Pieces by part."""

TORI = ("torus-2d", "torus-3d", "twisted-torus-2d", "twisted-torus-3d")
WIRED = ("random-regular", "expander", "generalized-kautz", "hypercube", *TORI)
"""Fabrics of links between the servers themselves."""


def price_at(counts: Counts, book: PriceBook, gbps: float) -> float:
    """USD of all parts at a rate; above the fastest listed one it is a multiple of that, below the slowest that."""
    fastest = book.rates_gbps[-1]
    usd = sum(count * _unit_usd(part, book, min(gbps, fastest)) for part, count in counts.items())
    return usd * max(1.0, gbps / fastest)


def _unit_usd(name: str, book: PriceBook, gbps: float) -> float:
    part = book.part(name)
    usd = [quote.usd for quote in part.quotes]
    at = float(np.interp(gbps, part.rates_gbps, usd)) if part.rates_gbps else usd[0]
    return at * (book.length.least_m + book.length.most_m) / 2 if name == FIBRE else at


def plan_parts(servers: int, degree: int) -> Counts:
    """Direct connect over patch panels with a look-ahead plane."""
    ends = float(servers * degree)
    return {NIC: ends, TRANSCEIVER: ends, FIBRE: ends, ONE_BY_TWO_SWITCH: ends, PATCH_PANEL_PORT: 2 * ends}


def tree_parts(servers: int, rack_ratio: float = 1.0, aggregation_ratio: float = 1.0) -> Counts:
    """A three-tier fat-tree, one port a server."""
    rack, core = servers / rack_ratio, servers / (rack_ratio * aggregation_ratio)
    ends = servers + 2 * (rack + core)
    return {NIC: servers, TRANSCEIVER: servers + ends, SWITCH_PORT: ends, FIBRE: servers + rack + core}


def equal_cost_gbps(cluster: Cluster, ratio: float, book: PriceBook) -> float:
    """NIC rate of the fat-tree that costs as much as the plan's network, at most that of all interfaces of a server.

    The largest rate that the money buys; where it does not buy the slowest listed one, the share of it that it does.
    """
    budget = price_at(plan_parts(1, cluster.degree), book, cluster.link_gbps)
    tree, rates = tree_parts(1, ratio), book.rates_gbps
    usd = [price_at(tree, book, rate) for rate in rates]
    found = rates[0] * budget / usd[0] if budget < usd[0] else 0.0
    for low in range(len(rates) - 1):
        if usd[low] <= budget < usd[low + 1]:
            part = (budget - usd[low]) / (usd[low + 1] - usd[low])
            found = rates[low] + part * (rates[low + 1] - rates[low])
    if budget >= usd[-1]:
        found = rates[-1] * budget / usd[-1]
    return min(found, cluster.degree * cluster.link_gbps)


def price_of(asked: AskedFabric, cluster: Cluster, book: PriceBook) -> float | None:
    """USD of a fabric for a cluster; None: not known how it is counted."""
    n, d, total = cluster.servers, cluster.degree, cluster.degree * cluster.link_gbps
    if asked.kind == "ideal-switch":
        one = cluster.link_gbps if asked.nic_gbps is None else asked.nic_gbps / d
        return d * price_at(tree_parts(n), book, one)
    if asked.kind == "fat-tree":
        tree = tree_parts(n, asked.ratio)
        if asked.nic_gbps is not None:
            return price_at(tree, book, asked.nic_gbps)
        rate = equal_cost_gbps(cluster, asked.ratio, book)
        return price_at(tree, book, rate) * min(rate / book.rates_gbps[0], 1.0)
    if asked.kind == "full-fat-tree":
        return price_at(tree_parts(n), book, total)
    if asked.kind == "oversubscribed-fat-tree":
        ratios = (asked.ratio, 1.0) if asked.layer == RACK else (1.0, asked.ratio)
        return price_at(tree_parts(n, *ratios), book, total)
    if asked.kind in WIRED:
        ends = n * (d // 2 * 2 if asked.kind in TORI else d)
        return price_at({NIC: ends, TRANSCEIVER: ends, FIBRE: ends // 2}, book, cluster.link_gbps)
    return None
