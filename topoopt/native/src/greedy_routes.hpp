// Demands routed one after the other, each over the cheapest of its shortest paths given the loads so far. The price of
// an arc is (load after, per parallel link)^4, so that the largest load decides long before the sum.
#pragma once
#include "shortest.hpp"

namespace topoopt::routing {

// Demand k, of order, sends amount[k] from source[k] to target[k]; its arcs are
// path_arc[path_first[k]..path_first[k+1]], which is written, and `load` with it. hops_to(t, v) are the hops from v to
// t. `reroute`: each is taken out first.
inline void route_demands(Ints order, Ints source, Ints target, Floats amount, Ints first, Ints head,
                          Table<const std::int32_t> hops_to, Floats inverse_capacity, View<double> load,
                          Ints path_first, View<Index> path_arc, bool reroute) {
    Index n = first.size - 1, m = head.size, demands = source.size;
    require_arcs(first, head, n);
    require_within(order, 0, demands, "order");
    require_within(source, 0, n, "source");
    require_size(target, demands, "target");
    require_within(target, 0, n, "target");
    require_size(amount, demands, "amount");
    require_shape(hops_to, n, n, "hops_to");
    require_size(inverse_capacity, m, "inverse_capacity");
    require_size(load, m, "load");
    require_offsets(path_first, demands, path_arc.size, "path_first");
    std::vector<double> best(n, -1.0);
    std::vector<Index> via(n, -1), before(n), frontier(n);
    StopWatch watch;
    for (Index k : order) {
        watch();
        Index begin = path_first[k], end = path_first[k + 1], s = source[k], t = target[k], last = 1;
        double more = amount[k];
        auto path = path_arc.part(begin, end);
        if (reroute) {
            require_within(path, 0, m, "path_arc");
            for (Index a : path) load[a] -= more;
        }
        auto to_target = hops_to.row(t);
        best[s] = 0.0;
        frontier[0] = s;
        for (Index ready = 0; ready < last; ++ready) {  // layer by layer over arcs that bring t one hop nearer
            Index u = frontier[ready];
            if (u == t) continue;
            for (Index a = first[u], a_end = first[u + 1]; a < a_end; ++a) {
                Index v = head[a];
                if (to_target[v] != Index(to_target[u]) - 1) continue;
                double x = (load[a] + more) * inverse_capacity[a];
                x *= x;
                double price = best[u] + x * x;
                bool fresh = best[v] < 0.0;
                if (fresh) frontier[last++] = v;
                if (!fresh && !(price < best[v])) continue;
                best[v] = price;
                via[v] = a;
                before[v] = u;
            }
        }
        for (Index i = 0; i < last; ++i) best[frontier[i]] = -1.0;
        for (Index p = path.size - 1, v = t; p >= 0; --p, v = before[v]) {
            require(via[v] >= 0, "hops_to", "not the hops over these arcs");
            path[p] = via[v];
            load[via[v]] += more;
        }
    }
}

// What all sources send over their trees, as load of each arc: amount(s, v) from s to each v; trees as those of
// `breadth_first_trees`.
inline std::vector<double> tree_loads(Ints tail, Table<const Index> order, Table<const Index> via,
                                      Table<const double> amount) {
    Index n = order.rows;
    require_shape(order, n, n, "order");
    require_shape(via, n, n, "via");
    require_shape(amount, n, n, "amount");
    require_within(order.flat(), 0, n, "order");
    require_within(tail, 0, n, "tail");
    std::vector<double> load(tail.size), below(n);
    for (Index s = 0; s < n; ++s) {
        look_at_stop();
        std::copy(amount.row(s).begin(), amount.row(s).end(), below.begin());
        for (Index k = n - 1; k > 0; --k) {
            Index v = order(s, k), arc = via(s, v);
            require(arc >= 0 && arc < tail.size, "via", "an index is out of range");
            load[arc] += below[v];
            below[tail[arc]] += below[v];
        }
    }
    return load;
}

// On a circulant the shortest paths of a displacement are the same from every source. So the arcs on them are listed
// once a displacement, in the order in which distances from the source grow, and a demand looks at its own arcs alone,
// in a row: ten times as fast as a search for each where many paths tie.
//
// A node of displacement x is a server on a shortest path from 0 to x, numbered by hops: 0 is server 0, the last is x.
class DisplacementPaths {
    struct Arc {
        std::int32_t tail, head;  // nodes
        std::int32_t slot;        // its class * 2 n + its tail, counted on beyond n for other sources
    };
    Index n, m;
    std::vector<Index> hops, node_first, arc_first;  // of each displacement; nodes and arcs of it
    std::vector<std::int32_t> entering;              // first arc into each node, counted from the displacement's first
    std::vector<Arc> arcs;                           // by head
    std::vector<Index> arc_of;                       // number of the arc in each slot

