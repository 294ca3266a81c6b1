// Matchings: of the links of duplex patch cords, one a switch; and of the heaviest pairs of servers.
#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "arrays.hpp"
#include "random.hpp"
#include "stop.hpp"

namespace topoopt::graph {

// Links given to switches so that each interface sends to and receives from one other: duplex patch cords do.
//
// That is edge colouring of the multigraph of links, a matching a switch. As many colours as a server has links are not
// always enough: never on an odd number of servers with all interfaces in use, where a matching leaves one server out;
// one more is, where no links are parallel (Vizing 1964). Found by exchanging two colours along alternating paths
// (Kempe), with random exchanges where these do not help.
class DuplexSwitches {
    static constexpr Index exchanges_per_link = 40;

    Index n, degree, used = 0;  // rows below `used` are taken by whole distances
    Table<const std::int64_t> ends;
    std::uint64_t state = 1;
    Random random{state};
    std::vector<std::int32_t> nodes;

    Index next(Index colour, Index node) const { return partner(colour, node); }

    // Exchanges colours a and b on the path or cycle of links of the two that a server is on.
    void exchange(Index a, Index b, Index start) {
        nodes.clear();
        for (Index first : {a, b}) {
            Index node = start, colour = first;
            do {
                if (first == a || node != start) nodes.push_back(std::int32_t(node));
                node = next(colour, node);
                colour = a + b - colour;
            } while (node >= 0 && node != start);
            if (node == start) break;
        }
        for (Index node : nodes) std::swap(partner(a, node), partner(b, node));
    }

    // The far end of the path of links of colours a, b, a, ... that begins at a server without b.
    Index other_end(Index a, Index b, Index node) const {
        for (Index colour = a; next(colour, node) >= 0; colour = a + b - colour) node = next(colour, node);
        return node;
    }

    // One of the colours from `used` on that a server has no link of, -1 if it has of all.
    Index free_colour(Index node) {
        Index selected = -1, seen = 0;
        for (Index colour = used; colour < degree; ++colour)
            if (next(colour, node) < 0 && random.below(++seen) == 0) selected = colour;
        return selected;
    }

  public:
    Matrix<std::int32_t> partner;
    std::vector<char> done;
    Index placed = 0;

    DuplexSwitches(Index n, Index degree, Table<const std::int64_t> ends)
        : n(n), degree(degree), ends(ends), partner(degree, n, -1), done(ends.rows) {}
    DuplexSwitches(const DuplexSwitches &) = delete;

    // A distance that every server has takes two switches of alternating links, where it closes to even cycles.
    void place_distances() {
        std::map<Index, std::vector<Index>> links;  // by distance
        for (Index link = 0; link < ends.rows; ++link) {
            Index ahead = (ends(link, 1) - ends(link, 0) + n) % n;
            links[std::min(ahead, n - ahead)].push_back(link);
        }
        for (const auto &[distance, alike] : links) {
            Index cycles = std::gcd(n, distance), layers = ends.rows;
            bool antipodal = 2 * distance == n;
            Index count = antipodal ? n / 2 : n;
            if (n / cycles % 2 != 0 || Index(alike.size()) < count) continue;
            std::vector<std::vector<Index>> tails(count);
            for (Index link : alike) {
                Index one = ends(link, 0), other = ends(link, 1);
                tails[antipodal ? std::min(one, other) : (one + distance) % n == other ? one : other].push_back(link);
            }
            for (const auto &own : tails) layers = std::min(layers, Index(own.size()));
            for (Index layer = 0; layer < layers; ++layer) {
                for (const auto &own : tails) done[own[layer]] = true;
                placed += count;
                for (Index turn = 0; turn < (antipodal ? 1 : 2); ++turn, ++used)
                    for (Index step = 0; step < n; ++step) {
                        Index server = (step % cycles + step / cycles * distance) % n;  // along each cycle
                        bool ahead = step / cycles % 2 == turn;
                        partner(used, server) = std::int32_t((server + (ahead ? distance : n - distance)) % n);
                    }
            }
        }
    }

