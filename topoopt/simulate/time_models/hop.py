"""Time model `hop`; see `arrival`."""

from __future__ import annotations

from functools import partial

from topoopt.simulate.time_models.arrival import first_iterations, simulate_arrival
from topoopt.simulate.time_models.time_model import TimeModel

MODEL = TimeModel(
    "as rounds, but an AllReduce sends the bytes of all its rounds at once; fast, for proposals of a search",
    partial(simulate_arrival, rounds=False),
    partial(first_iterations, rounds=False),
)
