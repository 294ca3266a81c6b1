// Spanning trees of collectives: maximum flows, shortest paths between ranks, least arborescences, and their packing.
#pragma once
#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>
#include <vector>

#include "arrays.hpp"
#include "stop.hpp"

namespace topoopt::graph {

constexpr std::int64_t kMostUnits = std::int64_t(1) << 60;  // of an arc, and of all that is sent together

// Maximum flows of Dinic; arcs in pairs, a capacity set in `start` counts from the next run on.
struct TreeFlow {
    Index nodes;
    std::vector<Index> to, first, next, level, at, queue;
    std::vector<std::int64_t> left, start;

    explicit TreeFlow(Index nodes) : nodes(nodes), first(nodes, -1), level(nodes), at(nodes), queue(nodes) {}

    Index add(Index tail, Index head, std::int64_t capacity) {
        Index id = Index(to.size());
        for (auto [from, other, units] : {std::tuple(tail, head, capacity), std::tuple(head, tail, std::int64_t(0))}) {
            to.push_back(other);
            next.push_back(first[from]);
            first[from] = Index(to.size()) - 1;
            start.push_back(units);
        }
        return id;
    }

    bool layers(Index source, Index sink) {
        std::fill(level.begin(), level.end(), -1);
        Index begin = 0, end = 0;
        queue[end++] = source;
        level[source] = 0;
        while (begin < end) {
            Index v = queue[begin++];
            for (Index arc = first[v]; arc >= 0; arc = next[arc])
                if (left[arc] > 0 && level[to[arc]] < 0) {
                    level[to[arc]] = level[v] + 1;
                    queue[end++] = to[arc];
                    if (to[arc] == sink) return true;
                }
        }
        return false;
    }

    std::int64_t push(Index v, Index sink, std::int64_t most) {
        if (v == sink || most == 0) return most;
        std::int64_t sent = 0;
        for (Index &arc = at[v]; arc >= 0; arc = next[arc]) {
            if (left[arc] <= 0 || level[to[arc]] != level[v] + 1) continue;
            std::int64_t more = push(to[arc], sink, std::min(most - sent, left[arc]));
            left[arc] -= more;
            left[arc ^ 1] += more;
            sent += more;
            if (sent == most) return sent;
        }
        level[v] = -1;
        return sent;
    }

    std::int64_t run(Index source, Index sink, std::int64_t limit) {
        left = start;
        std::int64_t value = 0;
        while (value < limit && layers(source, sink)) {
            at = first;
            value += push(source, sink, limit - value);
        }
        return value;
    }