    // Gives links to the other switches until `room` have one, or exchanges no longer help.
    void place_others(Index room) {
        Index exchanges = exchanges_per_link * ends.rows;
        StopWatch watch;
        for (bool last : {false, true})
            for (Index link = 0; link < ends.rows; ++link) {
                Index u = ends(link, 0), v = ends(link, 1);
                while (!done[link] && placed < room) {
                    watch();
                    Index a = free_colour(u), b = free_colour(v);
                    if (a < 0 || b < 0) break;
                    if (next(a, v) >= 0 && other_end(a, b, v) != u) exchange(a, b, v);
                    if (next(a, v) < 0) {
                        partner(a, u) = std::int32_t(v);
                        partner(a, v) = std::int32_t(u);
                        done[link] = true;
                        ++placed;
                    } else if (last && exchanges > 0) {
                        --exchanges;
                        Index c = used + random.below(degree - used), d = used + random.below(degree - used);
                        if (c != d) exchange(c, d, random.below(n));
                    } else {
                        break;
                    }
                }
            }
    }
};

// The other end of the link of each server on each switch, -1 for none; and the links that have no switch.
//
// Whole distances come first, so that a circulant has few patch patterns; unless that leaves links over that other
// matchings would not.
inline std::pair<Matrix<std::int32_t>, std::vector<std::int64_t>> duplex_matchings(Index n, Index degree,
                                                                                   Table<const std::int64_t> ends) {
    require(n >= 1 && n < (1 << 20), "n", "a number of servers from 1 to 1048575 is needed");
    require(degree >= 0 && degree < (Index(1) << 28) / n, "degree", "the number of switches is out of range");
    require_shape(ends, ends.rows, 2, "ends");
    require_within(ends.flat(), 0, n, "ends");
    std::vector<std::int64_t> links(n);
    for (Index server : ends.flat()) require(++links[server] <= degree, "ends", "a server has too many links");
    for (Index link = 0; link < ends.rows; ++link)
        require(ends(link, 0) != ends(link, 1), "ends", "a link joins two servers");
    Index room = std::min(ends.rows, degree * (n / 2));
    DuplexSwitches patterned(n, degree, ends), free(n, degree, ends);
    patterned.place_distances();
    patterned.place_others(room);
    if (patterned.placed < room) free.place_others(room);
    auto &best = free.placed > patterned.placed ? free : patterned;
    std::vector<std::int64_t> left;
    for (Index link = 0; link < ends.rows; ++link)
        if (!best.done[link]) left.push_back(link);
    return {std::move(best.partner), std::move(left)};
}

// A matching that leaves one server over at most, grown from a given one (-1: free): the heaviest pairs first, among
// equal ones those farthest apart in number; then pairs without weight; then pairs are exchanged while that gains.
inline std::vector<std::int64_t> complete_matching(Table<const double> weights, Ints given) {
    Index n = given.size;
    require_shape(weights, n, n, "weights");
    require_within(given, -1, n, "partner");
    std::vector<std::int64_t> partner(given.begin(), given.end());
    for (Index i = 0; i < n; ++i) {
        require(partner[i] < 0 || (partner[i] != i && partner[partner[i]] == i), "partner", "it is no matching");
        for (Index j = 0; j <= i; ++j)
            require(weights(i, j) >= 0.0 && std::isfinite(weights(i, j)) && weights(i, j) == weights(j, i), "weights",
                    "finite numbers are needed, not negative and the same both ways");
    }
    struct Pair {
        double weight;
        Index gap, one, other;
        bool operator<(const Pair &o) const { return weight != o.weight ? weight > o.weight : gap > o.gap; }
    };
    auto match = [&](Index i, Index j) {
        if (partner[i] >= 0 || partner[j] >= 0) return;
        partner[i] = j;
        partner[j] = i;
    };
    std::vector<Pair> pairs;
    for (Index i = 0; i < n; ++i)
        for (Index j = i + 1; j < n && partner[i] < 0; ++j)
            if (partner[j] < 0 && weights(i, j) > 0.0)
                pairs.push_back({weights(i, j), std::min(j - i, n - j + i), i, j});
    std::stable_sort(pairs.begin(), pairs.end());
    for (const Pair &pair : pairs) match(pair.one, pair.other);
    for (Index gap = n / 2; gap > 0; --gap)
        for (Index i = 0; i < n - gap; ++i) {
            match(i, i + gap);
            if (i + n - gap < n) match(i, i + n - gap);
        }
    for (bool gained = true; gained;) {
        gained = false;
        look_at_stop();
        for (Index a = 0; a < n; ++a)
            for (Index c = 0; c < n; ++c) {
                Index b = partner[a], d = partner[c];
                if (b < 0 || d < 0 || c == a || c == b) continue;
                double old = weights(a, b) + weights(c, d);
                if (weights(a, c) + weights(b, d) <= old * (1.0 + 1e-9)) continue;
                partner[a] = c;
                partner[c] = a;
                partner[b] = d;
                partner[d] = b;
                gained = true;
            }
    }
    return partner;
}

}  // namespace topoopt::graph
