"""What a job puts on the links of a direct-connect network: bandwidth tax, path lengths, link loads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats


@dataclass(frozen=True, eq=False)
class TrafficFigures:
    """Traffic of one iteration on a topology with its routes and rings (TopoOpt, NSDI'23, section 5.4).

    Attributes:
        name: of the job.
        plan: what strategy on which topology, for people.
        servers, degree: of the cluster.
        allreduce_bytes, model_parallel_bytes: demanded, as sent by the members of the rings, and between servers.
        allreduce_link_bytes, model_parallel_link_bytes: float64[L], carried by each link; parallel links are links of
            their own that carry the same.
        byte_hops: float64[h + 1], part of the model-parallel bytes whose path has so many hops; empty without any.
        pair_hops: float64[h + 1], part of the routed ordered pairs whose path (each by its share) has so many hops.
        pair_bytes: float64[n, n], sent from row to column: by AllReduce from a ring member to the next, and
            model-parallel.
    """

    name: str
    plan: str
    servers: int
    degree: int
    allreduce_bytes: float
    model_parallel_bytes: float
    allreduce_link_bytes: Floats
    model_parallel_link_bytes: Floats
    byte_hops: Floats
    pair_hops: Floats
    pair_bytes: Floats

    @property
    def demanded_bytes(self) -> float:
        """Everything the network is asked to deliver."""
        return self.allreduce_bytes + self.model_parallel_bytes

    @property
    def link_bytes(self) -> Floats:
        """float64[L], carried by each link."""
        return self.allreduce_link_bytes + self.model_parallel_link_bytes

    @property
    def bandwidth_tax(self) -> float:
        """Bytes carried over links by bytes demanded; 1 if nothing is demanded."""
        return float(self.link_bytes.sum()) / self.demanded_bytes if self.demanded_bytes > 0 else 1.0

    @property
    def model_parallel_to_allreduce(self) -> float | None:
        """Q / A; None without AllReduce."""
        return self.model_parallel_bytes / self.allreduce_bytes if self.allreduce_bytes > 0 else None

    @property
    def mean_byte_hops(self) -> float | None:
        """Mean hops of a model-parallel byte; None without any."""
        return float(np.arange(len(self.byte_hops)) @ self.byte_hops) if len(self.byte_hops) else None
