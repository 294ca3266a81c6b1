from topoopt.core.arrays import Bools, Floats, Int32s, Ints

class Router:
    """Arcs, a demand, and servers in the order of their distances from each source at the last call.

    Lengths drift from call to call, so that these orders are nearly right. Arcs are numbered by tail: those of server v
    are first[v]..first[v+1]. Lengths are float64[m], none below 0, in all methods. Demand that no path serves raises
    ValueError where a flow is asked for.
    """

    def __init__(self, first: Ints, head: Ints, demand: Floats, sources: int) -> None:
        """Args:
        first: int64[n + 1].
        head: int64[m], server at the head of each arc.
        demand: float64[n, n], finite, none below 0; it is copied.
        sources: paths are looked for from so many of the first servers: n, or fewer that stand for all.
        """

    def copy(self, sources: int) -> Router:
        """The same of the first sources. While another thread is in a call, the copy has breadth-first orders."""

    def total_distance(self, length: Floats) -> float:
        """Sum over the sources of demand times distance; pairs without demand do not count even when no path joins
        them."""

    def tree_flows(self, length: Floats) -> Floats:
        """float64[sources, m]: all demand of the sources over shortest trees."""

    def repaired_flow(self, length: Floats, given: Floats) -> Floats:
        """float64[sources, m]: traffic enters every server in the proportions of `given`, and just enough of it.

        Cycles are taken out first; then proportions are followed back from the targets. A server that needs traffic and
        is given none gets it over its shortest path, from the last server on that path which comes earlier in the order
        of the flow.

        Args:
            given: float64[sources, m], finite, none below 0.
        """

    def limited_total(self, length: Floats, max_hops: int) -> float:
        """Sum over all servers of demand times distance over paths of at most so many hops; as `total_distance`."""

    def limited_flow(self, length: Floats, given: Floats, max_hops: int) -> Floats:
        """float64[max_hops * n, m], hop after hop: what enters a server in a layer of hops does so in the proportions
        of `given`.

        Followed back from the targets in the last layer; what waited counts as entering from the layer before. Where
        nothing is given, traffic comes over the shortest path.

        Args:
            given: float64[max_hops * n, m].
        """

    def sweep(self, capacity: Floats, flow: Floats, routed: Bools, sharpness: float, spread: float) -> Floats:
        """Move every source in turn towards a routing over short paths, by a step that lowers the softmax of
        utilisations (block Frank-Wolfe).

        Into each server, traffic of the new routing comes over all arcs on paths from the source that get nearer to it
        all the way, weighted by exp(-excess length / width), the width being `spread` times the farthest distance:
        single trees zigzag where paths tie.

        Args:
            capacity: float64[m], above 0.
            flow: float64[n, m], changed.
            routed: bool[n], whether each source has a flow yet, else the new routing becomes it; changed.
            sharpness: factor of utilisations in the exponents of the softmax.

        Returns:
            float64[m]: lengths seen during the sweep, summed, each with sum c l = 1.
        """

    def soft_loads(
        self,
        length: Floats,
        softness: float,
        scale: float,
        total: float,
        start: int,
        stop: int,
        flow: Floats | None = None,
    ) -> tuple[float, float, Floats]:
        """Traffic of the sources start..stop-1 over paths that lead away from the source all the way, by logit shares.

        With phi(v) = -softness log sum over arcs u->v, d(u) < d(v), of exp(-(phi(u) + length) / softness), the loads
        are the slope of sum D phi, and each server splits what it gets by these exponentials (Dial's logit loading,
        Transportation Research 5, 1971). The relative error of the exponentials is below 1e-12.

        Args:
            scale, total: the traffic D is demand * (scale / total).
            flow: float64[n, m], what each source sends is added to it.

        Returns:
            sum D d and sum D phi of these sources, and float64[m], their loads.
        """

    def mark_near(self, length: Floats, width: float, most: int, near: Bools) -> int:
        """Mark the arcs of paths to demand on which each arc leads away from the source and is late by `width` at most.

        Args:
            near: bool[n, m] by source, added to.

        Returns:
            Arcs by source into servers with more than one; it ends where there are more than `most`.
        """

    def choices(self, near: Bools, flow: Floats) -> tuple[Ints, Ints, Ints, Ints, Ints, Floats]:
        """What is open where each source uses its marked arcs only: see `formulations.flow_routing`.

        Args:
            near: bool[n, m], of `mark_near`.
            flow: float64[n, m] of 0, set to what chains from the source carry for certain.

        Returns:
            source, into, start: int64[E]; entry, arc of chains: int64[k] each; need, float64[R].
        """

