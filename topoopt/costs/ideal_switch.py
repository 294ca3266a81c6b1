"""The ideal switch. Nobody sells one, so it is counted as what comes nearest.

That is a full-bisection fat-tree with d ports of the link rate for every server: d times the parts of one.
"""

from __future__ import annotations

from topoopt.core.price_book import PriceBook
from topoopt.costs.fat_trees import full_bisection
from topoopt.costs.rule import Count, Counting, NetworkSize, PartCount


def ideal_switch(size: NetworkSize, book: PriceBook, counting: Counting) -> Count:
    """d fat-trees, each with one port of every server."""
    tree = full_bisection(size, book, counting)
    d = size.degree
    parts = tuple(PartCount(part.part, part.where, d * part.count) for part in tree.parts)
    return Count(d, parts, (f"hypothetical: counted as {d} full-bisection fat-trees side by side", *tree.notes))
