"""Check a routing without a solver, and without code of the solvers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.network import SourceFlow
from topoopt.core.topology import Topology
from topoopt.core.verdict import Tolerance

ROUNDING = Tolerance.ROUNDING.relative


@dataclass(frozen=True)
class FlowCheck:
    """Outcome of `check_flow`: theta of the flow (largest load over capacity), and what is wrong with it."""

    theta: float
    violations: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.violations


def check_flow(topology: Topology, demand: Floats, flow: SourceFlow, *, tolerance: float = ROUNDING) -> FlowCheck:
    """Conservation of every source's flow at every server, no negative flow, and the theta it has.

    A flow conserves when what stays at a server differs from its demand by `tolerance` of the source's total demand at
    most. Capacity is no constraint of its own: theta says how far every link is filled.
    """
    n, arcs = topology.servers, topology.arcs
    if flow.flow.shape != (n, len(arcs)) or demand.shape != (n, n):
        return FlowCheck(math.inf, (f"flow has shape {flow.flow.shape}, demand {demand.shape}",))
    if not np.isfinite(flow.flow).all():
        return FlowCheck(math.inf, ("flow is not finite",))
    violations = []
    for s, a in np.argwhere(flow.flow < 0)[:5]:
        violations.append(f"source {s} sends {flow.flow[s, a]:g} over {arcs[a, 0]} -> {arcs[a, 1]}")
    stays = np.zeros((n, n))
    for s in range(n):
        stays[s] = np.bincount(arcs[:, 1], weights=flow.flow[s], minlength=n)
        stays[s] -= np.bincount(arcs[:, 0], weights=flow.flow[s], minlength=n)
    wanted = demand.copy()
    np.fill_diagonal(wanted, -demand.sum(axis=1))
    wrong = np.abs(stays - wanted) > tolerance * demand.sum(axis=1)[:, None]
    for s, v in np.argwhere(wrong)[:5]:
        violations.append(f"source {s}: {stays[s, v]:.9g} stays at server {v}, demand is {wanted[s, v]:.9g}")
    if wrong.sum() > 5:
        violations.append(f"and {int(wrong.sum()) - 5} more servers where a flow is not conserved")
    theta = float((flow.flow.sum(axis=0) / topology.multiplicity).max(initial=0.0))
    return FlowCheck(theta, tuple(violations))


def check_hops(topology: Topology, demand: Floats, flow: SourceFlow, max_hops: int) -> tuple[str, ...]:
    """Whether the flow is made of paths of at most `max_hops` hops, as its split `by_hop` must show.

    It is when, for every source, hop 1 leaves the source only and no server sends on more with its hops up to k + 1
    than came to it with hops up to k: what waits a step just has fewer hops. Conservation is for `check_flow` to say.
    """
    n, arcs = topology.servers, topology.arcs
    split = flow.by_hop
    if split is None:
        return (f"no split of the flow by hops shows that paths have at most {max_hops} hops",)
    if split.ndim != 3 or split.shape[1:] != (n, len(arcs)) or len(split) > max_hops:
        return (f"the flow by hops has shape {split.shape}, at most ({max_hops}, {n}, {len(arcs)}) expected",)
    if not np.isfinite(split).all() or (split < 0).any():
        return ("the flow by hops has entries that are negative or not finite",)
    slack = ROUNDING * demand.sum(axis=1)
    violations = []
    off = np.abs(split.sum(axis=0) - flow.flow) > slack[:, None]
    for s, a in np.argwhere(off)[:5]:
        violations.append(f"source {s}: the hops over {arcs[a, 0]} -> {arcs[a, 1]} do not add up to the flow there")
    for s in range(n):
        came, left = np.zeros(n), np.zeros(n)
        came[s] = math.inf
        for k, layer in enumerate(split[:, s]):
            left += np.bincount(arcs[:, 0], weights=layer, minlength=n)
            early = np.flatnonzero(left > came + slack[s])
            if len(early):
                v = int(early[0])
                violations.append(
                    f"source {s}: server {v} has sent on {left[v]:.9g} with hop {k + 1}, but {came[v]:.9g} came before"
                )
                break
            came += np.bincount(arcs[:, 1], weights=layer, minlength=n)
    return tuple(violations)
