"""Bills of material from counts and a price book, and the rates at which two networks cost the same."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.price_book import RATED_PARTS, Bill, BillLine, PriceBook
from topoopt.costs import DIRECT_CONNECT, EQUAL, FABRIC_COSTS, SERVER
from topoopt.costs.rule import Count, Counting, NetworkSize


def cost_usd(count: Count, book: PriceBook, gbps: float) -> float:
    """Price of the parts when a port of a server runs at `gbps`."""
    rate, links = book.priced_as(gbps)
    return links * sum(part.count * book.quote(part.part, rate).usd for part in count.parts)


def _listed_costs(count: Count, book: PriceBook) -> Floats:
    """float64[r]: price at each listed rate; linear between them, proportional to the rate beyond the fastest."""
    return np.array([cost_usd(count, book, rate) for rate in book.rates_gbps])


def affordable_gbps(count: Count, book: PriceBook, usd: float) -> float | None:
    """Largest rate at which the network costs at most `usd`, exactly: the root on its piece of the cost.

    Returns:
        None when not even the slowest listed rate can be paid.
    """
    rates, costs = np.array(book.rates_gbps), _listed_costs(count, book)
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
    total = size.degree * link_gbps
    if entry.rate == SERVER:
        return total, None
    if entry.rate != EQUAL:
        return link_gbps, None
    budget = cost_usd(FABRIC_COSTS[DIRECT_CONNECT].count(size, book, counting), book, link_gbps)
    count = entry.count(size, book, counting)
    found = affordable_gbps(count, book, budget)
    if found is None:
        slowest = book.rates_gbps[0]
        share = budget / cost_usd(count, book, slowest)
        return min(share * slowest, total), f"the money buys {share:.3g} of a port of {slowest:g} Gbit/s a server"
    if found > total:
        return total, f"full rate for less; {found:.4g} Gbit/s would cost as much"
    return found, "costs as much as direct connect"


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
        quote = book.quote(part.part, rate)
        own = rate if part.part in RATED_PARTS else None
        lines.append(BillLine(part.part, part.where, own, links * part.count, quote.usd, quote.watts))
    return Bill(fabric, entry.title, size.servers, count.server_ports, gbps, tuple(lines), tuple(notes))


def equal_cost_gbps(
    fabric: str, size: NetworkSize, usd: float, book: PriceBook, counting: Counting = Counting.PORTS
) -> float | None:
    """Rate of a server's port at which a fabric costs `usd`; None when the slowest listed rate costs more.

    Raises:
        InputError: the network does not exist for the cluster.
    """
    return affordable_gbps(FABRIC_COSTS[fabric].count(size, book, counting), book, usd)
