"""How far free servers are from being one piece to the optical switches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from formulations.shards.shard_classes import classes_of
from solvers.shards.regions import regions_of
from topoopt.core.optical_layer import OpticalLayer


@dataclass(frozen=True)
class Fragmentation:
    """Free servers, and the largest job whose every interface joins all its ranks (rings, as of AllReduce).

    Attributes:
        free: servers without a job.
        largest_job: servers of the largest such job that can be placed now.
        exact: the largest of all; else some sets of planes were left out, and there may be a larger one.
    """

    free: int
    largest_job: int
    exact: bool

    @property
    def index(self) -> float:
        """1 - largest job / free servers: 0 when one job can take all of them (or none is free)."""
        return 1.0 - self.largest_job / self.free if self.free else 0.0


def fragmentation(layer: OpticalLayer, free: NDArray[np.bool_], interfaces: int | None = None) -> Fragmentation:
    """The measure for jobs that use so many interfaces.

    Args:
        layer: the switches.
        free: bool[n], servers without a job.
        interfaces: 1 to d; None: d, all of them.

    Raises:
        ValueError: a number of interfaces outside this range.
    """
    used = layer.planes if interfaces is None else interfaces
    if not 1 <= used <= layer.planes:
        raise ValueError(f"a job uses 1 to {layer.planes} interfaces")
    classes = classes_of(layer)
    regions = regions_of(classes, used)
    largest = int(regions.free(classes.count(free)).max())
    return Fragmentation(int(free.sum()), largest, regions.all_sets)