class CirculantPaths:
    """Shortest paths on a circulant: one cyclic min-plus pass per class of arcs v -> v + offset, O(n) each."""

    def __init__(self, offsets: Ints, n: int) -> None:
        """Args:
        offsets: int64[d], within 1..n-1.
        n: servers.
        """

    def distances(self, lengths: Floats) -> Floats:
        """float64[n]: shortest distance of every displacement, infinite where it is out of reach. The other methods
        use the paths of the last call.

        Args:
            lengths: float64[d] of the classes, none below 0.
        """

    def loads(self, weight: Floats) -> Floats:
        """float64[d]: load of each class when every displacement j with demand weight[j] takes its shortest path."""

    def flow(self, weight: Floats) -> Floats:
        """float64[d, n]: flow of source 0 over the arc v -> v + offsets[c], everything on its shortest path."""

    def steps(self) -> Int32s:
        """int32[d, n]: arcs of each class on the shortest path of a displacement.

        steps[c, j] is meant for the displacement that is left after the classes behind c are taken off: to unroll j,
        take steps[d-1, j] arcs of the last class off, then what the class before says of the rest, and so on.
        """

def circulant_tree(offsets: Ints, lengths: Floats, weights: Floats) -> tuple[bool, Ints, Floats]:
    """Shortest paths from 0 on a circulant, of equally long ones those of fewer hops.

    Args:
        offsets, lengths: int64[d], float64[d]: of the classes of arcs.
        weights: float64[n], what each displacement carries.

    Returns:
        Whether all displacements are reached; int64[n], class of the last hop to each; float64[d], loads of the
        classes.
    """

def add_circulant_tree(offsets: Ints, tree: Ints, weights: Floats, flow: Floats) -> None:
    """Add weights[t], float64[n], along the path to every t in a tree of `circulant_tree`.

    Args:
        flow: float64[n, d], what leaves each server by each class; changed.
    """

def route_demands(
    order: Ints,
    source: Ints,
    target: Ints,
    amount: Floats,
    first: Ints,
    head: Ints,
    hops_to: Int32s,
    inverse_capacity: Floats,
    load: Floats,
    path_first: Ints,
    path_arc: Ints,
    reroute: bool,
) -> None:
    """Route demands one after the other, each over the cheapest of its shortest paths given the loads so far.

    The price of an arc is (load after, per parallel link)^4, so that the largest load decides long before the sum.

    Args:
        order: int64[k], numbers of demands.
        source, target, amount: int64[p], int64[p], float64[p]: of each demand.
        first, head: int64[n + 1], int64[m]: arcs by tail.
        hops_to: int32[n, n]; hops_to[t, v] are the hops from v to t.
        inverse_capacity: float64[m], 1 / parallel links.
        load: float64[m], changed.
        path_first: int64[p + 1]; the arcs of demand i go to path_arc[path_first[i]:path_first[i+1]].
        path_arc: int64[path_first[p]], changed.
        reroute: the demands have paths there; each is taken out first.
    """

def tree_loads(tail: Ints, order: Ints, via: Ints, amount: Floats) -> Floats:
    """float64[m]: load of each arc where all sources send over the trees of `breadth_first_trees`.

    Args:
        tail: int64[m].
        order, via: int64[n, n] each: servers from each source, and the last arc to each.
        amount: float64[n, n], from each source to each server.
    """

class DisplacementPaths:
    """All shortest paths on a circulant, listed once a displacement, as they are the same from every source.

    A demand looks at its own arcs alone, in a row: ten times as fast as `route_demands` where many paths tie.
    """

    def __init__(self, tail: Ints, head: Ints, n: int) -> None:
        """Args:
        tail, head: int64[m], all arcs of a connected circulant.
        n: servers.
        """

    def route(
        self,
        source: Ints,
        target: Ints,
        amount: Floats,
        start: Ints,
        load: Floats,
        path_arc: Ints,
        reroute: bool,
    ) -> None:
        """Route demands in this order, as `route_demands`; all arcs have the same number of parallel links.

        Prices are (load after)^4, and (load after)^8 for `reroute`, where the largest load counts more.

        Args:
            source, target, amount, start: int64[p], int64[p], float64[p], int64[p]: of each demand; `start` is where
                its arcs go in `path_arc`.
            load: float64[m], changed.
            path_arc: int64[k], changed.
            reroute: the demands have paths there; each is taken out first.
        """