  public:
    DisplacementPaths(Ints tail, Ints head, Index n) : n(n), m(tail.size), node_first{0}, arc_first{0} {
        require(1 <= n && n < (Index(1) << 20), "n", "a number of servers below 1048576 is needed");
        require_within(tail, 0, n, "tail");
        require_size(head, m, "head");
        require_within(head, 0, n, "head");
        std::vector<Index> class_of(n, -1), offsets;
        for (Index a = 0; a < m; ++a) class_of[(head[a] - tail[a] + n) % n] = 0;
        for (Index p = 0; p < n; ++p) {
            if (class_of[p] < 0) continue;
            class_of[p] = Index(offsets.size());
            offsets.push_back(p);
        }
        Index classes = Index(offsets.size());
        require(m == classes * n && class_of[0] < 0, "head", "a circulant without repeated arcs is needed");
        require(classes * n < (Index(1) << 30), "head", "too many arcs");
        arc_of.assign(2 * m, -1);
        for (Index a = 0; a < m; ++a) {
            Index slot = class_of[(head[a] - tail[a] + n) % n] * 2 * n + tail[a];
            require(arc_of[slot] < 0, "head", "a circulant without repeated arcs is needed");
            arc_of[slot] = arc_of[slot + n] = a;
        }
        hops.assign(n, -1);
        std::vector<Index> nearest{0};  // breadth first
        hops[0] = 0;
        for (Index k = 0; k < Index(nearest.size()); ++k)
            for (Index p : offsets) {
                Index v = (nearest[k] + p) % n;
                if (hops[v] >= 0) continue;
                hops[v] = hops[nearest[k]] + 1;
                nearest.push_back(v);
            }
        require(Index(nearest.size()) == n, "head", "the circulant is not connected");
        std::sort(nearest.begin(), nearest.end(),
                  [&](Index u, Index v) { return std::pair(hops[u], u) < std::pair(hops[v], v); });
        std::vector<std::int32_t> node(n, -1);
        for (Index x = 0; x < n; ++x) {
            look_at_stop();
            std::int32_t nodes = 0;
            for (Index v : nearest) {
                bool on_path = hops[v] + hops[(x - v + n) % n] == hops[x];
                node[v] = on_path ? nodes++ : -1;
                if (!on_path) continue;
                entering.push_back(std::int32_t(Index(arcs.size()) - arc_first[x]));
                for (Index c = 0; c < classes; ++c) {
                    Index u = (v - offsets[c] + n) % n;
                    if (hops[u] == hops[v] - 1 && node[u] >= 0)
                        arcs.push_back({node[u], node[v], std::int32_t(c * 2 * n + u)});
                }
                if (v == x) break;
            }
            for (Index v : nearest) node[v] = -1;
            node_first.push_back(Index(entering.size()));
            arc_first.push_back(Index(arcs.size()));
        }
    }

    // Routes demands in this order; all arcs have the same number of parallel links. `start`: where the arcs of each go
    // in `path_arc`, which is written, and `load` with it. `reroute`: they have paths there, and each is taken out
    // first; then prices are (load after)^8, where the largest load counts more.
    void route(Ints source, Ints target, Floats amount, Ints start, View<double> load, View<Index> path_arc,
               bool reroute) const {
        Index demands = source.size;
        require_within(source, 0, n, "source");
        require_size(target, demands, "target");
        require_within(target, 0, n, "target");
        require_size(amount, demands, "amount");
        require_size(start, demands, "start");
        require_size(load, m, "load");
        // A slot and the same one n further are kept alike, so that a source is added without a division.
        std::vector<double> carried(2 * m);
        std::vector<Index> slot_of(m);
        for (Index slot = 0; slot < 2 * m; ++slot) {
            carried[slot] = load[arc_of[slot]];
            slot_of[arc_of[slot]] = slot;  // the further one
        }
        std::vector<double> best(n), price(m);
        StopWatch watch;
        for (Index k = 0; k < demands; ++k) {
            watch();
            Index s = source[k], x = target[k] - s + (target[k] < s ? n : 0);
            require(start[k] >= 0 && start[k] <= path_arc.size - hops[x], "start", "an index is out of range");
            auto path = path_arc.part(start[k], start[k] + hops[x]);
            double more = amount[k];
            if (reroute) {
                require_within(path, 0, m, "path_arc");
                for (Index a : path) carried[slot_of[a] - n] = carried[slot_of[a]] -= more;
            }
            auto own = View<const Arc>(arcs).part(arc_first[x], arc_first[x + 1]);
            for (Index a = 0; a < own.size; ++a) {
                double after = carried[own[a].slot + s] + more;
                after *= after;
                after *= after;
                price[a] = reroute ? after * after : after;
            }
            Index end = node_first[x + 1] - node_first[x] - 1;
            best[0] = 0.0;
            std::fill(best.begin() + 1, best.begin() + end + 1, infinite);
            for (Index a = 0; a < own.size; ++a)  // by head, and no tail comes after its heads
                best[own[a].head] = std::min(best[own[a].tail] + price[a], best[own[a].head]);
            for (Index back = hops[x] - 1; back >= 0; --back) {
                Index at = entering[node_first[x] + end];
                while (at < own.size && best[own[at].tail] + price[at] != best[end]) ++at;
                require(at < own.size, "load", "finite loads and amounts are needed");
                Index arc = arc_of[own[at].slot + s];
                carried[slot_of[arc] - n] = carried[slot_of[arc]] += more;
                path[back] = arc;
                end = own[at].tail;
            }
        }
        for (Index slot = 0; slot < 2 * m; ++slot) load[arc_of[slot]] = carried[slot];
    }
};

}  // namespace topoopt::routing
