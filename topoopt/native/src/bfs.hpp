// Breadth-first search over CSR arcs: the arcs of server v are first[v]..first[v+1].
#pragma once
#include <utility>

#include "arrays.hpp"
#include "stop.hpp"

namespace topoopt {

template <class T> void require_arcs(Ints first, View<const T> head, Index n) {
    require(n >= 0 && n < (Index(1) << 20), "n", "a number of servers below 1048576 is needed");
    require_offsets(first, n, head.size, "first");
    require_within(head, 0, n, "head");
}

// Hops between all pairs, -1 where there is no path.
template <class T> Matrix<std::int64_t> hop_distances(Ints first, View<const T> head, Index n) {
    require_arcs(first, head, n);
    Matrix<std::int64_t> hops(n, n, -1);
    std::vector<std::int64_t> queue(n);
    for (Index source = 0; source < n; ++source) {
        look_at_stop();
        auto row = hops.row(source);
        row[source] = 0;
        queue[0] = source;
        for (Index begin = 0, end = 1; begin < end; ++begin) {
            Index v = queue[begin];
            for (Index arc = first[v]; arc < first[v + 1]; ++arc) {
                if (row[head[arc]] >= 0) continue;
                row[head[arc]] = row[v] + 1;
                queue[end++] = head[arc];
            }
        }
    }
    return hops;
}

// From every server: all servers as they are visited, itself first and unreachable ones last; and the last arc of the
// first shortest path to each, -1 for itself and where there is no path.
inline std::pair<Matrix<std::int64_t>, Matrix<std::int64_t>> breadth_first_trees(Ints first, Ints head, Index n) {
    require_arcs(first, head, n);
    Matrix<std::int64_t> order(n, n), via(n, n, -1);
    for (Index source = 0; source < n; ++source) {
        look_at_stop();
        auto visited = order.row(source), last = via.row(source);
        visited[0] = source;
        Index end = 1;
        for (Index begin = 0; begin < end; ++begin) {
            Index v = visited[begin];
            for (Index arc = first[v]; arc < first[v + 1]; ++arc) {
                if (head[arc] == source || last[head[arc]] >= 0) continue;
                last[head[arc]] = arc;
                visited[end++] = head[arc];
            }
        }
        for (Index v = 0; v < n; ++v)
            if (v != source && last[v] < 0) visited[end++] = v;
    }
    return {std::move(order), std::move(via)};
}

}  // namespace topoopt
