"""The one argument behind most bounds: work that starts late, must be done by one resource, and leaves much to do."""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Floats, Ints


def window_bound(release: Floats, work: Floats, tail: Floats) -> float:
    """Lower bound on the end of everything.

    Job j needs `work[j]` ms of a resource that does one thing at a time, not before `release[j]`, and at least
    `tail[j]` ms pass between its end and the end of everything. (Transfers that share a wire are such jobs.)

    Proof: for any set J of jobs the resource is busy for sum(work) ms after min(release), and the job of J that ends
    last is followed by at least min(tail). So T >= min release(J) + sum work(J) + min tail(J). Evaluated for the sets
    of all jobs released no earlier than one of them, of all jobs with no shorter tail than one of them, and of one job.
    """
    if not len(work):
        return 0.0
    best = float((release + work + tail).max())
    for first, second in ((release, tail), (tail, release)):
        order = np.argsort(-first, kind="stable")
        bound = first[order] + np.cumsum(work[order]) + np.minimum.accumulate(second[order])
        best = max(best, float(bound.max()))
    return best


def windows_by(resource: Ints, resources: int, release: Floats, work: Floats, tail: Floats) -> tuple[float, int]:
    """Largest `window_bound` over resources 0..resources-1, and the resource that gives it."""
    order = np.argsort(resource, kind="stable")
    cut = np.searchsorted(resource[order], np.arange(resources + 1))
    best, where = 0.0, 0
    for index in range(resources):
        chosen = order[cut[index] : cut[index + 1]]
        bound = window_bound(release[chosen], work[chosen], tail[chosen])
        if bound > best:
            best, where = bound, index
    return best, where


def latest_by(owner: Ints, owners: int, level: Floats, work: Floats) -> Floats:
    """float64[owners]: for each owner the largest level + sum of the work of its items of at least that level.

    With `level` the release of what an owner waits for and `work` its time on the owner's wire, this is the earliest
    the owner can have everything (`window_bound` without tails); with `level` what follows an item, it is the least
    time from the owner's end to the end of everything, the same argument read backwards. 0 for an owner of nothing.
    """
    latest = np.zeros(owners, dtype=np.float64)
    if not len(owner):
        return latest
    order = np.lexsort((-level, owner))
    who, total = owner[order], np.cumsum(work[order])
    first = np.searchsorted(who, who)
    before = np.where(first > 0, total[first - 1], 0.0)
    np.maximum.at(latest, who, level[order] + total - before)
    return latest
