"""All executions that the search of Calculon goes through, without offloading and tiles of tensor parallelism."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import isqrt

import numpy as np

from topoopt.core.calculon import StepNetwork, TensorTransfers
from topoopt.core.language_model import LanguageModel
from topoopt.core.parallelism import Recompute
from topoopt.simulate.llm_training.calculon_records import CalculonRecords, records_of

Row = tuple[int, int, int, int, int, int, str, str, bool, bool, bool]


def divisors(number: int) -> list[int]:
    """All of them, ascending."""
    small = [one for one in range(1, isqrt(number) + 1) if number % one == 0]
    return small + [number // one for one in reversed(small) if one * one != number]


def calculon_space(model: LanguageModel, length: int, batch: int, gpus: int, first: StepNetwork) -> CalculonRecords:
    """Executions of `gpus` GPUs whose parts divide each other; the batch is the largest multiple of D within `batch`.

    Tensor parallelism stays on the network `first`, whose size limits it.
    """
    rows: list[Row] = []
    for t in divisors(gpus):
        if t > first.size or (first.must_be_filled and first.size % t):
            continue
        if model.hidden % t == 0 and model.heads % t == 0:
            rows += _with_tensor(model, length, batch, gpus, t)
    tensor, p, v, d, whole, b, recompute, transfers, sharded, redo, overlap = zip(*rows, strict=True)
    numbers = (np.array(column, dtype=np.float64) for column in (tensor, p, v, d, whole, b))
    flags = (np.array(column, dtype=bool) for column in (sharded, redo, overlap))
    return records_of(numbers, np.array(recompute), np.array(transfers), flags)


def _with_tensor(model: LanguageModel, length: int, batch: int, gpus: int, t: int) -> Iterator[Row]:
    for p in divisors(min(gpus // t, model.layers)):
        if gpus % (t * p) or model.layers % p:
            continue
        d = gpus // (t * p)
        if d > batch:
            continue
        whole = batch // d * d
        sizes = [b for b in divisors(whole // d) if b * length % t == 0]
        shared = (True, False) if d > 1 else (False,)
        chunks = divisors(model.layers // p) if p > 1 else [1]
        choices = product(chunks, sizes, Recompute, TensorTransfers, shared, (True, False), shared)
        for v, b, recompute, transfers, sharded, redo, overlap in choices:
            if redo and (transfers is not TensorTransfers.SEQUENCE or recompute is Recompute.FULL):
                continue
            yield t, p, v, d, whole, b, recompute.value, transfers.value, sharded, redo, overlap
