"""Bills of material follow from counts and a price book, and so do the rates at which two networks cost the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from ruamel.yaml import YAML

from topoopt.core.cluster import Cluster
from topoopt.core.errors import InputError
from topoopt.core.price_book import RATED_PARTS, Bill, BillLine, FabricPrices, PriceBook, price_book
from topoopt.costs import DIRECT_CONNECT, EQUAL, FABRIC_COSTS, SAME_BILL, SERVER
from topoopt.costs.rules import Count, Counting, NetworkSize, PartCount, oversubscribed_at_racks

SHIPPED_BOOKS = {"2023": "prices-2023.yaml", "h200": "prices-h200.yaml"}
"""Their files, beside this module, by the name that `--prices` takes."""

DEFAULT_BOOK = SHIPPED_BOOKS["2023"]


@cache
def shipped_price_book(name: str) -> PriceBook:
    """A book of `SHIPPED_BOOKS`; files of ours, read as they are (a test puts them through the validating reader)."""
    text = files("topoopt.costs").joinpath(SHIPPED_BOOKS[name]).read_text(encoding="utf-8")
    return price_book(YAML(typ="safe", pure=True).load(text))


def default_price_book() -> PriceBook:
    """The book of 2023."""
    return shipped_price_book("2023")


def cost_usd(count: Count, book: PriceBook, gbps: float) -> float:
    """Price of the parts when a port of a server runs at `gbps`."""
    usd = 0.0
    for speed, parts in _by_speed(count):
        rate, links = book.priced_as(gbps * speed)
        usd += links * sum(part.count * book.quote(part.part, rate).usd for part in parts)
    return usd


def _by_speed(count: Count) -> list[tuple[float, list[PartCount]]]:
    """Parts by their rate over that of a port of a server."""
    parts: dict[float, list[PartCount]] = {}
    for part in count.parts:
        parts.setdefault(part.speed, []).append(part)
    return list(parts.items())


def affordable_gbps(count: Count, book: PriceBook, usd: float) -> float | None:
    """Largest rate at which the network costs at most `usd`, exactly: the root on its piece of the cost.

    Returns:
        None when not even the slowest listed rate can be paid.
    """
    listed = sorted({rate / speed for speed, _ in _by_speed(count) for rate in book.rates_gbps})
    rates, costs = np.array(listed), np.array([cost_usd(count, book, rate) for rate in listed])
    if usd >= costs[-1]:
        return float(rates[-1] * (usd / costs[-1])) if costs[-1] > 0 else None
    # Prices need not rise with the rate everywhere, so the highest piece that holds the budget counts.
    pieces = np.flatnonzero((costs[:-1] <= usd) & (usd < costs[1:]))
    if not len(pieces):
        return None
    low = int(pieces[-1])
    part = (usd - costs[low]) / (costs[low + 1] - costs[low])
    return float(rates[low] + part * (rates[low + 1] - rates[low]))


def port_gbps(
    fabric: str, size: NetworkSize, link_gbps: float, book: PriceBook, counting: Counting
) -> tuple[float, str | None]:
    """Rate of a port of a server on a fabric of a cluster with `link_gbps` interfaces, and a remark on it.

    Raises:
        InputError: the network does not exist for the cluster.
    """
    entry = FABRIC_COSTS[fabric]
    if entry.rate not in (SERVER, EQUAL):
        return link_gbps, None
    count = entry.count(size, book, counting)
    total = size.degree * link_gbps / count.server_ports
    if entry.rate == SERVER:
        return total, None
    budget = cost_usd(FABRIC_COSTS[DIRECT_CONNECT].count(size, book, counting), book, link_gbps)
    rate = affordable_gbps(count, book, budget)
    if rate is None:
        slowest = book.rates_gbps[0]
        share = budget / cost_usd(count, book, slowest)
        return min(share * slowest, total), f"the money buys {share:.3g} of a port of {slowest:g} Gbit/s a server"
    if rate > total:
        return total, f"full rate for less; {rate:.4g} Gbit/s would cost as much"
    return rate, "costs as much as direct connect"


def bill_of(fabric: str, size: NetworkSize, gbps: float, book: PriceBook, counting: Counting = Counting.PORTS) -> Bill:
    """The bill of a fabric whose servers have ports of `gbps`.

    Raises:
        InputError: the network does not exist for the cluster.
    """
    entry = FABRIC_COSTS[fabric]
    count = entry.count(size, book, counting)
    rate, links = book.priced_as(gbps)
    notes = list(count.notes)
    if links != 1:
        notes.append(f"{gbps:.6g} Gbit/s is beyond the price book: counted as {links:.4g} links of {rate:g} Gbit/s")
    elif gbps < rate:
        notes.append(f"{gbps:.6g} Gbit/s is below the price book: parts of {rate:g} Gbit/s")
    elif gbps not in book.rates_gbps:
        notes.append(f"{gbps:.6g} Gbit/s is between two rates of the price book: interpolated")
    lines = []
    for part in count.parts:
        rate, links = book.priced_as(gbps * part.speed)
        quote = book.quote(part.part, rate)
        own = rate if part.part in RATED_PARTS else None
        lines.append(BillLine(part.part, part.where, own, links * part.count, quote.usd, quote.watts))
    listed = tuple(lines)
    return Bill(fabric, entry.title, size.servers, count.server_ports, gbps, listed, tuple(notes), count.switches)


def equal_cost_gbps(
    fabric: str, size: NetworkSize, usd: float, book: PriceBook, counting: Counting = Counting.PORTS
) -> float | None:
    """Rate of a server's port at which a fabric costs `usd`; None when the slowest listed rate costs more.

    Raises:
        InputError: the network does not exist for the cluster.
    """
    return affordable_gbps(FABRIC_COSTS[fabric].count(size, book, counting), book, usd)


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
    priced = tuple((name, usd) for name, usd in prices.items() if usd is not None)
    return FabricPrices(book.name, book.sha256, priced)


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
