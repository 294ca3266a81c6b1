"""The search of a job once for each way in which its links may be shared, and the better plan of all.

A way that lets transfers go before AllReduces wants other strategies than one that serves in order of arrival, so each
has its part of the proposals, and of the time, and none starts from what another found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from solvers.job.loop import Keep, LoopResult
from solvers.stop import Stop, first_part
from topoopt.core.cluster import Cluster, LinkSharing


@dataclass(frozen=True, eq=False)
class SharedPlan:
    """What a search ends with, and the cluster with links shared as it takes them."""

    result: LoopResult
    cluster: Cluster


Search = Callable[[Cluster, int, Stop, Keep], LoopResult]
"""A search on a cluster with so many proposals."""


def best_order(
    cluster: Cluster,
    sharings: Sequence[LinkSharing],
    search: Search,
    *,
    budget: int,
    stop: Stop,
    keep: Callable[[Callable[[], SharedPlan]], None],
) -> SharedPlan:
    """The best plan over all ways to share links, of the first one where two are as good.

    Args:
        cluster: servers and links.
        sharings: at least one.
        search: does each.
        budget: proposals in all, of which each has as many.
        stop: when to end; each has its part of what is left.
        keep: offered the best so far.
    """
    best: SharedPlan | None = None
    for place, sharing in enumerate(sharings):
        if best is not None and stop.reason() is not None:
            break
        left, own = len(sharings) - place, replace(cluster, link_sharing=sharing)
        part = stop if left == 1 or stop.deadline is None else first_part(stop, 1.0 / left, float("inf"))
        share = budget // len(sharings) + (place < budget % len(sharings))
        before = best

        def offered(found: Callable[[], LoopResult], before: SharedPlan | None = before, own: Cluster = own) -> None:
            keep(lambda: _better(before, SharedPlan(found(), own)))

        best = _better(before, SharedPlan(search(own, share, part, offered), own))
    if best is None:
        raise ValueError("no way to share links")
    return best


def _better(before: SharedPlan | None, found: SharedPlan) -> SharedPlan:
    """The better of two, with the way there of both, its first plan, and the proposals of both."""
    if before is None:
        return found
    first, second = before.result, found.result
    made = first.proposals + second.proposals
    if second.iteration_time_ms >= first.iteration_time_ms:
        said = _note(found)
        kept = replace(first, proposals=made, stopped_by=second.stopped_by, notes=(*first.notes, said))
        return replace(before, result=kept)
    later = [replace(point, proposals=first.proposals + point.proposals) for point in second.convergence]
    reached = min((point.best_ms for point in first.convergence), default=float("inf"))
    way = (*first.convergence, *(point for point in later if point.best_ms < reached))
    notes = (*second.notes, _note(before))
    kept = replace(second, initial_ms=first.initial_ms, proposals=made, convergence=way, notes=notes)
    return replace(found, result=kept)


def _note(other: SharedPlan) -> str:
    return f"links shared {other.cluster.link_sharing.value}: {other.result.iteration_time_ms:.6g} ms"
