"""Larger networks from smaller ones: line digraphs, copies of every server, Cartesian products (arXiv 2202.03356).

A network is its number of servers and int64[m, 2] unit arcs (tail, head); repeated rows are parallel links.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Ints


@dataclass(frozen=True, eq=False)
class UnitGraph:
    """Servers, and unit arcs int64[m, 2]; loops are not allowed."""

    servers: int
    arcs: Ints


def line_digraph(graph: UnitGraph) -> UnitGraph:
    """Links become servers, numbered by (tail, head); (u, v) is linked to every (v, w).

    Of a network of degree d with n servers: n d servers of degree d, one step more.
    """
    order = np.lexsort((graph.arcs[:, 1], graph.arcs[:, 0]))
    tails, heads = graph.arcs[order].T
    first = np.searchsorted(tails, np.arange(graph.servers + 1))
    out = np.diff(first)[heads]
    inside = np.arange(out.sum()) - np.repeat(np.cumsum(out) - out, out)
    start = np.repeat(np.arange(len(tails), dtype=np.int64), out)
    return UnitGraph(len(tails), np.column_stack((start, np.repeat(first[heads], out) + inside)).astype(np.int64))


def copied(graph: UnitGraph, copies: int) -> UnitGraph:
    """Server u in so many copies, u * copies to u * copies + copies - 1; u -> v links all copies of u to all of v."""
    one, other = (part.ravel() for part in np.indices((copies, copies)))
    rows = (graph.arcs[:, None, :] * copies + np.column_stack((one, other))).reshape(-1, 2)
    return UnitGraph(graph.servers * copies, rows)


def cartesian_product(left: UnitGraph, right: UnitGraph) -> UnitGraph:
    """Server (a, b) has the number a * n_right + b; linked where one of both moves along a link of its network."""
    across = np.arange(right.servers)[:, None, None]
    down = np.arange(left.servers)[:, None, None]
    first = (left.arcs * right.servers + across).reshape(-1, 2)
    second = (right.arcs + down * right.servers).reshape(-1, 2)
    return UnitGraph(left.servers * right.servers, np.concatenate((first, second)))