    // Nodes that the source still reaches; where the flow fell short of its limit, `layers` has just reached them.
    void side(View<std::uint8_t> mark) const {
        for (Index v = 0; v < mark.size; ++v) mark[v] = level[v] >= 0;
    }
    // All nodes but those that still reach the sink.
    void side_around(Index sink, View<std::uint8_t> mark) {
        std::fill(level.begin(), level.end(), 0);
        Index begin = 0, end = 0;
        queue[end++] = sink;
        level[sink] = 1;
        while (begin < end) {
            Index v = queue[begin++];
            for (Index arc = first[v]; arc >= 0; arc = next[arc])
                if (left[arc ^ 1] > 0 && !level[to[arc]]) {
                    level[to[arc]] = 1;
                    queue[end++] = to[arc];
                }
        }
        for (Index v = 0; v < mark.size; ++v) mark[v] = !level[v];
    }
};

inline void require_network(Index nodes, Int32s tail, Int32s head) {
    require(nodes >= 1 && nodes < (1 << 20), "nodes", "a number of nodes from 1 to 1048575 is needed");
    require_size(head, tail.size, "head");
    for (Int32s own : {tail, head}) require_within(own, 0, nodes, "tail, head");
}

inline void require_units(Ints units, const char *name) { require_within(units, 0, kMostUnits, name); }

inline std::int64_t sum_of_units(Ints units, const char *name) {
    require_units(units, name);
    std::int64_t total = 0;
    for (std::int64_t own : units) {
        total += own;
        require(total < kMostUnits, name, "the sum is too large");
    }
    return total;
}

// Least cuts between a super source, which sends so much to each rank, and each sink: the smallest sets around the
// source, or around the sink, where less than all comes through.
inline std::tuple<std::vector<std::int64_t>, Matrix<std::uint8_t>> rank_cuts(Index nodes, Int32s tail, Int32s head,
                                                                             Ints capacity, Int32s rank, Ints sent,
                                                                             Int32s sink, bool around_sink) {
    require_network(nodes, tail, head);
    require_size(capacity, tail.size, "capacity");
    require_units(capacity, "capacity");
    require_size(sent, rank.size, "sent");
    std::int64_t total = sum_of_units(sent, "sent");
    require_within(rank, 0, nodes, "rank");
    require_within(sink, 0, nodes, "sink");
    TreeFlow flow(nodes + 1);
    for (Index arc = 0; arc < tail.size; ++arc) flow.add(tail[arc], head[arc], capacity[arc]);
    for (Index k = 0; k < rank.size; ++k) flow.add(nodes, rank[k], sent[k]);
    std::vector<std::int64_t> value(sink.size);
    Matrix<std::uint8_t> sides(sink.size, nodes);
    for (Index k = 0; k < sink.size; ++k) {
        look_at_stop();
        value[k] = flow.run(nodes, sink[k], total);
        if (value[k] == total) continue;
        if (around_sink) flow.side_around(sink[k], sides.row(k));
        else flow.side(sides.row(k));
    }
    return {std::move(value), std::move(sides)};
}

// Shortest distances from each source, and the arc by which each node is reached; ranks do not relay unless asked.
inline std::tuple<Matrix<double>, Matrix<std::int32_t>> rank_paths(Index nodes, Int32s tail, Int32s head, Floats length,
                                                                   Bools is_rank, bool relaying, Int32s source) {
    require_network(nodes, tail, head);
    require_size(length, tail.size, "length");
    require_size(is_rank, nodes, "is_rank");
    require_within(source, 0, nodes, "source");
    for (double own : length) require(0.0 <= own && own <= 1e300, "length", "a length is negative, too large or none");
    std::vector<Index> first(nodes, -1), next(tail.size);
    for (Index arc = tail.size; arc-- > 0;) {
        next[arc] = first[tail[arc]];
        first[tail[arc]] = arc;
    }
    Matrix<double> distance(source.size, nodes, std::numeric_limits<double>::infinity());
    Matrix<std::int32_t> before(source.size, nodes, -1);
    using Item = std::pair<double, Index>;
    for (Index k = 0; k < source.size; ++k) {
        look_at_stop();
        std::priority_queue<Item, std::vector<Item>, std::greater<>> heap;
        distance(k, source[k]) = 0.0;
        heap.push({0.0, source[k]});
        while (!heap.empty()) {
            auto [now, v] = heap.top();
            heap.pop();
            if (now > distance(k, v) || (!relaying && is_rank[v] && v != source[k])) continue;
            for (Index arc = first[v]; arc >= 0; arc = next[arc]) {
                double sum = now + length[arc];
                if (sum < distance(k, head[arc])) {
                    distance(k, head[arc]) = sum;
                    before(k, head[arc]) = std::int32_t(arc);
                    heap.push({sum, head[arc]});
                }
            }
        }
    }
    return {std::move(distance), std::move(before)};
}

// Parents in a least arborescence of a dense matrix (Chu and Liu, Edmonds); all cycles of a round are contracted at
// once.
inline std::vector<std::int32_t> least_arborescence(Table<const double> cost, Index root) {
    Index n = cost.rows;
    std::vector<std::int32_t> best(n, -1), group(n, -1);
    std::vector<int> state(n, 0);
    for (Index v = 0; v < n; ++v) {
        if (v == root) continue;
        for (Index u = 0; u < n; ++u)
            if (u != v && (best[v] < 0 || cost(u, v) < cost(best[v], v))) best[v] = std::int32_t(u);
    }
    std::int32_t cycles = 0;
    std::vector<Index> path;
    for (Index v = 0; v < n; ++v) {
        path.clear();
        Index u = v;
        for (; u != root && state[u] == 0; u = best[u]) {
            state[u] = 1;
            path.push_back(u);
        }
        if (u != root && state[u] == 1) {
            for (Index w = u; group[w] < 0; w = best[w]) group[w] = cycles;
            ++cycles;
        }
        for (Index w : path) state[w] = 2;
    }
    if (cycles == 0) return best;
    std::vector<bool> contracted(n);
    std::int32_t m = cycles;
    for (Index v = 0; v < n; ++v) {
        contracted[v] = group[v] >= 0;
        if (!contracted[v]) group[v] = m++;
    }
    Matrix<double> reduced(m, m, std::numeric_limits<double>::infinity());
    Matrix<std::int32_t> tail(m, m, -1), head(m, m, -1);
    for (Index u = 0; u < n; ++u)
        for (Index v = 0; v < n; ++v) {
            Index a = group[u], b = group[v];
            if (a == b || v == root) continue;
            double own = cost(u, v) - (contracted[v] ? cost(best[v], v) : 0.0);
            if (own < reduced(a, b) || tail(a, b) < 0) {
                reduced(a, b) = own;
                tail(a, b) = std::int32_t(u);
                head(a, b) = std::int32_t(v);
            }
        }
    std::vector<std::int32_t> above = least_arborescence(reduced, group[root]);
    for (Index b = 0; b < m; ++b)
        if (b != group[root]) best[head(above[b], b)] = tail(above[b], b);
    best[root] = -1;
    return best;
}

inline std::vector<std::int32_t> least_tree(Table<const double> cost, Index root) {
    require_shape(cost, cost.rows, cost.rows, "cost");
    require(0 <= root && root < cost.rows, "root", "an index is out of range");
    for (double own : cost.flat()) require(0.0 <= own && own <= 1e300, "cost", "a cost is negative, too large or none");
    return least_arborescence(cost, root);
}

// Equal trees that grow together: a root, how many, what they reach, the arc into each node, and its height.
struct GrowingTrees {
    Index root;
    std::int64_t count;
    std::vector<Index> into, height;  // into: -1 where not reached, and at the root
    Index reached = 1, level = 0;
    std::vector<bool> refused = {};  // arcs that cannot join any more

