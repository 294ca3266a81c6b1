"""Time model `rounds`; see `arrival`."""

from __future__ import annotations

from functools import partial

from topoopt.simulate.time_models.arrival import first_iterations, simulate_arrival
from topoopt.simulate.time_models.time_model import TimeModel

MODEL = TimeModel(
    "links serve segments in order of arrival, an AllReduce goes round by round; for figures",
    partial(simulate_arrival, rounds=True),
    partial(first_iterations, rounds=True),
)
