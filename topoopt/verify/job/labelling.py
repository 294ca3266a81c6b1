"""The least cost of choosing one split per operator, a lower bound by dynamic programming over a forest of edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.verify.job.wire import Between


@dataclass(frozen=True, eq=False)
class Forest:
    """Operators joined by a spanning forest of their edges.

    Attributes:
        parent: per operator its parent in the forest, itself for a root.
        order: operators, children before parents.
        edge: per operator the index of the edge to its parent, -1 for a root.
        loose: indices of the edges outside the forest.
    """

    parent: tuple[int, ...]
    order: tuple[int, ...]
    edge: tuple[int, ...]
    loose: tuple[int, ...]


def spanning_forest(count: int, edges: tuple[Between, ...]) -> Forest:
    """Forest of the edges that can cost most (Kruskal); the others are left loose."""
    root = list(range(count))

    def find(x: int) -> int:
        while root[x] != x:
            root[x] = root[root[x]]
            x = root[x]
        return x

    near: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    loose = []
    heaviest_first = sorted(range(len(edges)), key=lambda e: (-float(edges[e].byte_hops.max()), e))
    for e in heaviest_first:
        a, b = find(edges[e].producer), find(edges[e].consumer)
        if a == b:
            loose.append(e)
            continue
        root[a] = b
        near[edges[e].producer].append((edges[e].consumer, e))
        near[edges[e].consumer].append((edges[e].producer, e))
    parent, edge, seen, order = list(range(count)), [-1] * count, [False] * count, []
    for start in range(count):
        if seen[start]:
            continue
        seen[start] = True
        stack = [start]
        while stack:
            here = stack.pop()
            order.append(here)
            for there, e in near[here]:
                if not seen[there]:
                    seen[there] = True
                    parent[there], edge[there] = here, e
                    stack.append(there)
    return Forest(tuple(parent), tuple(order[::-1]), tuple(edge), tuple(sorted(loose)))


@dataclass(frozen=True, eq=False)
class Costs:
    """Two costs of a labelling, each a sum over operators (by split) and over edges (by both splits).

    `first` are float64 arrays per operator. `second` too; `edges` are float64[producer splits, consumer splits] of
    the second cost, per edge.
    """

    first: tuple[Floats, ...]
    second: tuple[Floats, ...]
    edges: tuple[Floats, ...]


def least_labelling(forest: Forest, between: tuple[Between, ...], costs: Costs, weight: float) -> tuple[float, float]:
    """(first, second) of a labelling of least weight * first + (1 - weight) * second over the forest.

    Loose edges are charged to their consumer at the least over the producer's splits, so the least weighted sum is a
    lower bound on that of every labelling of the whole graph.
    """
    first = [cost.copy() for cost in costs.first]
    second = [cost.copy() for cost in costs.second]
    for e in forest.loose:
        second[between[e].consumer] += costs.edges[e].min(axis=0)
    total_first = total_second = 0.0
    for here in forest.order:
        above = forest.parent[here]
        if above == here:
            best = int(np.argmin(weight * first[here] + (1 - weight) * second[here]))
            total_first += float(first[here][best])
            total_second += float(second[here][best])
            continue
        e = forest.edge[here]
        step = costs.edges[e] if between[e].producer == here else costs.edges[e].T  # [here, above]
        mixed = weight * first[here][:, None] + (1 - weight) * (second[here][:, None] + step)
        best_here = np.argmin(mixed, axis=0)
        first[above] += first[here][best_here]
        second[above] += second[here][best_here] + step[best_here, np.arange(step.shape[1])]
    return total_first, total_second


def largest_of_least(
    forest: Forest, between: tuple[Between, ...], costs: Costs, offset: float, *, steps: int = 30
) -> float:
    """max over w in [0, 1] of min over labellings of w * first + (1 - w) * (offset + second).

    The inner minimum is concave and piecewise linear in w, so cutting planes find its maximum: every labelling gives a
    line above it; the next w is where the best rising and the best falling line cross. Every value met is a valid
    lower bound on max(first, offset + second) of any labelling, so stopping early is safe.
    """

    def line(weight: float) -> tuple[float, float]:
        a, b = least_labelling(forest, between, costs, weight)
        return a, offset + b

    low, high = line(0.0), line(1.0)  # (value at w = 1, value at w = 0)
    best = max(low[1], high[0])
    for _ in range(steps):
        # Lines at low w rise if first > second there, and fall at high w; otherwise an end point is the maximum.
        rise, fall = low[0] - low[1], high[1] - high[0]
        if rise <= 0 or fall <= 0:
            break
        weight = (high[1] - low[1]) / (rise + fall)
        crossing = low[1] + weight * rise
        middle = line(weight)
        value = weight * middle[0] + (1 - weight) * middle[1]
        best = max(best, value)
        if value >= crossing * (1 - 1e-12):
            break
        if middle[0] > middle[1]:
            low = middle
        else:
            high = middle
    return best