    bool has(Index v) const { return v == root || into[v] >= 0; }
};

// Packs `count[v]` arborescences from every node v into whole capacities of a graph of ranks alone (Edmonds).
//
// One batch of equal trees grows at a time. An arc x -> y may join so many of its trees as every set with y and without
// x can spare: a flow to y from a source that has x and the needs of all other batches, less these needs (Lovasz; for
// batches Berczi and Frank). Batches not begun are single arcs from the source; those put aside are nodes of their own.
class TreePacking {
    Index nodes;
    Int32s tail, head;
    std::vector<std::int64_t> left, waiting;
    std::vector<std::vector<Index>> out;
    std::vector<GrowingTrees> aside;
    TreeFlow flow{0};
    std::vector<Index> root_arc;
    bool stale = true, flat;
    std::int64_t due = 0;  // trees of the batches that have not begun

    void rebuild() {  // arcs of the graph, then from the source to every root, then the batches put aside
        flow = TreeFlow(nodes + 1 + Index(aside.size()));
        for (Index arc = 0; arc < tail.size; ++arc) flow.add(tail[arc], head[arc], left[arc]);
        for (Index v = 0; v < nodes; ++v) root_arc[v] = flow.add(nodes, v, waiting[v]);
        for (Index k = 0; k < Index(aside.size()); ++k) {
            flow.add(nodes, nodes + 1 + k, aside[k].count);
            for (Index v = 0; v < nodes; ++v)
                if (aside[k].has(v)) flow.add(nodes + 1 + k, v, aside[k].count);
        }
        stale = false;
    }

    // The arc with most units to spare, of these the one from the shallowest node, or the other way round; -1: none.
    Index best_arc(const GrowingTrees &now) const {
        Index best = -1;
        for (Index v = 0; v < nodes; ++v) {
            if (!now.has(v)) continue;
            for (Index arc : out[v]) {
                if (now.refused[arc] || left[arc] <= 0 || now.has(head[arc])) continue;
                auto key = [&](Index at) {
                    std::int64_t units = -std::min(left[at], now.count), depth = now.height[tail[at]];
                    return flat ? std::tuple(depth, units, -left[at]) : std::tuple(units, depth, -left[at]);
                };
                if (best < 0 || key(arc) < key(best)) best = arc;
            }
        }
        return best;
    }

    std::int64_t spare(const GrowingTrees &now, Index arc) {
        if (stale) rebuild();
        std::int64_t others = due;
        for (const GrowingTrees &batch : aside) others += batch.count;
        Index from = root_arc[tail[arc]];
        flow.start[from] = std::numeric_limits<std::int64_t>::max() / 4;
        std::int64_t most = others + std::min(now.count, left[arc]);
        std::int64_t units = flow.run(nodes, head[arc], most) - others;
        flow.start[from] = waiting[tail[arc]];
        return units;
    }

    void join(GrowingTrees &now, Index arc) {
        look_at_stop();
        std::int64_t units = spare(now, arc);
        now.refused[arc] = units <= 0;
        if (units <= 0) return;
        if (units < now.count) {
            aside.push_back(now);
            aside.back().count -= units;
            now.count = units;
            stale = true;
        }
        left[arc] -= units;
        if (!stale) flow.start[2 * arc] = left[arc];
        now.into[head[arc]] = arc;
        now.height[head[arc]] = now.height[tail[arc]] + 1;
        ++now.reached;
    }

