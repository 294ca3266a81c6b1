"""Clusters that each fabric of the table can be built for."""

from __future__ import annotations

from hypothesis import strategies as st

from topoopt.core.cluster import Cluster, LinkDirection

ANY_SIZE = ("fat-tree", "full-fat-tree", "ideal-switch", "oversubscribed-fat-tree", "random-regular")
"""Fabrics of any number of servers with two or more interfaces each."""

SIZES = {
    "torus-2d": ([4, 6, 8, 9, 10, 12, 15, 16], 4),
    "torus-3d": ([8, 12, 16, 18], 6),
    "twisted-torus-2d": ([6, 8, 10, 12, 15, 16], 4),
    "twisted-torus-3d": ([12, 16, 18], 6),
    "hypercube": ([2, 4, 8, 16], 4),
}
"""Servers, and the fewest interfaces for all of these."""


def cluster(servers: int, degree: int = 4, link_gbps: float = 100.0, *, one_way: bool = False) -> Cluster:
    """A cluster with defaults."""
    links = LinkDirection.UNIDIRECTIONAL if one_way else LinkDirection.BIDIRECTIONAL
    return Cluster(servers=servers, gpus_per_server=4, degree=degree, link_gbps=link_gbps, links=links)


@st.composite
def clusters(draw: st.DrawFn, fabric: str) -> Cluster:
    """A cluster of the fabric, small."""
    sizes, least = SIZES.get(fabric, (list(range(2, 13)), 2))
    degree = draw(st.integers(least, least + 4))
    return cluster(draw(st.sampled_from(sizes)), degree, one_way=fabric == "generalized-kautz")
