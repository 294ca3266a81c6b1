// Flows of a demand over arcs: shortest paths, flows made exact, sweeps of block Frank-Wolfe.
#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>

#include "shortest.hpp"

namespace topoopt::routing {

inline void require_flow(Table<const double> flow, Index rows, Index m, const char *name) {
    require_shape(flow, rows, m, name);
    bool holds = true;
    for (double amount : flow.flat()) holds &= amount >= 0.0 && amount < infinite;
    require(holds, name, "finite numbers, none below 0, are needed");
}

// Arcs, demand from each source to each server, and servers in the order of their distances at the last call: lengths
// drift from call to call. One call at a time; the first `orders.rows` sources stand for all.
struct Router {
    struct Problem {
        Arcs arcs;
        Matrix<double> demand;
    };
    std::shared_ptr<const Problem> problem;
    Matrix<Index> orders;
    mutable std::mutex busy;

    Router(Ints first, Ints head, Table<const double> demand, Index sources) {
        Arcs arcs(first, head);
        require_shape(demand, arcs.n, arcs.n, "demand");
        require_flow(demand, arcs.n, arcs.n, "demand");
        require(0 <= sources && sources <= arcs.n, "sources", "no more sources than servers");
        Matrix<double> copy(arcs.n, arcs.n);
        std::copy(demand.flat().begin(), demand.flat().end(), copy.items.begin());
        problem = std::make_shared<const Problem>(std::move(arcs), std::move(copy));
        orders = breadth_first(problem->arcs, sources);
    }
    // Of the first sources. While another thread is in a call, whose orders are half sorted, they begin anew.
    Router(const Router &other, Index sources) : problem(other.problem) {
        require(0 <= sources && sources <= other.orders.rows, "sources", "no more than the copied ones");
        std::unique_lock lock(other.busy, std::try_to_lock);
        orders = lock ? other.orders : breadth_first(problem->arcs, sources);
        orders.items.resize(sources * orders.columns);
        orders.rows = sources;
    }
    static Matrix<Index> breadth_first(const Arcs &arcs, Index sources) {
        Matrix<Index> orders(sources, arcs.n);
        std::vector<char> seen(arcs.n);
        for (Index s = 0; s < sources; ++s) {
            look_at_stop();
            auto order = orders.row(s);
            std::fill(seen.begin(), seen.end(), 0);
            Index end = 0;
            auto add = [&](Index v) {
                if (!std::exchange(seen[v], 1)) order[end++] = v;
            };
            add(s);
            for (Index k = 0; k < end; ++k)
                for (Index a = arcs.first[order[k]]; a < arcs.first[order[k] + 1]; ++a) add(arcs.head[a]);
            for (Index v = 0; v < arcs.n; ++v) add(v);
        }
        return orders;
    }
    void require_all_sources() const { require(orders.rows == problem->arcs.n, "sources", "all servers are needed"); }
    void require_lengths(Floats length) const {
        require_size(length, problem->arcs.m, "length");
        require_not_negative(length, "length");
    }
};

inline double sum_of(Floats values) {
    double total = 0.0;
    for (double value : values) total += value;
    return total;
}

// sum over the sources of demand times distance; pairs without demand do not count even when no path joins them.
inline double total_distance(Router &router, Floats length) {
    std::scoped_lock lock(router.busy);
    router.require_lengths(length);
    auto &[arcs, demand] = *router.problem;
    Tree tree(arcs.n);
    double total = 0.0;
    for (Index s = 0; s < router.orders.rows; ++s) {
        look_at_stop();
        shortest_tree(arcs, length, s, router.orders.row(s), tree);
        double row = 0.0;
        Floats amount = demand.row(s);
        for (Index v = 0; v < arcs.n; ++v)
            if (amount[v] > 0.0) row += amount[v] * tree.distance[v];
        total += row;
    }
    return total;
}

// [sources, m]: all demand of the sources over shortest trees.
inline Matrix<double> tree_flows(Router &router, Floats length) {
    std::scoped_lock lock(router.busy);
    router.require_lengths(length);
    auto &[arcs, demand] = *router.problem;
    Index n = arcs.n;
    Matrix<double> flows(router.orders.rows, arcs.m);
    Tree tree(n);
    std::vector<double> need(n);
    std::vector<Index> children(n);
    for (Index s = 0; s < router.orders.rows; ++s) {
        look_at_stop();
        auto flow = flows.row(s);
        shortest_tree(arcs, length, s, router.orders.row(s), tree);
        // lengths of 0 leave servers of equal distance in any order, so that children are counted off first
        std::fill(children.begin(), children.end(), 0);
        for (Index v = 0; v < n; ++v) {
            need[v] = demand(s, v);
            if (tree.parent[v] >= 0) ++children[arcs.tail[tree.parent[v]]];
        }
        for (Index v = 0; v < n; ++v) {
            for (Index u = v; children[u] == 0 && tree.parent[u] >= 0;) {
                Index a = tree.parent[u];
                flow[a] += need[u];
                need[arcs.tail[a]] += need[u];
                children[u] = -1;
                u = arcs.tail[a];
                --children[u];
            }
        }
    }
    return flows;
}

constexpr double negligible = 1e-12;  // of a source's demand: less flow than this on an arc is none

// Takes circulations out of one flow: loads only fall, what stays at each server does not. Depth-first walks along arcs
// with more flow than the tolerance; a walk that meets itself has closed a cycle, which loses its least arc.
inline void cancel_cycles(const Arcs &arcs, double tolerance, View<double> flow) {
    enum : char { fresh, on_walk, done };
    std::vector<Index> following(arcs.first.begin(), arcs.first.end() - 1), walk(arcs.n);  // arcs of the walk
    std::vector<char> state(arcs.n, fresh);
    for (Index start = 0; start < arcs.n; ++start) {
        if (state[start] != fresh) continue;
        Index v = start, size = 0;
        state[v] = on_walk;
        while (true) {
            Index arc = following[v], end = arcs.first[v + 1];
            while (arc < end && (flow[arc] <= tolerance || state[arcs.head[arc]] == done)) ++arc;
            following[v] = arc;
            if (arc == end) {
                state[v] = done;
                if (size == 0) break;
                v = arcs.tail[walk[--size]];
                continue;
            }
            Index w = arcs.head[arc];
            walk[size++] = arc;
            if (state[w] == fresh) {
                state[w] = on_walk;
                v = w;
                continue;
            }
            Index low = size - 1;
            double least = flow[arc];
            while (arcs.tail[walk[low]] != w) least = std::min(least, flow[walk[--low]]);
            for (Index i = low; i < size; ++i) {
                flow[walk[i]] -= least;
                if (i > low) state[arcs.tail[walk[i]]] = fresh;
            }
            size = low;
            v = w;
        }
    }
}

// Fills `sequence` with all servers, the source first, so that a flow without cycles runs forward; `position` inverts
// it. Servers without any flow into them come last, as in `nearest`; those that send flow all the same come early.
inline void forward_order(const Arcs &arcs, Index source, double tolerance, Floats flow, Ints nearest,
                          View<Index> position, View<Index> sequence) {
    std::vector<Index> coming(arcs.n);
    std::vector<char> early(arcs.n);
    for (Index a = 0; a < arcs.m; ++a) {
        if (!(flow[a] > tolerance) || arcs.head[a] == source) continue;
        ++coming[arcs.head[a]];
        early[arcs.tail[a]] = 1;
    }
    std::fill(position.begin(), position.end(), -1);
    Index count = 0;
    auto add = [&](Index v) {
        position[v] = count;
        sequence[count++] = v;
    };
    add(source);
    for (Index v = 0; v < arcs.n; ++v)
        if (coming[v] == 0 && early[v] && v != source) add(v);
    for (Index ready = 0; ready < count; ++ready) {
        Index v = sequence[ready];
        for (Index a = arcs.first[v]; a < arcs.first[v + 1]; ++a) {
            Index w = arcs.head[a];
            if (flow[a] > tolerance && w != source && --coming[w] == 0) add(w);
        }
    }
    for (Index v : nearest)
        if (position[v] < 0) add(v);
}

// [sources, m]: traffic enters every server in the proportions of `given`, and just enough of it. Cycles are taken out
// first; then proportions are followed back from the targets. A server that needs traffic and is given none gets it
// over its shortest path for `length`, from the last server on that path which comes earlier in the order of the flow.
inline Matrix<double> repaired_flow(Router &router, Floats length, Table<const double> given) {
    std::scoped_lock lock(router.busy);
    router.require_lengths(length);
    auto &[arcs, demand] = *router.problem;
    Index n = arcs.n, m = arcs.m;
    require_flow(given, router.orders.rows, m, "given");
    Matrix<double> flows(router.orders.rows, m);
    Tree tree(n);
    std::vector<Index> position(n), sequence(n);
    std::vector<double> need(n), rough(m);
    for (Index s = 0; s < router.orders.rows; ++s) {
        look_at_stop();
        std::copy(demand.row(s).begin(), demand.row(s).end(), need.begin());
        double amount = sum_of(need);
        if (amount == 0.0) continue;
        auto flow = flows.row(s);
        shortest_tree(arcs, length, s, router.orders.row(s), tree);
        double tolerance = negligible * amount;
        for (Index a = 0; a < m; ++a)
            rough[a] = arcs.head[a] != s && tree.distance[arcs.tail[a]] < infinite ? given(s, a) : 0.0;
        cancel_cycles(arcs, tolerance, rough);
        forward_order(arcs, s, tolerance, rough, router.orders.row(s), position, sequence);
        for (Index k = n - 1; k > 0; --k) {
            Index v = sequence[k];
            if (need[v] == 0.0) continue;
            Ints entering = Ints(arcs.arc_in).part(arcs.into[v], arcs.into[v + 1]);
            double kept = 0.0;
            for (Index a : entering)
                if (rough[a] > tolerance) kept += rough[a];
            if (kept > 0.0) {
                for (Index a : entering) {
                    if (!(rough[a] > tolerance)) continue;
                    double part = need[v] * (rough[a] / kept);
                    flow[a] += part;
                    need[arcs.tail[a]] += part;
                }
                continue;
            }
            Index u = v;
            do {
                Index a = tree.parent[u];
                require(a >= 0, "demand", "no path joins two servers with demand");
                flow[a] += need[v];
                u = arcs.tail[a];
            } while (position[u] >= k);
            need[u] += need[v];
        }
    }
    return flows;
}

// Moves every source in turn towards a routing over short paths, by a step that lowers the softmax of utilisations.
//
// Into each server, traffic of the new routing comes over all arcs on paths from the source that get nearer to it all
// the way, weighted by exp(-excess length / width), the width being `spread` times the farthest distance: single trees
// zigzag where paths tie. routed[s] tells whether source s has a flow yet, else the new routing becomes it. Returns
// lengths seen during the sweep, summed, each with sum c l = 1.
inline std::vector<double> sweep(Router &router, Floats capacity, Table<double> flow, View<bool> routed,
                                 double sharpness, double spread) {
    constexpr double floor = 1e-12;  // keeps lengths positive where loads are low
    constexpr int refresh = 16;      // sources between exact recomputations of the lengths
    std::scoped_lock lock(router.busy);
    router.require_all_sources();
    auto &[arcs, demand] = *router.problem;
    Index n = arcs.n, m = arcs.m;
    require_size(capacity, m, "capacity");
    for (double links : capacity) require(links > 0.0, "capacity", "only numbers above 0 are allowed");
    require_shape(flow, n, m, "flow");
    require_size(routed, n, "routed");
    Tree tree(n);
    std::vector<double> mean_length(m), load(m), length(m), change(m), pull(m), weight(m), need(n);
    View<double> distance = tree.distance;
    Ints into = arcs.into, arc_in = arcs.arc_in, tail = arcs.tail;
    for (Index a = 0; a < m; ++a) pull[a] = sharpness / capacity[a];
    for (Index s = 0; s < n; ++s)
        for (Index a = 0; a < m; ++a) load[a] += flow(s, a);
    int stale = refresh;
    for (Index s = 0; s < n; ++s) {
        look_at_stop();
        std::copy(demand.row(s).begin(), demand.row(s).end(), need.begin());
        if (sum_of(need) == 0.0) continue;
        if (++stale > refresh || !routed[s]) {
            stale = 0;
            double top = 0.0, total = 0.0;
            for (Index a = 0; a < m; ++a) top = std::max(top, load[a] / capacity[a]);
            for (Index a = 0; a < m; ++a) {
                double value = std::exp(sharpness * (load[a] / capacity[a] - top));
                length[a] = value / capacity[a] + floor;
                total += value;
            }
            for (Index a = 0; a < m; ++a) mean_length[a] += length[a] / total;
        }
        auto order = router.orders.row(s);
        shortest_tree(arcs, length, s, order, tree);
        need[s] = 0.0;
        std::fill(change.begin(), change.end(), 0.0);
        double width = spread * distance[order[n - 1]];
        for (Index k = n - 1; k > 0; --k) {
            Index v = order[k];
            if (need[v] == 0.0) continue;
            double total = 0.0;
            for (Index i = into[v]; i < into[v + 1]; ++i) {
                Index a = arc_in[i];
                double nearer = distance[tail[a]], late = nearer + length[a] - distance[v];
                weight[i] = nearer < distance[v] && late < 8.0 * width ? std::exp(-late / width) : 0.0;
                total += weight[i];
            }
            for (Index i = into[v]; i < into[v + 1]; ++i) {
                if (!(weight[i] > 0.0)) continue;
                double part = need[v] * (weight[i] / total);
                change[arc_in[i]] += part;
                need[tail[arc_in[i]]] += part;
            }
        }
        auto old = flow.row(s);
        for (Index a = 0; a < m; ++a) change[a] -= old[a];
        if (!routed[s]) {
            routed[s] = true;
            for (Index a = 0; a < m; ++a) {
                old[a] += change[a];
                load[a] += change[a];
            }
            continue;
        }
        // The slope of the softmax is negative at step 0 and its bend grows by exp(0.5) at most within the widest step
        // allowed, so that a step of -slope / (1.65 bend) cannot pass the minimum.
        double slope = 0.0, bend = 0.0, widest = 0.0;
        for (Index a = 0; a < m; ++a) {
            double move = change[a] * length[a], turn = change[a] * pull[a];
            slope += move;
            bend += move * turn;
            widest = std::max(widest, turn);
        }
        if (slope >= 0.0) continue;
        double step = std::min(std::min(1.0, 0.5 / widest), -slope / (1.65 * bend));
        for (Index a = 0; a < m; ++a) {
            double by = step * change[a];
            old[a] = std::max(old[a] + by, 0.0);
            load[a] += by;
            double x = std::max(by * pull[a], -0.5);  // exp by its series: exact again at the next refresh
            length[a] *= 1.0 + x * (1.0 + x * (0.5 + x * (1.0 / 6.0)));
        }
    }
    return mean_length;
}

}  // namespace topoopt::routing
