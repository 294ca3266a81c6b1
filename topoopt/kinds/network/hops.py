"""Distances in a network: how many pairs are so many hops apart, against the Moore tree, and how far demand goes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.topology import Topology
from topoopt.drawing.format import number, percent
from topoopt.drawing.svg import percentage
from topoopt.kinds.network.figures import NetworkFigures, moore_counts

MOST_ROWS = 16
"""Longer tables are summed in classes of several hops."""


@dataclass(frozen=True)
class HopRow:
    """Pairs of servers at one distance, or in a class of distances.

    Attributes:
        hops: the distance, in words.
        pairs: ordered pairs at it.
        share: of all pairs.
        moore: pairs at it in the Moore tree; no network of the degree has more within any number of hops.
        demand: share of the demand.
        width, mark: length of the bar of `pairs`, place of the mark of `moore`, as part of the width.
    """

    hops: str
    pairs: int
    share: str
    moore: str
    demand: str
    width: str
    mark: str


def hop_rows(figures: NetworkFigures) -> tuple[HopRow, ...]:
    """Rows by distance, ascending; pairs without a path come last."""
    hops, demand = figures.hops, figures.demand
    topology = figures.solution.topology
    n = topology.servers
    off = ~np.eye(n, dtype=bool)
    farthest = int(hops.max())
    joined = off & (hops > 0)
    pairs = np.bincount(hops[joined], minlength=farthest + 1)[1:]
    carried = np.bincount(hops[joined], weights=demand[joined], minlength=farthest + 1)[1:]
    moore = n * np.array(moore_counts(topology, farthest), dtype=np.int64)
    total, all_pairs = float(demand.sum()), n * (n - 1)
    size = -(-farthest // MOST_ROWS)
    starts = np.arange(0, farthest, size)
    table = [np.add.reduceat(column, starts) for column in (pairs, moore, carried)]
    cut = int((off & (hops < 0)).sum())
    largest = int(max(table[0].max(), table[1].max(), cut))
    rows = []
    for start, count, most, amount in zip(starts.tolist(), *(column.tolist() for column in table), strict=True):
        end = min(start + size, farthest)
        rows.append(
            HopRow(
                hops=str(end) if end == start + 1 else f"{start + 1}–{end}",
                pairs=count,
                share=percent(count / all_pairs),
                moore=f"{most:,}",
                demand=percent(amount / total if total > 0 else 0.0),
                width=percentage(count / largest),
                mark=percentage(most / largest),
            )
        )
    if cut:
        amount = float(demand[off & (hops < 0)].sum())
        share = percent(amount / total if total > 0 else 0.0)
        rows.append(HopRow("no path", cut, percent(cut / all_pairs), "–", share, percentage(cut / largest), ""))
    return tuple(rows)


def moore_hops(topology: Topology) -> tuple[int, float] | None:
    """Least diameter and mean hops of any network of this size and degree (Moore tree); None if none is connected."""
    n = topology.servers
    counts = moore_counts(topology, n - 1)
    if sum(counts) < n - 1:
        return None
    diameter = next((hop for hop in range(len(counts), 0, -1) if counts[hop - 1] > 0), 0)
    return diameter, sum(hop * count for hop, count in enumerate(counts, start=1)) / (n - 1)


def hop_text(figures: NetworkFigures) -> str:
    """How far the demand travels."""
    least, travelled = figures.least_hops, figures.travelled_hops
    text = f"The demand travels {number(travelled)} hops on average; on shortest paths it would be {number(least)}"
    detour = travelled / least - 1.0 if least > 0 else 0.0
    return f"{text}, so detours add {percent(detour)}." if detour >= 0.0005 else f"{text}: there are no detours."
