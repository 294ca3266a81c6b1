"""Why guaranteed rates cannot all be met: an irreducible set of them, and the links they clash on."""

from __future__ import annotations

import numpy as np

from formulations.allocation.bandwidth_allocation import build_arrays
from formulations.allocation.bandwidth_allocation_data import SharedCapacities, Shares, program_of
from solvers.backends import SOLVERS, SolverLimits, infeasible_subset
from solvers.stop import Stop
from topoopt.core.errors import LimitError
from topoopt.core.proofs import Status

SHOWN = 12
"""Names listed in a message."""

ROUNDING = 1e-9
"""Relative excess of guarantees over a capacity that is forgiven."""


def clashing_guarantees(network: SharedCapacities, shares: Shares, stop: Stop) -> str | None:
    """None if the guarantees fit, else the transfers and links of an irreducible infeasible subset, in words.

    Raises:
        LimitError: the limit came before this was known.
    """
    if not shares.base.any():
        return None
    if network.single_route:
        load = np.bincount(
            network.shared,
            weights=network.use * shares.base[network.owner[network.route]],
            minlength=len(network.capacity),
        )
        if (load <= network.capacity * (1 + ROUNDING)).all():
            return None
    program = build_arrays(program_of(network, shares))
    if not network.single_route:
        found = SOLVERS["highs"](program, SolverLimits(time_s=stop.remaining_s()))
        if found.x is not None:
            return None
        if found.status is not Status.INFEASIBLE:
            raise LimitError(f"it is not known whether the guarantees can be met: {found.message}")
    subset = infeasible_subset(program, SolverLimits(time_s=stop.remaining_s()))
    if not subset.infeasible:
        raise LimitError("the guarantees cannot all be met; the limit came before it was known which")
    rows = [member.index for member in subset.members if member.kind == "row"]
    fits = len(network.capacity)
    links = [f"{network.names[r]} ({network.capacity[r]:g} Gbit/s)" for r in rows if r < fits]
    kept = [r - fits for r in rows if fits <= r < fits + len(shares.base)]
    wanted = [f"{shares.names[t]} ({shares.base[t]:g} Gbit/s)" for t in kept]
    more = "" if subset.irreducible else " (perhaps not all of them are needed)"
    if len(wanted) == 1:
        return f"the guaranteed rate of {wanted[0]} does not fit on {_listed(links)}{more}"
    return f"the guaranteed rates of {_listed(wanted)} do not fit together on {_listed(links)}{more}"


def _listed(names: list[str]) -> str:
    shown = names[:SHOWN]
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return (", ".join(shown[:-1]) + " and " + shown[-1] if len(shown) > 1 and not rest else ", ".join(shown)) + rest
