// Shortest paths on circulants, where one source stands for all: server j is the displacement j from it.
#pragma once
#include <functional>
#include <mutex>
#include <numeric>
#include <queue>
#include <tuple>

#include "shortest.hpp"

namespace topoopt::routing {

inline void require_offsets_of_circulant(Ints offsets, Index n) {
    require(1 <= n && n <= (Index(1) << 28) / std::max(offsets.size, Index(1)), "n", "at most 2^28 arcs are allowed");
    for (Index p : offsets) require(1 <= p && p < n, "offsets", "from 1 to n - 1");
}

// One cyclic min-plus pass per class of arcs, O(n) each. steps(c, j) is meant for the displacement that is left after
// the classes behind c are taken off: to unroll j, take steps(d - 1, j) arcs of the last class off, then what the class
// before says of the rest, and so on.
struct CirculantPaths {
    Index n;
    std::vector<Index> offsets;
    Matrix<std::int32_t> steps;
    std::vector<double> mass;
    std::mutex busy;

    CirculantPaths(Ints offsets, Index n) : n(n), offsets(offsets.begin(), offsets.end()) {
        require_offsets_of_circulant(offsets, n);
        steps = Matrix<std::int32_t>(offsets.size, n);
    }

    // Shortest distance of every displacement, infinite where it is out of reach. A pass walks each coset of the class
    // once round from its nearest element, which no walk round the coset can improve as lengths are not negative.
    std::vector<double> distances(Floats lengths) {
        std::scoped_lock lock(busy);
        require_size(lengths, steps.rows, "lengths");
        require_not_negative(lengths, "lengths");
        std::vector<double> distance(n, infinite);
        distance[0] = 0.0;
        for (Index c = 0; c < steps.rows; ++c) {
            look_at_stop();
            Index p = offsets[c], cosets = std::gcd(n, p), size = n / cosets;
            double length = lengths[c];
            auto taken = steps.row(c);
            auto next = [&](Index j) { return j + p >= n ? j + p - n : j + p; };
            for (Index first = 0; first < cosets; ++first) {
                Index nearest = first, j = first;
                double least = infinite;
                for (Index i = 0; i < size; ++i, j = next(j)) {
                    if (!(distance[j] < least)) continue;
                    nearest = j;
                    least = distance[j];
                }
                std::int32_t count = 0;
                double reach = distance[nearest];
                j = nearest;
                for (Index i = 0; i < size; ++i, j = next(j)) {
                    double through = reach + length;
                    bool shorter = through < distance[j];
                    if (shorter) distance[j] = through;
                    reach = distance[j];
                    count = shorter ? count + 1 : 0;
                    taken[j] = count;
                }
            }
        }
        return distance;
    }

    // Load of each class when every displacement j with demand weight[j] takes its shortest path.
    std::vector<double> loads(Floats weight) {
        std::scoped_lock lock(busy);
        require_size(weight, n, "weight");
        std::vector<double> load(offsets.size());
        mass.assign(weight.begin(), weight.end());
        for (Index c = steps.rows - 1; c >= 0; --c) {
            look_at_stop();
            auto taken = steps.row(c);
            View<double> carried = mass;
            Index p = offsets[c], servers = n;
            double total = 0.0;
            for (Index j = 0; j < servers; ++j) {
                Index count = taken[j];
                if (count == 0) continue;
                double amount = carried[j];
                if (amount == 0.0) continue;
                total += amount * double(count);
                Index start = (j - count * p) % servers;  // a walk begins where no step of this class is taken
                carried[start < 0 ? start + servers : start] += amount;
                carried[j] = 0.0;
            }
            load[c] = total;
        }
        return load;
    }

    Matrix<std::int32_t> steps_taken() {
        std::scoped_lock lock(busy);
        return steps;
    }

    // [d, n]: flow of source 0 over the arc v -> v + offsets[c], everything on its shortest path.
    Matrix<double> flow(Floats weight) {
        std::scoped_lock lock(busy);
        require_size(weight, n, "weight");
        Matrix<double> flow(steps.rows, n);
        mass.assign(weight.begin(), weight.end());
        StopWatch watch;
        for (Index c = steps.rows - 1; c >= 0; --c) {
            auto over = flow.row(c);
            for (Index j = 0; j < n; ++j) {
                watch();
                if (steps(c, j) <= 0 || mass[j] == 0.0) continue;
                Index v = j;
                for (Index i = 0; i < steps(c, j); ++i) {
                    v -= offsets[c];
                    if (v < 0) v += n;
                    over[v] += mass[j];
                }
                mass[v] += mass[j];
                mass[j] = 0.0;
            }
        }
        return flow;
    }
};

// Shortest paths from 0, of equal ones that of fewer hops: (whether all displacements are reached, int64[n] class of
// the last hop to each, float64[d] loads of the classes when displacement j carries weights[j]).
inline std::tuple<bool, std::vector<Index>, std::vector<double>> circulant_tree(Ints offsets, Floats lengths,
                                                                                Floats weights) {
    Index n = weights.size, d = offsets.size;
    require_offsets_of_circulant(offsets, n);
    require_size(lengths, d, "lengths");
    require_not_negative(lengths, "lengths");
    using Label = std::tuple<double, Index, Index>;  // distance, hops, server
    std::priority_queue<Label, std::vector<Label>, std::greater<>> labels;
    std::vector<std::pair<double, Index>> nearest(n, {infinite, n + 1});
    std::vector<Index> tree(n, -1), order;
    std::vector<char> done(n);
    std::vector<double> loads(d), carried(weights.begin(), weights.end());
    nearest[0] = {0.0, 0};
    for (labels.emplace(0.0, 0, 0); !labels.empty();) {
        auto [distance, hops, u] = labels.top();
        labels.pop();
        if (std::exchange(done[u], 1)) continue;
        order.push_back(u);
        for (Index c = 0; c < d; ++c) {
            Index v = (u + offsets[c]) % n;
            std::pair reached(distance + lengths[c], hops + 1);
            if (done[v] || !(reached.first < infinite && reached < nearest[v])) continue;
            nearest[v] = reached;
            tree[v] = c;
            labels.emplace(reached.first, reached.second, v);
        }
    }
    bool reached = Index(order.size()) == n;
    for (Index k = Index(order.size()) - 1; reached && k > 0; --k) {
        Index v = order[k], u = v - offsets[tree[v]];
        loads[tree[v]] += carried[v];
        carried[u < 0 ? u + n : u] += carried[v];
    }
    return {reached, std::move(tree), std::move(loads)};
}

// Adds to `flow`, [n, d], what leaves each server by each class: weights[t] along the path to every t in a tree of
// `circulant_tree`.
inline void add_circulant_tree(Ints offsets, Ints tree, Floats weights, Table<double> flow) {
    Index n = weights.size;
    require_offsets_of_circulant(offsets, n);
    require_size(tree, n, "tree");
    require_within(tree.part(1, n), 0, offsets.size, "tree");
    require_shape(flow, n, offsets.size, "flow");
    StopWatch watch;
    for (Index t = 1; t < n; ++t) {
        watch();
        for (Index v = t, hops = 0; v != 0;) {
            require(++hops < n, "tree", "its paths lead from 0");
            Index c = tree[v];
            v -= offsets[c];
            if (v < 0) v += n;
            flow(v, c) += weights[t];
        }
    }
}

}  // namespace topoopt::routing
