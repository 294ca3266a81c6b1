"""Optical layers wired by hand."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from topoopt.core.cluster import OpticalLayer


def layer_from_table(
    switch_of: ArrayLike, switch_ports: int, switching_time_s: float, *, paired: bool = False
) -> OpticalLayer:
    """Any wiring: row j names the switch of interface j of every server."""
    return OpticalLayer(np.array(switch_of, dtype=np.int32), switch_ports, switching_time_s, paired)
