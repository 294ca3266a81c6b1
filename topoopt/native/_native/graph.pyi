from topoopt.core.arrays import Int32s, Ints

def hop_distances(first: Ints, head: Int32s | Ints, n: int) -> Ints:
    """int64[n, n]: hops between all pairs of servers, -1 where there is no path.

    Args:
        first: int64[n + 1]; the arcs of server v are first[v]..first[v+1].
        head: server at the head of each arc.
        n: servers.
    """

def breadth_first_trees(first: Ints, head: Ints, n: int) -> tuple[Ints, Ints]:
    """From every server: int64[n, n] all servers as they are found, itself first and unreachable ones last; int64[n, n]
    the last arc of the first shortest path to each, -1 for itself and where there is no path."""
