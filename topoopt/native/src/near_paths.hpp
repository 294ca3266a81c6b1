// Paths that are nearly shortest: which arcs each source may use, and what is left to decide over them.
#pragma once
#include <tuple>

#include "router.hpp"

namespace topoopt::routing {

// The servers that a source sends to, and the source, are needed from the start; others as arcs from them are followed.
class Needed {
    std::vector<char> needed;
    std::vector<Index> stack;

  public:
    explicit Needed(Index n) : needed(n) {}
    void start(Index source, Floats demand) {
        stack.clear();
        for (Index v = 0; v < demand.size; ++v) {
            needed[v] = demand[v] > 0.0 || v == source;
            if (needed[v] && v != source) stack.push_back(v);
        }
    }
    void add(Index v) {
        if (!std::exchange(needed[v], 1)) stack.push_back(v);
    }
    bool next(Index &v) {
        if (stack.empty()) return false;
        v = stack.back();
        stack.pop_back();
        return true;
    }
};

// Marks, in bool[n, m] `near`, the arcs of paths to demand on which each arc leads away from the source and is late by
// `width` at most. Returns the arcs by source into servers with more than one; it ends where there are more than
// `most`.
inline Index mark_near(Router &router, Floats length, double width, Index most, Table<bool> near) {
    std::scoped_lock lock(router.busy);
    router.require_all_sources();
    router.require_lengths(length);
    auto &[arcs, demand] = *router.problem;
    require_shape(near, arcs.n, arcs.m, "near");
    Tree tree(arcs.n);
    View<double> distance = tree.distance;
    Needed needed(arcs.n);
    Index total = 0;
    for (Index s = 0; s < arcs.n && total <= most; ++s) {
        look_at_stop();
        if (sum_of(demand.row(s)) == 0.0) continue;
        shortest_tree(arcs, length, s, router.orders.row(s), tree);
        needed.start(s, demand.row(s));
        for (Index v; needed.next(v);) {
            Index count = 0;
            for (Index i = arcs.into[v]; i < arcs.into[v + 1]; ++i) {
                Index a = arcs.arc_in[i], u = arcs.tail[a];
                if (a == tree.parent[v] ||
                    (distance[u] < distance[v] && distance[u] + length[a] - distance[v] <= width)) {
                    near(s, a) = true;
                    needed.add(u);
                }
                count += near(s, a);
            }
            total += count > 1 ? count : 0;
        }
    }
    return total;
}

using Choices = std::tuple<std::vector<Index>, std::vector<Index>, std::vector<Index>, std::vector<Index>,
                           std::vector<Index>, std::vector<double>>;

// What is open where each source uses its marked arcs only: (source, into, start) of each entry, (entry, arc) of
// chains, and need; `flow` of 0 is set to what chains from the source carry for certain.
inline Choices choices(const Router &router, Table<const bool> near, Table<double> flow) {
    auto &[arcs, demand] = *router.problem;
    Index n = arcs.n;
    require_shape(near, n, arcs.m, "near");
    require_shape(flow, n, arcs.m, "flow");
    std::vector<Index> source, entered, start, entry, arc, count(n), only(n), row(n);
    std::vector<double> need;
    Needed needed(n);
    for (Index s = 0; s < n; ++s) {
        look_at_stop();
        if (sum_of(demand.row(s)) == 0.0) continue;
        std::fill(count.begin(), count.end(), 0);
        std::fill(row.begin(), row.end(), -1);
        needed.start(s, demand.row(s));
        for (Index v; needed.next(v);) {
            for (Index i = arcs.into[v]; i < arcs.into[v + 1]; ++i) {
                Index a = arcs.arc_in[i];
                if (!near(s, a)) continue;
                ++count[v];
                only[v] = a;
                needed.add(arcs.tail[a]);
            }
            if (count[v] <= 1) continue;
            row[v] = Index(need.size());
            need.push_back(0.0);
        }
        auto follow = [&](Index u, auto visit) {  // back over servers that are entered over one arc
            for (Index steps = 0; count[u] == 1; u = arcs.tail[only[u]]) {
                require(++steps < n, "near", "servers entered over one arc each form a cycle");
                visit(only[u]);
            }
            require(u == s || row[u] >= 0, "near", "no marked path leads to a server with demand");
            return u;
        };
        for (Index v = 0; v < n; ++v) {
            if (!(demand(s, v) > 0.0) || v == s) continue;
            Index u = follow(v, [&](Index a) { flow(s, a) += demand(s, v); });
            if (u != s) need[row[u]] += demand(s, v);
        }
        for (Index v = 0; v < n; ++v) {
            if (row[v] < 0) continue;
            for (Index i = arcs.into[v]; i < arcs.into[v + 1]; ++i) {
                Index a = arcs.arc_in[i];
                if (!near(s, a)) continue;
                auto add = [&, e = Index(source.size())](Index arc_of_chain) {
                    entry.push_back(e);
                    arc.push_back(arc_of_chain);
                };
                add(a);
                Index u = follow(arcs.tail[a], add);
                source.push_back(s);
                entered.push_back(row[v]);
                start.push_back(row[u]);
            }
        }
    }
    return {std::move(source), std::move(entered), std::move(start), std::move(entry), std::move(arc), std::move(need)};
}

}  // namespace topoopt::routing