    bool grow(GrowingTrees &now) {
        now.refused.assign(tail.size, false);  // one that was refused may fit the rest of a batch
        while (now.reached < nodes) {
            Index arc = best_arc(now);
            if (arc < 0) return false;
            join(now, arc);
        }
        return true;
    }

    GrowingTrees begun(Index root) {
        GrowingTrees batch{root, waiting[root], std::vector<Index>(nodes, -1), std::vector<Index>(nodes)};
        batch.refused.assign(tail.size, false);
        due -= waiting[root];
        waiting[root] = 0;
        return batch;
    }

  public:
    std::vector<GrowingTrees> done;

    TreePacking(Index nodes, Int32s tail, Int32s head, Ints capacity, Ints count, bool flat)
        : nodes(nodes),
          tail(tail),
          head(head),
          left(capacity.begin(), capacity.end()),
          waiting(count.begin(), count.end()),
          out(nodes),
          root_arc(nodes),
          flat(flat) {
        for (Index arc = 0; arc < tail.size; ++arc) out[tail[arc]].push_back(arc);
        for (std::int64_t own : count) due += own;
    }

    // All batches in turns, those first whose next arc begins at the least depth, and of these those that reach least.
    bool run_flat(Index most) {
        for (Index root = 0; root < nodes; ++root)
            if (waiting[root] > 0) aside.push_back(begun(root));
        while (!aside.empty()) {
            auto next = std::min_element(aside.begin(), aside.end(), [](const GrowingTrees &a, const GrowingTrees &b) {
                return std::tuple(a.level, a.reached, a.root) < std::tuple(b.level, b.reached, b.root);
            });
            GrowingTrees now = std::move(*next);
            if (next != aside.end() - 1) *next = std::move(aside.back());
            aside.pop_back();
            stale = true;
            if (now.reached == nodes) {
                if (Index(done.size()) == most) return false;
                done.push_back(std::move(now));
                continue;
            }
            Index arc = best_arc(now);
            if (arc < 0) return false;
            if (now.height[tail[arc]] > now.level) now.level = now.height[tail[arc]];
            else join(now, arc);
            aside.push_back(std::move(now));
        }
        std::stable_sort(done.begin(), done.end(),
                         [](const GrowingTrees &a, const GrowingTrees &b) { return a.root < b.root; });
        return true;
    }

    bool run(Index most) {
        if (flat) return run_flat(most);
        for (Index root = 0; root < nodes || !aside.empty();) {
            if (Index(done.size()) == most) return false;
            GrowingTrees now;
            if (!aside.empty()) {
                now = std::move(aside.back());
                aside.pop_back();
                stale = true;
            } else if (waiting[root] == 0) {
                ++root;
                continue;
            } else {
                now = begun(root);
                if (!stale) flow.start[root_arc[root]] = 0;
            }
            if (!grow(now)) return false;
            done.push_back(std::move(now));
        }
        return true;
    }
};

// Roots, counts, and int32[batches, nodes], parents of the trees of a packing; no batches: they do not fit.
inline std::tuple<std::vector<std::int32_t>, std::vector<std::int64_t>, Matrix<std::int32_t>> pack_trees(
    Index nodes, Int32s tail, Int32s head, Ints capacity, Ints count, Index most, bool flat) {
    require_network(nodes, tail, head);
    require_size(capacity, tail.size, "capacity");
    require_size(count, nodes, "count");
    require_units(capacity, "capacity");
    sum_of_units(count, "count");
    require(0 <= most && most <= (1 << 20), "most", "a number of batches from 0 to 1048576 is needed");
    TreePacking packing(nodes, tail, head, capacity, count, flat);
    if (!packing.run(most)) packing.done.clear();
    Index batches = Index(packing.done.size());
    std::vector<std::int32_t> root(batches);
    std::vector<std::int64_t> units(batches);
    Matrix<std::int32_t> parent(batches, nodes, -1);
    for (Index k = 0; k < batches; ++k) {
        const GrowingTrees &batch = packing.done[k];
        root[k] = std::int32_t(batch.root);
        units[k] = batch.count;
        for (Index v = 0; v < nodes; ++v)
            if (batch.into[v] >= 0) parent(k, v) = tail[batch.into[v]];
    }
    return {std::move(root), std::move(units), std::move(parent)};
}

}  // namespace topoopt::graph
