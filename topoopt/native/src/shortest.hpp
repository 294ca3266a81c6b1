// Directed arcs by tail and by head, and shortest paths over them.
#pragma once
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "bfs.hpp"

namespace topoopt::routing {

constexpr double infinite = std::numeric_limits<double>::infinity();

template <class T> void require_not_negative(View<T> values, const char *name) {
    bool holds = true;
    for (auto value : values) holds &= value >= 0;  // false for what is not a number, too
    require(holds, name, "no number below 0 is allowed");
}

// The arcs of server v are first[v]..first[v+1]; those into it are arc_in[into[v]..into[v+1]], in ascending order.
struct Arcs {
    Index n, m;
    std::vector<Index> first, tail, head, into, arc_in;

    Arcs(Ints first, Ints head)
        : n(first.size - 1),
          m(head.size),
          first(first.begin(), first.end()),
          tail(m),
          head(head.begin(), head.end()),
          into(first.size + 1),
          arc_in(m) {
        require(n >= 1, "first", "a server at least is needed");
        require_arcs(first, head, n);
        for (Index v = 0; v < n; ++v) std::fill(tail.begin() + first[v], tail.begin() + first[v + 1], v);
        for (Index v : head) ++into[v + 2];
        for (Index v = 1; v <= n; ++v) into[v + 1] += into[v];
        for (Index a = 0; a < m; ++a) arc_in[into[head[a] + 1]++] = a;
        into.pop_back();
    }
};

// Distances from a source, and the last arc of a shortest path to each server (-1: none). `position` inverts the order.
struct Tree {
    std::vector<double> distance;
    std::vector<Index> parent, position;

    explicit Tree(Index n) : distance(n), parent(n), position(n) {}
};

// Labels are corrected in the order of the last call, which is nearly right when lengths drift: faster than a heap.
// `order`, of all servers, the source first, is left sorted by distance. Exact whatever it is: a pass is repeated as
// long as it lowered a distance of a server already passed. Lengths are not negative.
inline void shortest_tree(const Arcs &arcs, Floats length, Index source, View<Index> order, Tree &tree) {
    Index n = arcs.n;
    View<double> distance = tree.distance;
    View<Index> parent = tree.parent, position = tree.position;
    Ints first = arcs.first, head = arcs.head;
    for (Index v = 0; v < n; ++v) {
        distance[v] = infinite;
        parent[v] = -1;
        position[order[v]] = v;
    }
    distance[source] = 0.0;
    for (bool again = true; again;) {
        again = false;
        for (Index k = 0; k < n; ++k) {
            Index v = order[k];
            double reach = distance[v];
            for (Index arc = first[v], end = first[v + 1]; arc < end; ++arc) {
                Index w = head[arc];
                double through = reach + length[arc];
                if (!(through < distance[w])) continue;
                distance[w] = through;
                parent[w] = arc;
                again |= position[w] < k;
            }
        }
    }
    for (Index k = 1; k < n; ++k) {
        Index v = order[k], j = k - 1;
        double reach = distance[v];
        for (; distance[order[j]] > reach; --j) order[j + 1] = order[j];
        order[j + 1] = v;
    }
}

}  // namespace topoopt::routing
