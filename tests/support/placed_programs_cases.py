"""Tiny data of the formulations of placed graphs, for the golden rows and for the two builders of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from formulations import placed_graphs, placement_joint
from formulations.placed_graphs import BlockCut, FavouriteChildren, RateProblem
from formulations.placement_joint import JointPlacement, JointTensor
from formulations.programs import LpArrays
from tests.support import pyomo_placements
from topoopt.core.placement import Device, GraphOperator, Latency, PlacementProblem, Server, Tensor

THREE = PlacementProblem(
    "three",
    ("any",),
    tuple(GraphOperator(f"op{i}", (time,), 1) for i, time in enumerate((1.0, 2.0, 3.0))),
    (Tensor(0, (1,), 1000),),
    (Server("a", ()),),
    tuple(Device(f"d{i}", 0, 0, 2) for i in range(2)),
    Latency(),
)
"""Operators of 1, 2 and 3 ms, the first feeds the second; two devices that hold two each."""


def three_ms(tensor: int, source: int, target: int) -> float:
    """Every transfer takes 3 ms."""
    return 3.0


TWO_SENT = RateProblem(np.array([1.0, 0.0]), np.array([4.0, 1.0]), ((0, 1), (0, 2)), ((0, 1, 0.25),), np.ones(3))
"""Server 0 sends 4 to server 1, and then, a quarter of a ms later, 1 to server 2."""
POINT = [{(0, 1): 2.0, (0, 2): 4.0}]

RATE, LINKS = np.array([[0.0, 3.0], [2.0, 0.0]]), np.array([[2.0, 2.0], [2.0, 1.0]])
"""3 there and 2 back, over two planes, of which server 1 has a slow link to one."""

MEET = JointPlacement(
    time=np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]),
    group=(0, 1, 2),
    memory=(1.0, 1.0, 1.0),
    limit=(2.0, 2.0),
    server=(0, 1),
    tensors=(JointTensor(0, (2,), 4.0, (0.0, 0.0)), JointTensor(1, (2,), 2.0, (0.0, 0.0))),
    alpha_ms=0.5,
    capacity=np.ones(2),
    upper_ms=20.0,
    points={(0, 1): (2.0,), (1, 0): (1.0,)},
)
"""Two operators feed a third; a device on each of two servers holds two of them."""


def joined(server: tuple[int, int], volume: float) -> JointPlacement:
    """An operator of 1 ms feeds one of 2 ms; 3 ms within a server."""
    return JointPlacement(
        time=np.array([[1.0, 1.0], [2.0, 2.0]]),
        group=(0, 1),
        memory=(0.0, 0.0),
        limit=(np.inf, np.inf),
        server=server,
        tensors=(JointTensor(0, (1,), volume, (3.0, 3.0)),),
        alpha_ms=0.5,
        capacity=np.ones(2),
        upper_ms=20.0,
    )


FAMILY = FavouriteChildren(np.array([1.0, 2.0, 6.0]), {(0, 1): 3.0, (0, 2): 5.0, (1, 2): 4.0})
"""The first of three operators feeds both others, the second the third."""

CHAIN = BlockCut(np.array([4.0, 1.0, 2.0]), {(0, 1): 3.0, (0, 1, 2): 1.0}, 6.0, 1)
"""The middle of three blocks that share a tensor; another goes to it from the first."""

Build = tuple[Callable[[], LpArrays], Callable[[], Any]]

PLACED: dict[str, Build] = {
    "placement_makespan": (
        lambda: placed_graphs.placement_makespan_arrays(THREE, 10.0, three_ms),
        lambda: pyomo_placements.placement_makespan_pyomo(THREE, 10.0, three_ms),
    ),
    "block_cut": (
        lambda: placed_graphs.block_cut_arrays(CHAIN),
        lambda: pyomo_placements.block_cut_pyomo(CHAIN),
    ),
    "favourite_children": (
        lambda: placed_graphs.favourite_children_arrays(FAMILY),
        lambda: pyomo_placements.favourite_children_pyomo(FAMILY),
    ),
    "placement_rates": (
        lambda: placed_graphs.placement_rates_arrays(TWO_SENT, POINT),
        lambda: pyomo_placements.placement_rates_pyomo(TWO_SENT, POINT),
    ),
    **{
        f"link_packing{option}": (
            lambda scale=scale: placed_graphs.link_packing_arrays(RATE, LINKS, scale),
            lambda scale=scale: pyomo_placements.link_packing_pyomo(RATE, LINKS, scale),
        )
        for option, scale in {"": None, "/splits": 0.5}.items()
    },
    **{
        f"placement_joint{option}": (
            lambda data=data: placement_joint.build_arrays(data),
            lambda data=data: pyomo_placements.placement_joint_pyomo(data),
        )
        for option, data in {"": MEET, "/inside": joined((0, 0), 4.0), "/signal": joined((0, 1), 0.0)}.items()
    },
}
"""Array builder and Pyomo builder of the same data, by formulation and option."""
