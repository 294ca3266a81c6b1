// Shortest paths of at most h hops, and the exact flow near a rough one whose paths have at most h hops.
//
// Both work on the layers 0..h of servers: an arc goes from a layer to the next, and traffic may wait from a layer to
// the next at its server, so that h layers hold all paths of at most h hops.
#pragma once
#include "router.hpp"

namespace topoopt::routing {

// distance(k, v): the least length over paths from the source of at most k hops.
inline void limited_distances(const Arcs &arcs, Floats length, Index source, Matrix<double> &distance) {
    std::fill(distance.row(0).begin(), distance.row(0).end(), infinite);
    distance(0, source) = 0.0;
    for (Index k = 1; k < distance.rows; ++k) {
        auto before = distance.row(k - 1), now = distance.row(k);
        std::copy(before.begin(), before.end(), now.begin());
        for (Index v = 0; v < arcs.n; ++v) {
            double reach = before[v];
            if (reach == infinite) continue;
            for (Index a = arcs.first[v], end = arcs.first[v + 1]; a < end; ++a)
                now[arcs.head[a]] = std::min(now[arcs.head[a]], reach + length[a]);
        }
    }
}

inline void require_hops(const Router &router, Index max_hops) {
    require(1 <= max_hops && max_hops <= router.problem->arcs.n, "max_hops", "from 1 to the number of servers");
}

// sum of demand times distance over paths of at most so many hops; pairs without demand do not count.
inline double limited_total(const Router &router, Floats length, Index max_hops) {
    router.require_lengths(length);
    require_hops(router, max_hops);
    auto &[arcs, demand] = *router.problem;
    Matrix<double> distances(max_hops + 1, arcs.n);
    double total = 0.0;
    for (Index s = 0; s < arcs.n; ++s) {
        look_at_stop();
        limited_distances(arcs, length, s, distances);
        auto distance = distances.row(max_hops);
        double row = 0.0;
        for (Index v = 0; v < arcs.n; ++v)
            if (demand(s, v) > 0.0) row += demand(s, v) * distance[v];
        total += row;
    }
    return total;
}

// [h * n, m], layer after layer: what enters a server in a layer does so in the proportions of `given`, of this shape.
//
// Followed back from the targets in the last layer; what waited counts as entering from the layer before. Where nothing
// is given, traffic comes over the shortest path.
inline Matrix<double> limited_flow(const Router &router, Floats length, Table<const double> given, Index max_hops) {
    router.require_lengths(length);
    require_hops(router, max_hops);
    auto &[arcs, demand] = *router.problem;
    Index n = arcs.n, m = arcs.m;
    require_shape(given, max_hops * n, m, "given");
    Matrix<double> flows(max_hops * n, m), waiting(max_hops, n), need(max_hops + 1, n), distances(max_hops + 1, n);
    for (Index s = 0; s < n; ++s) {
        look_at_stop();
        double amount = sum_of(demand.row(s));
        if (amount == 0.0) continue;
        limited_distances(arcs, length, s, distances);
        for (Index k = 0; k < max_hops; ++k) {  // given to wait from layer k to layer k + 1
            auto wait = waiting.row(k);
            auto leaving = given.row(k * n + s);
            for (Index v = 0; v < n; ++v) wait[v] = k > 0 ? waiting(k - 1, v) : 0.0;
            if (k > 0)
                for (Index a = 0; a < m; ++a) wait[arcs.head[a]] += given((k - 1) * n + s, a);
            for (Index a = 0; a < m; ++a) wait[arcs.tail[a]] -= leaving[a];
            for (double &value : wait) value = std::max(0.0, value);
        }
        std::fill(need.items.begin(), need.items.end(), 0.0);
        std::copy(demand.row(s).begin(), demand.row(s).end(), need.row(max_hops).begin());
        need(max_hops, s) = 0.0;
        double tolerance = negligible * amount;
        for (Index k = max_hops; k > 0; --k) {
            auto before = distances.row(k - 1), earlier = need.row(k - 1);
            auto entering = given.row((k - 1) * n + s);
            auto flow = flows.row((k - 1) * n + s);
            for (Index v = 0; v < n; ++v) {
                double amount = need(k, v);
                if (amount == 0.0 || v == s) continue;
                auto counts = [&](Index a) { return entering[a] > tolerance && before[arcs.tail[a]] < infinite; };
                double waited = waiting(k - 1, v), total = before[v] < infinite && waited > tolerance ? waited : 0.0;
                waited = total;
                for (Index i = arcs.into[v]; i < arcs.into[v + 1]; ++i)
                    if (counts(arcs.arc_in[i])) total += entering[arcs.arc_in[i]];
                if (total == 0.0) {
                    double reach = distances(k, v);
                    require(reach < infinite, "demand", "no path within the limit joins two servers with demand");
                    if (before[v] == reach) {
                        earlier[v] += amount;
                        continue;
                    }
                    Index i = arcs.into[v];
                    while (before[arcs.tail[arcs.arc_in[i]]] + length[arcs.arc_in[i]] != reach) ++i;
                    flow[arcs.arc_in[i]] += amount;
                    earlier[arcs.tail[arcs.arc_in[i]]] += amount;
                    continue;
                }
                earlier[v] += amount * (waited / total);
                for (Index i = arcs.into[v]; i < arcs.into[v + 1]; ++i) {
                    Index a = arcs.arc_in[i];
                    if (!counts(a)) continue;
                    double part = amount * (entering[a] / total);
                    flow[a] += part;
                    earlier[arcs.tail[a]] += part;
                }
            }
        }
    }
    return flows;
}

}  // namespace topoopt::routing
