// Circulants on Z_n: hop counts by displacement, balanced coin sequences, paths from them.
//
// A circulant with coins C has an arc i -> i + c for every server i and coin c. It looks the same from every server, so
// one breadth-first search from 0 answers for all pairs (CoinChangeMod, TopoOpt, NSDI'23).
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "arrays.hpp"
#include "stop.hpp"

namespace topoopt::graph {

constexpr Index most_servers = Index(1) << 20;

inline void require_coins(Index n, Ints coins) {
    require(n >= 1 && n < most_servers, "n", "a number of servers from 1 to 1048575 is needed");
    require_within(coins, 1, std::max<Index>(n, 2), "coins");
}

inline void fill_circulant_hops(Index n, Ints coins, View<std::int32_t> hops, View<std::int32_t> queue) {
    std::fill(hops.begin(), hops.end(), -1);
    hops[0] = queue[0] = 0;
    for (Index begin = 0, end = 1; begin < end; ++begin) {
        Index server = queue[begin];
        std::int32_t next = hops[server] + 1;
        for (Index coin : coins) {
            Index head = server + coin;
            if (head >= n) head -= n;
            if (hops[head] >= 0) continue;
            hops[head] = next;
            queue[end++] = std::int32_t(head);
        }
    }
}

// Fewest coins that sum to each displacement modulo n; -1 where none does.
inline std::vector<std::int32_t> circulant_hops(Index n, Ints coins) {
    require_coins(n, coins);
    std::vector<std::int32_t> hops(n), queue(n);
    fill_circulant_hops(n, coins, hops, queue);
    return hops;
}

// For every row of coins, the diameter and the sum of hops; both n * n when the coins do not reach everybody.
inline Matrix<std::int64_t> circulant_scores(Index n, Table<const std::int64_t> sets) {
    require_coins(n, sets.flat());
    Matrix<std::int64_t> scores(sets.rows, 2);
    std::vector<std::int32_t> hops(n), queue(n);
    for (Index row = 0; row < sets.rows; ++row) {
        look_at_stop();
        fill_circulant_hops(n, sets.row(row), hops, queue);
        Index diameter = 0, total = 0;
        for (Index far : hops) {
            if (far < 0) {
                diameter = total = n * n;
                break;
            }
            total += far;
            diameter = std::max(diameter, far);
        }
        scores(row, 0) = diameter;
        scores(row, 1) = total;
    }
    return scores;
}

// Multisets of fewest coins of each displacement as counts per coin, at most `limit` each; first their offsets.
inline std::pair<std::vector<std::int64_t>, Matrix<std::int64_t>> coin_decompositions(Index n, Ints coins,
                                                                                      Index limit) {
    std::vector<std::int32_t> hops = circulant_hops(n, coins);
    Index longest = *std::max_element(hops.begin(), hops.end());
    std::vector<std::int64_t> first(n + 1), coin_at(longest + 1), rest_at(longest + 1);
    Matrix<std::int64_t> counts(0, coins.size);
    StopWatch watch;
    for (Index displacement = 1; displacement < n; ++displacement) {
        rest_at[0] = displacement;
        coin_at[0] = 0;
        for (Index depth = 0; depth >= 0 && counts.rows - first[displacement] < limit; watch()) {
            Index c = coin_at[depth];
            if (c == coins.size) {
                if (--depth >= 0) ++coin_at[depth];
                continue;
            }
            Index rest = rest_at[depth] - coins[c];
            if (rest < 0) rest += n;
            if (hops[rest] < 0 || hops[rest] != hops[rest_at[depth]] - 1) {
                ++coin_at[depth];
            } else if (rest > 0) {
                rest_at[++depth] = rest;
                coin_at[depth] = c;  // ascending coins: each multiset once
            } else {
                counts.items.resize(++counts.rows * coins.size);
                for (Index level = 0; level <= depth; ++level) ++counts(counts.rows - 1, coin_at[level]);
                ++coin_at[depth];
            }
        }
        first[displacement + 1] = counts.rows;
    }
    return {std::move(first), std::move(counts)};
}

// The decomposition of each parcel such that the largest load of a coin is least: annealing on the sum of load^8.
inline std::vector<std::int64_t> balance_coins(Ints first, Table<const std::int64_t> counts, Ints displacement,
                                               Floats amount, Floats inverse, Index moves, Index seed) {
    Index classes = inverse.size, parcels = displacement.size;
    require(first.size > 0, "first", "one offset more than rows is needed");
    require_offsets(first, first.size - 1, counts.rows, "first");
    require_shape(counts, counts.rows, classes, "counts");
    require_within(counts.flat(), 0, most_servers, "counts");
    require_within(displacement, 0, first.size - 1, "displacement");
    require_size(amount, parcels, "amount");
    for (Index j : displacement) require(first[j] < first[j + 1], "displacement", "one has no decomposition");
    auto eighth = [](double x) {
        x *= x;
        x *= x;
        return x * x;
    };
    double total = 0.0, capacity = 0.0;
    for (Index p = 0; p < parcels; ++p)
        for (Index c = 0; c < classes; ++c) total += double(counts(first[displacement[p]], c)) * amount[p];
    for (double each : inverse) capacity += 1.0 / each;
    double reference = total / capacity;
    std::vector<double> load(classes), unit(classes);
    for (Index c = 0; c < classes; ++c) unit[c] = inverse[c] / reference;

    std::vector<std::int64_t> selected(parcels), open;
    for (Index p = 0; p < parcels; ++p) {  // each in turn takes its cheapest row
        Index start = first[displacement[p]], end = first[displacement[p] + 1], pick = start;
        if (end - start > 1) {
            open.push_back(p);
            double cheapest = std::numeric_limits<double>::infinity();
            for (Index r = start; r < end; ++r) {
                double value = 0.0;
                for (Index c = 0; c < classes; ++c)
                    value += eighth((load[c] + double(counts(r, c)) * amount[p]) * unit[c]);
                if (value < cheapest) {
                    cheapest = value;
                    pick = r;
                }
            }
        }
        selected[p] = pick;
        for (Index c = 0; c < classes; ++c) load[c] += double(counts(pick, c)) * amount[p];
    }
    if (open.empty()) return selected;

    double energy = 0.0, best_value = -std::numeric_limits<double>::infinity();
    for (Index c = 0; c < classes; ++c) {
        energy += eighth(load[c] * unit[c]);
        best_value = std::max(best_value, load[c] * inverse[c]);
    }
    std::vector<std::int64_t> best = selected;
    double best_energy = energy;
    std::uint64_t state = std::uint64_t(seed) * 2 + 88172645463325253u;  // of an xorshift generator
    // A move of one hop of the largest parcel is likely at first; the last half only descends.
    double start = energy * std::min(0.02, *std::max_element(amount.begin(), amount.end()) / reference);
    StopWatch watch;
    for (Index move = 0; move < moves; ++move) {
        watch();
        double temperature = start * std::max(0.0, 1.0 - 2.0 * double(move) / double(moves));
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Index p = open[(state >> 33) % open.size()], low = first[displacement[p]];
        Index r = low + Index((state & 0xFFFFFF) % std::uint64_t(first[displacement[p] + 1] - low)), old = selected[p];
        if (r == old) continue;
        double value = 0.0;
        for (Index c = 0; c < classes; ++c)
            value += eighth((load[c] + double(counts(r, c) - counts(old, c)) * amount[p]) * unit[c]);
        double draw = double((state >> 24) & 0xFFFF) / 65536.0;
        if (value > energy && draw >= std::exp((energy - value) / (temperature + 1e-300))) continue;
        selected[p] = r;
        energy = value;
        double largest = 0.0;
        for (Index c = 0; c < classes; ++c) {
            load[c] += double(counts(r, c) - counts(old, c)) * amount[p];
            largest = std::max(largest, load[c] * inverse[c]);
        }
        if (largest < best_value * (1.0 - 1e-12) || (largest <= best_value && energy < best_energy * (1.0 - 1e-9))) {
            best_value = largest;
            best_energy = energy;
            best = selected;
        }
    }
    return best;
}

// Offsets and coins of each path: at each position the coin that is used least at that position so far.
inline std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>> order_coins(Ints coins, Floats amount,
                                                                                   Floats inverse, Ints order,
                                                                                   Table<const std::int64_t> counts) {
    Index classes = coins.size, longest = 0;
    require_shape(counts, counts.rows, classes, "counts");
    require_within(counts.flat(), 0, most_servers, "counts");
    require_size(amount, counts.rows, "amount");
    require_size(inverse, classes, "inverse");
    require_within(order, 0, counts.rows, "order");
    std::vector<std::int64_t> first(counts.rows + 1), left(classes);
    for (Index p = 0; p < counts.rows; ++p) {
        first[p + 1] = first[p];
        for (Index count : counts.row(p)) first[p + 1] += count;
        longest = std::max(longest, first[p + 1] - first[p]);
    }
    std::vector<std::int64_t> jump(first.back());
    Matrix<double> used(longest, classes);
    for (Index p : order) {
        std::copy(counts.row(p).begin(), counts.row(p).end(), left.begin());
        for (Index position = 0; position < first[p + 1] - first[p]; ++position) {
            View<double> here = used.row(position);
            Index pick = -1;
            for (Index c = 0; c < classes; ++c)
                if (left[c] > 0 && (pick < 0 || here[c] * inverse[c] < here[pick] * inverse[pick])) pick = c;
            --left[pick];
            here[pick] += amount[p];
            jump[first[p] + position] = coins[pick];
        }
    }
    return {std::move(first), std::move(jump)};
}

// Offsets and servers of every path: the jumps of path[k] added up from source[k].
inline std::pair<std::vector<std::int64_t>, std::vector<std::int32_t>> circulant_paths(Index n, Int32s source,
                                                                                       Ints path, Ints first,
                                                                                       Ints jump) {
    require_coins(n, jump);
    require(first.size > 0, "first", "one offset more than paths is needed");
    require_offsets(first, first.size - 1, jump.size, "first");
    require_within(path, 0, first.size - 1, "path");
    require_size(source, path.size, "source");
    require_within(source, 0, n, "source");
    std::vector<std::int64_t> offsets(path.size + 1);
    for (Index k = 0; k < path.size; ++k) offsets[k + 1] = offsets[k] + first[path[k] + 1] - first[path[k]] + 1;
    std::vector<std::int32_t> node(offsets.back());
    for (Index k = 0, next = 0; k < path.size; ++k) {
        Index server = source[k];
        node[next++] = std::int32_t(server);
        for (Index coin : jump.part(first[path[k]], first[path[k] + 1])) {
            server += coin;
            if (server >= n) server -= n;
            node[next++] = std::int32_t(server);
        }
    }
    return {std::move(offsets), std::move(node)};
}

}  // namespace topoopt::graph
