from topoopt.core.arrays import Floats, Ints

def maximal_networks(
    n: int, degree: int, most_links: int, mirrored: bool, tails: Ints, heads: Ints, limit: int
) -> Ints:
    """int64[k, n * n]: all link counts within the degrees that leave no room for one more allowed link.

    One row more than `limit` where there are more.

    Args:
        n: servers.
        degree: links of a server, each way.
        most_links: between two servers.
        mirrored: a link i -> j is one j -> i too; then every pair is listed once.
        tails, heads: int64[p], pairs that may have links.
    """

class RegularNetworks:
    """Regular directed multigraphs without loops, one per isomorphism class, by their sum of hops.

    Orderly generation: R. C. Read, Every one a winner, Annals of Discrete Mathematics 2, 1978.
    """

    def __init__(self, n: int, degree: int, moore: int, least: int, most: int) -> None:
        """Those whose sum of hops exceeds n times `moore` by `least` to `most`.

        Args:
            n: servers, 1 to 62.
            degree: links out of and into every server.
            moore: least sum of hops of one server.
        """

    def over(self) -> bool:
        """Whether all were found."""

    def next(self, steps: int, graphs: int) -> Ints:
        """int64[k, n * degree]: heads of the next ones, after so many steps or with so many graphs at most."""

def ascend(
    demand: Floats,
    price: Floats,
    relief: Floats,
    shift: Floats,
    theta: float,
    rows: Ints,
    into: Ints,
    iterations: int,
) -> float:
    """Improve prices at a node of the tree over links; the dual function they reach, against demand times far paths.

    Above 0 no network of the node has utilisation `theta`. Degree 2.

    Args:
        demand: float64[n, n], of mean 1.
        price, relief, shift: float64[n, n], of links and pairs; left at the best that was met.
        rows: int64[n, 2], heads of the links of every server, -1 where it has not chosen.
        into: int64[n, 2], tails of the links chosen that lead to every server, -1 where fewer are known.
        iterations: at most.
    """

def children(
    demand: Floats, price: Floats, relief: Floats, shift: Floats, bar: float, theta: float, rows: Ints, into: Ints
) -> tuple[float, float, Ints, Ints, Floats]:
    """What is proven of a node, and of those that some choice of one server's links makes of it.

    Args:
        demand, price, relief, shift, theta, rows, into: as of `ascend`.
        bar: length of links that are never there.

    Returns:
        Dual function of the node; sum of demand times far paths, to compare with; int64[n * q, 2], heads that each
        server may choose, q rows a server, and how many choices, int64[n]; float64[n, q], dual function of every choice
        of every server that has not chosen (infinite where no network is left).
    """

def far_lengths(price: Floats) -> Floats:
    """float64[n, n]: least price of three links or more between servers, for price[n, n] of links."""
