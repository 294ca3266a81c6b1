"""Distances from many ranks at once against Dijkstra from one after the other."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topoopt.core.rated_network import RatedNetwork
from topoopt.verify.collective import distances, farthest


@given(st.integers(2, 9), st.integers(0, 3), st.integers(0, 10**6), st.booleans())
@settings(max_examples=60)
def test_farthest_is_the_largest_distance(ranks: int, switches: int, seed: int, relaying: bool) -> None:
    """Random links, ranks that pass nothing on, ways of no length, and ranks out of reach."""
    draw = np.random.default_rng(seed)
    nodes = ranks + switches
    ends = draw.integers(0, nodes, (3 * nodes, 2)).tolist()
    links = [(int(a), int(b), Fraction(1)) for a, b in ends if a != b]
    if not links:
        return
    network = RatedNetwork.of_links([node >= ranks for node in range(nodes)], links)
    lengths = draw.integers(0, 5, len(network.arcs)).tolist()
    sources = list(range(ranks))
    try:
        due = max(max(distances(network, one, lengths, relaying=relaying).values()) for one in sources)
    except ValueError:
        with pytest.raises(ValueError, match="out of reach"):
            farthest(network, lengths, sources, relaying=relaying)
        return
    assert farthest(network, lengths, sources, relaying=relaying) == due
