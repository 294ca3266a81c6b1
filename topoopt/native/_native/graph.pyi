import numpy as np
from numpy.typing import NDArray

from topoopt.core.arrays import Bools, Floats, Int32s, Ints

def hop_distances(first: Ints, head: Int32s | Ints, n: int) -> Ints:
    """int64[n, n]: hops between all pairs of servers, -1 where there is no path.

    Args:
        first: int64[n + 1]; the arcs of server v are first[v]..first[v+1].
        head: server at the head of each arc.
        n: servers.
    """

def breadth_first_trees(first: Ints, head: Ints, n: int) -> tuple[Ints, Ints]:
    """From every server: int64[n, n] all servers as they are visited, itself first and unreachable ones last;
    int64[n, n] the last arc of the first shortest path to each, -1 for itself and where there is no path."""

def balanced_shortest_paths(first: Ints, head: Int32s, links: Int32s, order: Ints) -> Int32s:
    """int32[n (n - 1), w]: a shortest path of each ordered pair of servers, padded with -1.

    Pairs are routed in the order given; at each hop the path takes the arc least used so far for its parallel links,
    the first of equal ones.

    Args:
        first: int64[n + 1]; the arcs of server v are first[v]..first[v+1].
        head: server at the head of each arc, of a strongly connected graph.
        links: parallel links of each arc, at least 1.
        order: pairs as they are routed; pair s (n - 1) + i goes from s to the i-th of the other servers.
    """

def join_cycles(factors: Ints, tries: int, seed: int) -> Ints | None:
    """int64[m, n]: a Hamiltonian cycle for each factor, together over the same links; None when not found.

    Exchanges alternating links of a square between two factors at random while the number of cycles does not grow.

    Args:
        factors: int64[m, n, 2], the two neighbours of each server in each factor (twice the same for parallel links).
        tries: random squares at most.
        seed: of the search.
    """

def circulant_hops(n: int, coins: Ints) -> Int32s:
    """int32[n]: fewest coins that sum to each displacement modulo n, -1 where none does (CoinChangeMod, NSDI'23).

    Args:
        n: servers.
        coins: displacements of one hop, 1 to n - 1.
    """

def circulant_scores(n: int, sets: Ints) -> Ints:
    """int64[rows, 2]: diameter and sum of hops of each circulant; both n * n where its coins do not reach everybody.

    Args:
        n: servers.
        sets: int64[rows, c], coins of each.
    """

def coin_decompositions(n: int, coins: Ints, limit: int) -> tuple[Ints, Ints]:
    """Multisets of fewest coins that sum to each displacement modulo n.

    Args:
        n: servers.
        coins: int64[c], ascending.
        limit: multisets of one displacement.

    Returns:
        int64[n + 1], the rows of displacement j are first[j]..first[j+1], none for 0; int64[rows, c], counts of coins.
    """

def balance_coins(
    first: Ints, counts: Ints, displacement: Ints, amount: Floats, inverse: Floats, moves: int, seed: int
) -> Ints:
    """int64[p]: the decomposition of each parcel such that the largest load of a coin is small, by annealing.

    Args:
        first, counts: decompositions of each displacement (`coin_decompositions`).
        displacement: int64[p], of each parcel.
        amount: float64[p], traffic of each parcel.
        inverse: float64[c], one over the links of each coin.
        moves: of the annealing.
        seed: of its draws.
    """

