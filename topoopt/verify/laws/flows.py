"""Check a routing without a solver, and without code of the solvers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from topoopt.core.arrays import Floats
from topoopt.core.network import SourceFlow
from topoopt.core.process import end_if_left
from topoopt.core.proofs import Tolerance
from topoopt.core.topology import Topology
from topoopt.verify.laws.turning import arcs_by_step, seen_from_itself, stepped, steps_of

ROUNDING = Tolerance.ROUNDING.relative

PASSING = 2.0**-49
"""Part of all that passes a server by which sums of doubles may be off: a dozen roundings of 2^-53 each."""


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

    A flow conserves when what stays at a server differs from its demand by `tolerance` of that one entry at most, and
    by what doubles cannot tell (`PASSING`, of all that comes and leaves there). So an entry counts as delivered or not
    however large the others of its source are. Capacity is no constraint of its own: theta says how far every link is
    filled.
    """
    n, arcs = topology.servers, topology.arcs
    if n > 1 and flow.flow.shape == (1, len(arcs)) and demand.shape == (n, n):
        return _check_turned(topology, demand, flow, tolerance)
    if flow.flow.shape != (n, len(arcs)) or demand.shape != (n, n):
        return FlowCheck(math.inf, (f"flow has shape {flow.flow.shape}, demand {demand.shape}",))
    if not np.isfinite(flow.flow).all():
        return FlowCheck(math.inf, ("flow is not finite",))
    violations = []
    for s, a in np.argwhere(flow.flow < 0)[:5]:
        violations.append(f"source {s} sends {flow.flow[s, a]:g} over {arcs[a, 0]} -> {arcs[a, 1]}")
    comes, leaves = np.zeros((n, n)), np.zeros((n, n))
    for s in range(n):
        end_if_left()
        comes[s] = np.bincount(arcs[:, 1], weights=flow.flow[s], minlength=n)
        leaves[s] = np.bincount(arcs[:, 0], weights=flow.flow[s], minlength=n)
    stays = comes - leaves
    wanted = demand.copy()
    np.fill_diagonal(wanted, -demand.sum(axis=1))
    wrong = np.abs(stays - wanted) > tolerance * np.abs(wanted) + PASSING * (comes + leaves)
    for s, v in np.argwhere(wrong)[:5]:
        violations.append(f"source {s}: {stays[s, v]:.9g} stays at server {v}, demand is {wanted[s, v]:.9g}")
    if wrong.sum() > 5:
        violations.append(f"and {int(wrong.sum()) - 5} more servers where a flow is not conserved")
    theta = float((flow.flow.sum(axis=0) / topology.capacity).max(initial=0.0))
    return FlowCheck(theta, tuple(violations))


def _check_turned(topology: Topology, demand: Floats, flow: SourceFlow, tolerance: float) -> FlowCheck:
    """The same where one row says what every source sends: what stays, seen from the source, is computed once and held
    against the demand of each. All arcs of one step carry the same, the sum of the row over them.
    """
    n, row, dims = topology.servers, flow.flow[0], flow.dims
    classes = arcs_by_step(topology, dims)
    if classes is None:
        return FlowCheck(math.inf, ("one row of flow stands for all sources, but the servers differ in their arcs",))
    if not np.isfinite(row).all():
        return FlowCheck(math.inf, ("flow is not finite",))
    arcs = topology.arcs
    violations = [f"source 0 sends {row[a]:g} over {arcs[a, 0]} -> {arcs[a, 1]}" for a in np.flatnonzero(row < 0)[:5]]
    sent = row[classes]
    leaves = sent.sum(axis=0)
    comes = np.zeros(n)
    for step, part in zip(steps_of(topology, classes, dims), sent, strict=True):
        comes += stepped(part, step, dims)
    stays, passing = comes - leaves, PASSING * (comes + leaves)
    lost = 0
    for s in range(n):
        end_if_left()
        wanted = seen_from_itself(demand, s, dims)
        wanted[0] = -demand[s].sum()
        wrong = np.flatnonzero(np.abs(stays - wanted) > tolerance * np.abs(wanted) + passing)
        for v in wrong[: max(5 - lost, 0)]:
            there = int(np.flatnonzero(stepped(np.arange(n) == v, s, dims))[0])
            violations.append(f"source {s}: {stays[v]:.9g} stays at server {there}, demand is {wanted[v]:.9g}")
        lost += len(wrong)
    if lost > 5:
        violations.append(f"and {lost - 5} more servers where a flow is not conserved")
    theta = float((sent.sum(axis=1)[:, None] / topology.capacity[classes]).max(initial=0.0))
    return FlowCheck(theta, tuple(violations))


def check_hops(topology: Topology, flow: SourceFlow, max_hops: int) -> tuple[str, ...]:
    """Whether the flow is made of paths of at most `max_hops` hops, as its split `by_hop` must show.

    Every sum must hold but for what doubles cannot tell, so that no entry is too small to be looked at. It does when,
    for every source, hop 1 leaves the source only and no server sends on more with its hops up to k + 1 than came to it
    with hops up to k: what waits a step just has fewer hops. Conservation is for `check_flow` to say.
    """
    n, arcs = topology.servers, topology.arcs
    split = flow.by_hop
    if split is None or flow.flow.shape != (n, len(arcs)):
        return (f"no split of the flow by hops shows that paths have at most {max_hops} hops",)
    if split.ndim != 3 or split.shape[1:] != (n, len(arcs)) or len(split) > max_hops:
        return (f"the flow by hops has shape {split.shape}, at most ({max_hops}, {n}, {len(arcs)}) expected",)
    if not np.isfinite(split).all() or (split < 0).any():
        return ("the flow by hops has entries that are negative or not finite",)
    violations = []
    off = np.abs(split.sum(axis=0) - flow.flow) > PASSING * flow.flow
    for s, a in np.argwhere(off)[:5]:
        violations.append(f"source {s}: the hops over {arcs[a, 0]} -> {arcs[a, 1]} do not add up to the flow there")
    for s in range(n):
        end_if_left()
        came, left = np.zeros(n), np.zeros(n)
        came[s] = math.inf
        for k, layer in enumerate(split[:, s]):
            left += np.bincount(arcs[:, 0], weights=layer, minlength=n)
            early = np.flatnonzero(left > came * (1 + PASSING))
            if len(early):
                v = int(early[0])
                violations.append(
                    f"source {s}: server {v} has sent on {left[v]:.9g} with hop {k + 1}, but {came[v]:.9g} came before"
                )
                break
            came += np.bincount(arcs[:, 1], weights=layer, minlength=n)
    return tuple(violations)
