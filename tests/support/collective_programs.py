"""Programs of collectives on a network of two ranks and a switch, for the golden rows and the two builders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from formulations import flow_routing
from formulations.programs import LpArrays, with_names
from tests.support import pyomo_networks
from tests.support.collective_networks import network

SWITCHED = network(3, [(0, 1, 1), (0, 2, 2), (1, 2, 2), (2, 0, 2), (2, 1, 2)], [2])
"""Ranks 0 and 1 at switch 2, 2 GB/s each way, and 1 GB/s from 0 straight to 1."""

RATE, OWNERS = SWITCHED.gbytes_per_s, np.array([0, 1])


def _all_to_all(*, relaying: bool) -> LpArrays:
    names = flow_routing.all_to_all_rate_names(SWITCHED, relaying=relaying)
    return with_names(flow_routing.all_to_all_rate_arrays(SWITCHED, RATE, relaying=relaying)[0], *names)


def _steps(*, multicast: bool) -> LpArrays:
    names = flow_routing.step_schedule_names(SWITCHED, 2, 1, multicast=multicast)
    return with_names(flow_routing.step_schedule_arrays(SWITCHED, OWNERS, RATE, 1, multicast=multicast)[0], *names)


COLLECTIVE: dict[str, tuple[Callable[[], LpArrays], Callable[[], Any]]] = {
    "all_to_all_rate": (
        lambda: _all_to_all(relaying=True),
        lambda: pyomo_networks.all_to_all_rate_pyomo(SWITCHED, RATE),
    ),
    "all_to_all_rate/straight": (
        lambda: _all_to_all(relaying=False),
        lambda: pyomo_networks.all_to_all_rate_pyomo(SWITCHED, RATE, relaying=False),
    ),
    "allreduce_roots": (
        lambda: flow_routing.build_whole(SWITCHED, RATE),
        lambda: pyomo_networks.allreduce_roots_pyomo(SWITCHED, RATE),
    ),
    **{
        f"step_schedule{option}": (
            lambda copies=copies: _steps(multicast=copies),
            lambda copies=copies: pyomo_networks.step_schedule_pyomo(SWITCHED, OWNERS, RATE, 1, multicast=copies),
        )
        for option, copies in {"": False, "/multicast": True}.items()
    },
}
"""As `PROGRAMS` of the other formulations."""
