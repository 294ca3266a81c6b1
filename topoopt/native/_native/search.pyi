from topoopt.core.arrays import Bools, Floats, Int32s, Ints

def hop_total(out: Ints, demand: Floats) -> float:
    """Sum of demand times hops by breadth-first search; pairs that no path joins count n hops.

    Args:
        out: int64[n, d], heads of every server's links; a port left dark points to its own server.
        demand: float64[n, n].
    """

def cut_hop_total(out: Ints, demand: Floats, levels: int) -> float:
    """The same, where no pair counts more than `levels` + 1 hops; 0 <= levels <= n."""

def anneal(
    out: Ints,
    into: Ints,
    demand: Floats,
    allowed: Bools,
    group: Ints,
    levels: int,
    paired: bool,
    parallel: bool,
    hot: float,
    cold: float,
    proposals: int,
    seed: int,
    ahead: Floats,
) -> Ints:
    """int64[n, d]: heads of the least hop total met by exchanges of the heads of two links.

    Args:
        out, into: int64[n, d], heads and tails of every server's links, left where the work ended. A port left dark
            points to its own server in both.
        demand: float64[n, n].
        allowed: bool[n, n], arcs that may be made (False on the diagonal).
        group: int64[n], of each server; as many of its links as before stay inside its group.
        levels: no pair counts more than so many hops and one.
        paired: links are fibre pairs: out and into hold the same links, and exchanges keep it so.
        parallel: whether a second link may join a pair.
        hot, cold: temperatures at start and end, which fall geometrically, in units of the hop total.
        proposals: exchanges proposed.
        seed: of the generator.
        ahead: float64[levels + 1, 3], changed in place, at first 0: exchanges are drawn by demand, and given up at a
            level by what is kept here of those accepted (how many, mean and variance of what deeper levels made up
            for). Without rows: all are alike, and evaluated to the end.
    """

def rewire(
    out: Ints,
    into: Ints,
    best: Ints,
    demand: Floats,
    allowed: Bools,
    kept: Ints,
    limit: int,
    paired: bool,
    parallel: bool,
    hot: float,
    cold: float,
    proposals: int,
    seed: int,
    least: float,
) -> float:
    """The least hop total so far, by exchanges that give up at most `limit` links of `kept`.

    Args:
        out, into: as of `anneal`.
        best: int64[n, d], heads of that topology; written where one of less than `least` is met.
        kept: int64[n, n], links between servers that are not to be given up.
        limit: arcs of them that may be.
        least: hop total of `best`.
        demand, allowed, paired, parallel, hot, cold, proposals, seed: as of `anneal`.
    """

def anneal_lift(
    a: int,
    row: Int32s,
    turn: Int32s,
    degree: int,
    one_way: bool,
    anew: bool,
    peer: Int32s,
    shift: Int32s,
    proposals: int,
    hot: float,
    cold: float,
    levels: int,
    seed: int,
) -> int:
    """The least sum of distances to one server of each orbit, by exchanges of orbits of links under a group.

    Element x + a y of a group of k = a b is c^x r_y, for the right cosets of a cyclic subgroup of order a.

    Args:
        a: order of the cyclic subgroup.
        row, turn: int32[b, k]; multiplication by s from the right takes coset y to row[y, s], turned by turn[y, s].
        degree: ports of a server; ports of orbit o are o d to o d + d - 1.
        one_way: the peers are a permutation of the ports; else they are paired, with inverse shifts.
        anew: start from a random graph, whatever `peer` and `shift` hold.
        peer, shift: int32[m d]; element g of the orbit of a port is linked to g shift of the orbit of its peer. The
            best graph met is left here.
        proposals: exchanges proposed.
        hot, cold: temperatures at start and end, which fall geometrically, in units of the sum.
        levels: distances beyond count as levels + 1.
        seed: of the generator.
    """

def lift_distances(a: int, row: Int32s, turn: Int32s, degree: int, one_way: bool, peer: Int32s, shift: Int32s) -> Ints:
    """int64[diameter + 1]: pairs of each distance from one server of each orbit; none where some are not joined.

    Args:
        a, row, turn, degree, one_way, peer, shift: as of `anneal_lift`.
    """

def link_distances(out: Ints, length: Floats) -> Floats:
    """float64[n, n]: shortest paths for length[n * d] over the links out[n, d] (Floyd and Warshall)."""

def price_links(
    out: Ints,
    demand: Floats,
    target: float,
    sweeps: int,
    weight: float,
    flow: Floats,
    potential: Floats,
    length: Floats,
) -> tuple[float, float, int, Floats]:
    """Bound on theta, load estimate, sweeps used, and float64[n * d], lengths that prove the bound.

    Primal-dual hybrid gradient (Chambolle and Pock, J. Math. Imaging Vis. 40, 2011); stops when the bound reaches the
    target.

    Args:
        out: int64[n, d], heads of every server's links.
        demand: float64[n, n], best scaled so that theta is near 1.
        sweeps: most of them.
        weight: of dual steps against primal ones.
        flow: float64[n * d, n], by link and source; potential: float64[n, n], by server and source; length:
            float64[n * d]: the start, left where the work ended.
    """

class RelayDual:
    """The dual function of the bound by relay blocks (`topoopt.verify.network.bounds`).

    Sets of links around servers and splits of pairs are handed from one evaluation to the next.

    Attributes:
        PREMIUM: worth in units of theta that is added to links that are there in any case, so that they are chosen.
    """

    PREMIUM: float

    def __init__(
        self, d: int, demand: Floats, further: float, theta: float, least: Ints, most: Ints, split: Floats
    ) -> None:
        """Of links that flows can fill at a utilisation of `theta` or more, or that are there in any case.

        Args:
            d: degree.
            demand: float64[n, n], zero diagonal.
            further: demand times hops beyond the third, at least.
            theta: least that is asked for.
            least, most: int64[n, n], links between servers.
            split: float64[n * n, n] by relay, tail and head, of the worth of a pair: a start.
        """

    def value(
        self, price: Floats, relief: Floats, shift: Floats, theta: float, steps: int, exact: bool
    ) -> tuple[float, float, Floats]:
        """G, its slope in Theta with what links carry held fixed, and float64[n], the worth of every block.

        Where not `exact`, the sets are good ones and G is no less than it is.

        Args:
            price, relief, shift: float64[n, n], c, s and m of the bound; c >= 1.
            theta: Theta.
            steps: that improve each split.
            exact: whether the best sets are proven to be that.
        """

    def gradients(self) -> tuple[Floats, Floats, Floats]:
        """float64[n, n] each: of the last value, by prices of links, reliefs of pairs, shifts."""

    def uses(self) -> Floats:
        """float64[d * n, n]: how often links with so many beside them were chosen, half at either end."""

    def forget_uses(self) -> None:
        """Count the uses from 0 again."""
