"""A direct-connect topology: directed arcs between servers, and the permutation each optical switch realises."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topoopt.core.cluster import LinkDirection


@dataclass(frozen=True, eq=False)
class Topology:
    """Directed multigraph over the servers; a bidirectional link is two opposite arcs.

    Attributes:
        servers: n.
        degree: d, interfaces per server; no server sends or receives more than d arcs (parallel arcs counted).
        links: how interfaces are patched.
        arcs: int32[m, 2], rows (tail, head), sorted, distinct.
        multiplicity: int32[m], parallel links of each arc, at least 1.
        switches: int32[d, n]; switches[j, i] is the server that interface j of server i sends to, -1 if dark; every
            row is a partial permutation (one optical switch each).
        offsets: ring distances present at every server, ascending (both p and n - p for bidirectional links), when the
            topology is a circulant; empty otherwise.
        origin: how it was made, for people (`totient paper {1,5}`, `1 ring + 2 matchings`, ...).
    """

    servers: int
    degree: int
    links: LinkDirection
    arcs: NDArray[np.int32]
    multiplicity: NDArray[np.int32]
    switches: NDArray[np.int32]
    offsets: tuple[int, ...] = ()
    origin: str = ""

    def arc_ids(self) -> NDArray[np.int32]:
        """int32[n, n]: index into `arcs` of tail -> head, -1 where there is none."""
        table = np.full((self.servers, self.servers), -1, dtype=np.int32)
        table[self.arcs[:, 0], self.arcs[:, 1]] = np.arange(len(self.arcs), dtype=np.int32)
        return table
