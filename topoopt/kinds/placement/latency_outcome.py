"""What a search for least makespan found, as a placement of the original problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solvers.placement.compaction import Compaction
from solvers.placement.latency_rates import in_given_orders
from solvers.placement.latency_search import LatencySearch, reason_of
from solvers.placement.link_shares import pack_links
from topoopt.core.arrays import Floats
from topoopt.core.errors import LimitError
from topoopt.core.placement import PlacementProblem
from topoopt.core.placement_solution import LinkShare
from topoopt.core.units import bytes_per_ms
from topoopt.core.verdict import StopReason
from topoopt.kinds.placement.outcome import PlacementOutcome
from topoopt.kinds.placement.tried_again import tried_again
from topoopt.simulate.placement.arrays import STATIC
from topoopt.simulate.placement.schedule import PlacedSchedule, simulated


def expanded(best: PlacedSchedule, exact: Compaction) -> PlacedSchedule:
    """A schedule of the problem reduced by exact rules, for the original one: idle sources are ready at once."""
    ways = (replace(way, tensor=int(exact.tensor_of[way.tensor])) for way in best.transfers)
    return replace(
        best,
        device=best.device[exact.block_of],
        start_ms=np.where(exact.idle, 0.0, best.start_ms[exact.block_of]),
        end_ms=np.where(exact.idle, 0.0, best.end_ms[exact.block_of]),
        transfers=tuple(sorted(ways, key=lambda way: (way.start_ms, way.tensor, way.target))),
    )


def sent_rates(search: LatencySearch, best: PlacedSchedule) -> Floats:
    """float64[servers, servers]: the rates; where they are chosen, only of pairs that send something."""
    if not search.allocate:
        return best.rates
    problem = search.problem
    server = [entry.server for entry in problem.devices]
    sends = np.zeros_like(best.rates, dtype=bool)
    for transfer in best.transfers:
        tensor = problem.tensors[transfer.tensor]
        if tensor.size_bytes:
            sends[server[int(best.device[tensor.producer])], server[transfer.target]] = True
    return np.where(sends, best.rates, 0.0)


def outcome_of(
    problem: PlacementProblem, search: LatencySearch, method: str, noted: str | None, exact: Compaction
) -> PlacementOutcome:
    """The best placement of a search, for the problem before exact reductions; rates as the physical links carry them.

    Args:
        problem: before the reductions.
        search, exact: of the reduced problem, and what was reduced.
        method: that ran.
        noted: for people.

    Raises:
        LimitError: there is none.
    """
    best, a = search.best, search.a
    if best is None:
        raise LimitError("no placement was found in time")
    links: list[LinkShare] = []
    notes: tuple[str, ...] = () if noted is None else (noted,)
    if a.sharing == STATIC:
        unit = bytes_per_ms(1.0)
        wanted = sent_rates(search, best) / unit
        rates_gbps, links = pack_links(search.problem.servers, wanted)
        if (rates_gbps * (1 + 1e-12) < wanted).any():
            if (rates_gbps * (1 + 1e-6) < wanted).any():
                notes += ("the physical links cannot carry the chosen rates; all were scaled down",)
            kept = in_given_orders(a, best, rates_gbps * unit)
            best = simulated(a, best.device, rates_gbps * unit, best.start_ms)
            best = kept if kept is not None and kept.makespan_ms < best.makespan_ms else best
    best = expanded(best, exact)
    claims = () if search.claim is None else (search.claim,)
    return PlacementOutcome(
        device=best.device.astype(np.int32),
        bounds=(search.floor, *claims, *tried_again(problem, best.makespan_ms, (search.floor, *claims), search.stop)),
        stopped_by=StopReason.CONVERGED if search.closed() else reason_of(search),
        method=method,
        start_ms=best.start_ms,
        end_ms=best.end_ms,
        transfers=best.transfers,
        link_shares=tuple(sorted(links, key=lambda share: (share.source, share.target, share.link))),
        notes=notes,
    )
