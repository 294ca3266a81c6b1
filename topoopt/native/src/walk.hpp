// Balanced shortest paths: one for each ordered pair of servers, over the least used links.
#pragma once
#include "bfs.hpp"

namespace topoopt::graph {

// int32[n (n - 1), w]: a shortest path of each ordered pair of servers, padded with -1.
//
// Pairs are routed in the order given; among the arcs that lead nearer, the path takes that least used for its links.
inline Matrix<std::int32_t> balanced_shortest_paths(Ints first, Int32s head, Int32s links, Ints order) {
    const Index n = first.size - 1;
    require_arcs(first, head, n);
    require_size(links, head.size, "links");
    for (auto count : links) require(count > 0, "links", "an arc has at least one link");
    require_within(order, 0, n * (n - 1), "order");
    auto distance = hop_distances(first, head, n);
    Index longest = 0;
    for (auto hops : distance.items) {
        require(hops >= 0, "head", "the graph is not strongly connected");
        longest = std::max(longest, hops);
    }
    Matrix<std::int32_t> paths(n * (n - 1), longest + 1, -1);
    std::vector<double> used(head.size);
    StopWatch look;
    for (Index pair : order) {
        look();
        Index at = pair / (n - 1), goal = pair % (n - 1);
        goal += goal >= at;
        auto path = paths.row(pair);
        path[0] = std::int32_t(at);
        for (Index step = 1; at != goal; ++step) {
            Index best = -1;
            for (Index arc = first[at]; arc < first[at + 1]; ++arc)
                if (distance(head[arc], goal) == distance(at, goal) - 1 &&
                    (best < 0 || used[arc] / links[arc] < used[best] / links[best]))
                    best = arc;
            used[best] += 1.0;
            at = head[best];
            path[step] = std::int32_t(at);
        }
    }
    return paths;
}

}  // namespace topoopt::graph