def order_coins(coins: Ints, amount: Floats, inverse: Floats, order: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Coins of each path in an order that uses all coins alike at each position.

    Args:
        coins: int64[c].
        amount: float64[p], traffic of each path.
        inverse: float64[c], one over the links of each coin.
        order: paths, in which they are looked at.
        counts: int64[p, c], coins of each path.

    Returns:
        int64[p + 1], the jumps of path p are first[p]..first[p+1]; int64[...], the jumps.
    """

def circulant_paths(n: int, source: Int32s, path: Ints, first: Ints, jump: Ints) -> tuple[Ints, Int32s]:
    """int64[k + 1], where each path begins; int32[...], its servers: the jumps of path[k] from source[k] on.

    Args:
        n: servers.
        source, path: [k].
        first, jump: of every path (`order_coins`).
    """

def hamiltonian_cycles(counts: Ints, seed: int) -> Ints:
    """int64[d / 2, n]: orders of all servers such that every link is in one cycle; [0, n] where none are found.

    Trails between two colours are exchanged at random until every colour is one cycle (Kim and Wormald 2001).

    Args:
        counts: int64[n, n], symmetric, links between servers; none are found where servers have different numbers d of
            them, or odd ones.
        seed: of the trails, 0 to 2^64 - 1.
    """

def duplex_matchings(n: int, degree: int, ends: Ints) -> tuple[Int32s, Ints]:
    """Give links to switches, a matching each (Vizing 1964; Kempe's exchanges).

    A distance that every server has takes two switches of alternating links, where it closes to even cycles, so that a
    circulant has few patch patterns; unless that leaves links over that other matchings would not.

    Args:
        n: servers.
        degree: switches, as many as any server has links.
        ends: int64[m, 2], the two servers of every link.

    Returns:
        int32[degree, n], the other end of the link of each server on each switch, -1 for none; int64[...], the links
        that have no switch.
    """

def complete_matching(weights: Floats, partner: Ints) -> Ints:
    """int64[n]: partners in a matching of great weight that leaves one server over at most (-1).

    The heaviest pairs come first, among equal ones those farthest apart in number; then pairs without weight; at last
    two pairs are paired anew while that gains weight.

    Args:
        weights: float64[n, n], symmetric, finite and not negative.
        partner: int64[n], the matching that it grows from, -1 where a server is free.
    """

class CayleySearch:
    """The best Cayley digraphs of semidirect products so far, one of every number of steps.

    Attributes:
        load: int64[most_steps + 1], by steps: sum of the loads of breadth-first broadcasts, in 1 / parts of a shard per
            link; 2^60 where nothing reaches all elements in so many.
        far: int64[most_steps + 1], sum of the distances from an element to all others.
        generators: int64[most_steps + 1, degree].
    """

    def __init__(self, degree: int, most_steps: int, parts: int, seed: int) -> None:
        """An empty search.

        Args:
            degree: generators of a digraph, 1 to 16.
            most_steps: diameters looked for.
            parts: a multiple of 1 to degree.
            seed: of the draws, 0 to 2^64 - 1.
        """

    @property
    def load(self) -> Ints: ...
    @property
    def far(self) -> Ints: ...
    @property
    def generators(self) -> Ints: ...
    def climb(self, m: int, k: int, powers: Ints, paired: bool, draws: int, patience: int) -> tuple[int, Ints]:
        """Climb to small sums of distances by exchanging generators; begin anew after `patience` draws without gain.

        Args:
            m, k, powers: the group Z_m x| Z_k; powers[b] = r^b mod m.
            paired: whether sets are closed under inversion.
            draws: sets tried.
            patience: draws.

        Returns:
            Least sum of distances met, -1 where no set reached all elements; numbers of steps that got a better set.
        """

def shortest_path_loads(distance: Int32s, order: Ints, first: Ints, tails: Ints, label: Ints, weight: Floats) -> Floats:
    """float64[l]: what one unit of traffic to every other server loads links with along shortest paths.

    Args:
        distance: int32[s, n], hops from each source that counts.
        order: int64[s, n], servers by these distances, the source first.
        first, tails: in-links of v are tails[first[v] : first[v + 1]].
        label: int64[m], of each in-link, the entry of `weight` and of the loads that is its own.
        weight: float64[l], positive; links of predecessors share by it.
    """

def makespan(
    block: Int32s,
    tail: Int32s,
    head: Int32s,
    reduce: Bools,
    units: Ints,
    owner: Int32s,
    start: Ints,
    arcs: Ints,
    once: Ints,
    us_per_unit: Floats,
    slow: Floats,
    nodes: int,
) -> float:
    """Time of a schedule in us, without barriers between its steps.

    Args:
        block, tail, head: int32[k], of each send, in the order in which they go.
        reduce: bool[k], whether the head adds: a sum waits for all that its sender adds, a copy for what it gets.
        units: int64[b], size of each block.
        owner: int32[b], the node that has each block before.
        start: int64[k + 1], the links of send j are arcs[start[j]:start[j + 1]].
        arcs: int64[u], links.
        once: int64[u], the first entry that carries the same bytes, or the entry itself.
        us_per_unit: float64[m], us of a unit on each link.
        slow: float64[k], latency of each send in us.
        nodes: ranks and switches.
    """

def rank_cuts(
    nodes: int, tail: Int32s, head: Int32s, capacity: Ints, rank: Int32s, sent: Ints, sink: Int32s, around_sink: bool
) -> tuple[Ints, NDArray[np.uint8]]:
    """Values of least cuts between a super source and sinks, and their source sides, uint8[sinks, nodes].

    A side is all 0 where everything that is sent comes through (maximum flows of Dinic).

    Args:
        tail, head: int32[m], arcs.
        capacity: int64[m], of arcs.
        rank: int32[N], nodes to which the super source sends.
        sent: int64[N], how much.
        sink: int32[sinks].
        around_sink: the side without the smallest set around the sink; else the smallest set around the source.
    """

def rank_paths(
    nodes: int, tail: Int32s, head: Int32s, length: Floats, is_rank: Bools, relaying: bool, source: Int32s
) -> tuple[Floats, Int32s]:
    """Shortest distances from sources, float64[s, nodes], and arcs by which nodes are reached, int32[s, nodes].

    Args:
        tail, head: int32[m], arcs.
        length: float64[m], of arcs, not negative.
        is_rank: bool[nodes].
        relaying: whether paths may lead through other ranks.
        source: int32[s].
    """

def least_tree(cost: Floats, root: int) -> Int32s:
    """int32[n], parents in a least arborescence (Chu and Liu 1965, Edmonds 1967); -1 of the root.

    Args:
        cost: float64[n, n], of the arc from row to column.
        root: where the arborescence starts.
    """

def pack_trees(
    nodes: int, tail: Int32s, head: Int32s, capacity: Ints, count: Ints, most: int, flat: bool
) -> tuple[Int32s, Ints, Int32s]:
    """Arborescences that whole capacities carry: roots, counts, parents int32[batches, nodes]; none if they do not fit.

    Args:
        tail, head: int32[m], arcs between ranks.
        capacity: int64[m], of arcs.
        count: int64[nodes], arborescences from every rank.
        most: batches at most; more count as if they did not fit.
        flat: arcs from the shallowest nodes come first; else those that most trees can take, for fewer batches.
    """
