"""Groups of co-located operators as the things that are placed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topoopt.core.arrays import Floats, Ints
from topoopt.simulate.placement.arrays import PlacementArrays


class GroupGraph(NamedTuple):
    """Groups, which of them exchange tensors, and what each needs.

    Attributes:
        neighbour_ptr: int64[G+1]; neighbour: int64, groups at the other end of a tensor, ascending.
        memory: int64[G].
        time: float64[G, k], inf where a member cannot run.
    """

    neighbour_ptr: Ints
    neighbour: Ints
    memory: Ints
    time: Floats


def group_graph(a: PlacementArrays) -> GroupGraph:
    """The groups of a problem."""
    groups, k = len(a.group_ptr) - 1, len(a.room)
    memory = np.zeros(groups, dtype=np.int64)
    np.add.at(memory, a.group, a.memory)
    time = np.zeros((groups, k), dtype=np.float64)
    np.add.at(time, a.group, a.time)
    producer = np.repeat(np.arange(len(a.needs)), np.diff(a.tensor_ptr))
    source = a.group[np.repeat(producer, np.diff(a.user_ptr))].astype(np.int64)
    target = a.group[a.user].astype(np.int64)
    other = source != target
    pairs = np.unique(np.concatenate((source[other] * groups + target[other], target[other] * groups + source[other])))
    counts = np.bincount(pairs // groups, minlength=groups)
    pointers = np.zeros(groups + 1, dtype=np.int64)
    np.cumsum(counts, out=pointers[1:])
    return GroupGraph(pointers, pairs % groups, memory, time)
