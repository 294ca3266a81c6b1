r"""Certificate of the hop-LP: multipliers proving lambda = 1/theta <= L' < L for every topology (topology_gap 4.2).

For a guess L, any topology with lambda* <= L satisfies, with links x, y = min(x, 1), two-hop pairs p, flows f1 (one
hop), f2 (two), f3 (three or more, whose link loads are g), c1 = min(1, L D), c2 = min(1, (L D - 1)^+):

    out, into     sum_j x_ij <= d, sum_i x_ij <= d              link       y <= x
    spread        sum_j p_ikj <= d y_ik, sum_i p_ikj <= d y_kj  first, second   p_ikj <= y_ik, p_ikj <= y_kj
    direct        f1 <= (c1 - c2) y + c2 x                      two_hop    f2_ikj <= L D_ij p_ikj
    deliver       lambda D_ij <= f1_ij + sum_k f2_ikj + f3_ij   capacity   f1 + sum f2 over its links + g <= x
    long          3 sum f3 <= sum g                             leave, enter   sum_j f3_aj <= sum_b g_ab, and into b

All multipliers >= 0 and every variable boxed, so lambda* <= (right-hand sides) . mult + sum upper bound * (reduced
gain)^+. If that is below L then lambda* < L, and then lambda* is at most it. Evaluated here by formula; no matrix is
shared with the program that was solved.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from topoopt.verify.network.bounds import checked

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HopCertificate:
    """Multipliers, all >= 0, named as the rows above.

    Attributes:
        guess: L.
        out, into, leave, enter: float64[n].
        link, direct, deliver, capacity: float64[n, n].
        spread_first, spread_second: float64[n, n], by the pair i k and by the pair k j.
        first, second, two_hop: float64[n, n, n], index i, k, j.
        long: number.
    """

    guess: float
    out: Array
    into: Array
    leave: Array
    enter: Array
    link: Array
    direct: Array
    deliver: Array
    capacity: Array
    spread_first: Array
    spread_second: Array
    first: Array
    second: Array
    two_hop: Array
    long: float


def evaluate_hop(n: int, d: int, demand: NDArray[np.float64], certificate: HopCertificate) -> float:
    """Bound on theta, 0 when the multipliers do not prove lambda below the guess.

    Raises:
        InputError: bad demand, or multipliers of the wrong shape, negative or not finite.
    """
    c = certificate
    shapes = {1: ("out", "into", "leave", "enter"), 3: ("first", "second", "two_hop")}
    wrong = False
    for part in fields(c):
        given = np.asarray(getattr(c, part.name), dtype=np.float64)
        ndim = 0 if part.name in ("guess", "long") else 2
        for size, names in shapes.items():
            ndim = size if part.name in names else ndim
        wrong |= given.shape != (n,) * ndim or not np.isfinite(given).all() or bool((given < 0).any())
    demand = checked(n, d, demand, {"multipliers have a wrong shape, are negative or not finite": wrong})
    pairs = ~np.eye(n, dtype=np.bool_)
    triples = pairs[:, :, None] & pairs[None, :, :] & pairs[:, None, :]
    asked = c.guess * demand
    once = np.minimum(1.0, asked)
    again = np.minimum(1.0, np.maximum(asked - 1.0, 0.0))
    first, second, two_hop = (np.where(triples, m, 0.0) for m in (c.first, c.second, c.two_hop))
    value = d * float(c.out.sum() + c.into.sum())

    def gain(reduced: Array, upper: Array | float, where: NDArray[np.bool_]) -> float:
        return float((np.maximum(reduced, 0.0) * upper)[where].sum())

    value += c.guess * max(0.0, 1.0 - float((c.deliver * demand).sum()))
    value += gain(c.link + again * c.direct + c.capacity - c.out[:, None] - c.into[None, :], d, pairs)
    used = (once - again) * c.direct + d * (c.spread_first + c.spread_second) + first.sum(axis=2) + second.sum(axis=0)
    value += gain(used - c.link, 1.0, pairs)
    both = asked[:, None, :] * two_hop - c.spread_first[:, :, None] - c.spread_second[None, :, :] - first - second
    value += float(np.maximum(both, 0.0)[triples].sum())
    value += gain(c.deliver - c.direct - c.capacity, np.minimum(asked, d), pairs)
    over = c.deliver[:, None, :] - two_hop - c.capacity[:, :, None] - c.capacity[None, :, :]
    value += float((np.maximum(over, 0.0) * asked[:, None, :])[triples].sum())
    value += gain(c.deliver - 3.0 * c.long - c.leave[:, None] - c.enter[None, :], asked, pairs)
    value += gain(c.long + c.leave[:, None] + c.enter[None, :] - c.capacity, d, pairs)
    return 1.0 / value if 0.0 < value < c.guess else 0.0
