"""One partial permutation of the servers per optical switch: which interface of each server carries which arc.

Interface j of every server is wired to switch j, so an arc i -> k on switch j leaves i and enters k by interface j.
Giving the arcs to switches so that none has two arcs out of or into one server is edge colouring of the bipartite
(tail, head) multigraph; its largest degree is enough colours (Koenig 1916), found here by alternating paths.
"""

from __future__ import annotations

import numpy as np

from topoopt.core.arrays import Int32s, Ints
from topoopt.core.errors import InputError, Problem
from topoopt.native import graph


def _colour(tails: Ints, heads: Ints, first: int, out: Int32s, into: Int32s) -> None:
    """Add unit arcs to out[colour, tail] = head and into[colour, head] = tail, using colours >= first."""
    send, receive = out.tolist(), into.tolist()
    for u, v in zip(tails.tolist(), heads.tolist(), strict=True):
        a = next(colour for colour in range(first, len(send)) if send[colour][u] < 0)
        b = next(colour for colour in range(first, len(send)) if receive[colour][v] < 0)
        # Colour a is free where u sends, b where v receives. The arcs of colours a, b, a, ... from v make a path that
        # cannot end at u; exchanging the two colours along it frees a at v.
        path, head = [], v
        while a != b and (tail := receive[a][head]) >= 0:
            path.append((tail, head, a, b))
            head = send[b][tail]
            if head < 0:
                break
            path.append((tail, head, b, a))
        for tail, head, colour, _ in path:
            send[colour][tail] = receive[colour][head] = -1
        for tail, head, _, colour in path:
            send[colour][tail], receive[colour][head] = head, tail
        send[a][u], receive[a][v] = v, u
    out[:], into[:] = send, receive


def assign_switches(n: int, degree: int, arcs: Int32s, multiplicity: Int32s, *, duplex: bool = False) -> Int32s:
    """int32[degree, n]: head reached from each server through each switch, -1 where dark.

    A displacement that every server has gets switches of its own, so a circulant needs one patch pattern per distance.
    Duplex links are given to switches so that an interface sends to and receives from the same other one, if that can
    be found; what is left then takes the two fibres of some interfaces apart.

    Args:
        n: servers.
        degree: switches, one per interface.
        arcs: int32[m, 2], distinct (tail, head).
        multiplicity: int32[m], parallel links per arc.
        duplex: arcs come in opposite pairs.

    Raises:
        InputError: some server sends or receives more than `degree` arcs.
    """
    sent = np.bincount(arcs[:, 0], weights=multiplicity, minlength=n)
    received = np.bincount(arcs[:, 1], weights=multiplicity, minlength=n)
    over = np.flatnonzero((sent > degree) | (received > degree))
    if len(over):
        raise InputError(
            [Problem("server has more links than interfaces", path=f"server {i}", allowed=f"<= {degree}") for i in over]
        )
    if duplex:
        return _paired(n, degree, arcs, multiplicity)
    out, into = np.full((2, degree, n), -1, dtype=np.int32)
    left, used = _shifted(n, arcs, multiplicity, out, into)
    tails, heads = np.repeat(arcs.astype(np.int64), left, axis=0).T
    _colour(tails, heads, used, out, into)
    return out


def _shifted(n: int, arcs: Int32s, multiplicity: Int32s, out: Int32s, into: Int32s) -> tuple[Ints, int]:
    """Give displacements that all servers have a switch each; what is left of each arc, and the switches used."""
    left = multiplicity.astype(np.int64).copy()
    shift = (arcs[:, 1].astype(np.int64) - arcs[:, 0]) % n
    used = 0
    servers = np.arange(n, dtype=np.int64)
    for displacement in np.unique(shift):
        rows = shift == displacement
        if int(rows.sum()) != n:
            continue
        for _ in range(int(left[rows].min())):
            out[used] = (servers + displacement) % n
            into[used] = (servers - displacement) % n
            used += 1
        left[rows] -= left[rows].min()
    return left, used


def _paired(n: int, degree: int, arcs: Int32s, multiplicity: Int32s) -> Int32s:
    """The same for links in opposite pairs: a matching a switch, as far as that is found."""
    ends = np.repeat(arcs, multiplicity, axis=0).astype(np.int64)
    ends = ends[ends[:, 0] < ends[:, 1]]
    out, left = graph.duplex_matchings(n, degree, ends)
    if not len(left):
        return out
    ends = ends[left]
    # Each server with links left has as many switches it does not use: these carry them with the links they have.
    apart = np.zeros(degree, dtype=np.bool_)
    for server, links in zip(*np.unique(ends, return_counts=True), strict=True):
        free = out[:, server] < 0
        needed = np.flatnonzero(free & ~apart)[: max(0, links - int((free & apart).sum()))]
        apart[needed] = True
    rows = np.flatnonzero(apart)
    switch, tail = np.nonzero(out[rows] >= 0)
    tails = np.concatenate((tail, ends.T.ravel()))
    heads = np.concatenate((out[rows][switch, tail], ends[:, ::-1].T.ravel())).astype(np.int64)
    fresh, into = np.full((2, len(rows), n), -1, dtype=np.int32)
    _colour(tails, heads, 0, fresh, into)
    out[rows] = fresh
    return out
