"""Names of array types: what the numbers are; shapes are said where arrays are used."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Int32s: TypeAlias = NDArray[np.int32]
Bools: TypeAlias = NDArray[np.bool_]
