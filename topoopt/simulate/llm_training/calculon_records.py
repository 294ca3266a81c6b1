"""Executions that the Calculon model evaluates: one a row, a column for each choice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]
Names = NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class CalculonRecords:
    """Executions, one a row; all arrays have the same length.

    Attributes:
        tensor, pipeline, chunks, data: t, p, v, D.
        batch: sequences of an iteration.
        micro_batch: b.
        recompute: values of `Recompute`.
        transfers: values of `TensorTransfers`.
        sharded: replicas share the states of the optimizer.
        redo: activations are gathered again for the backward pass.
        data_overlap: gradients are reduced during the backward pass.
    """

    tensor: Numbers
    pipeline: Numbers
    chunks: Numbers
    data: Numbers
    batch: Numbers
    micro_batch: Numbers
    recompute: Names
    transfers: Names
    sharded: Flags
    redo: Flags
    data_overlap: Flags
