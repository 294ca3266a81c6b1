// Hamiltonian cycles out of cycle factors, that is of links of which each server has two, by exchanges of squares.
#pragma once
#include <array>
#include <numeric>
#include <optional>

#include "arrays.hpp"
#include "stop.hpp"

namespace topoopt::graph {

class CycleFactor {
    std::vector<std::array<std::int64_t, 2>> neighbours;

    void replace(Index node, Index old, Index with) { neighbours[node][neighbours[node][0] == old ? 0 : 1] = with; }

  public:
    explicit CycleFactor(Ints pairs) : neighbours(pairs.size / 2) {
        const Index n = Index(neighbours.size());
        require_within(pairs, 0, n, "factors");
        for (Index v = 0; v < n; ++v) neighbours[v] = {pairs[2 * v], pairs[2 * v + 1]};
        for (Index v = 0; v < n; ++v)
            for (Index u : neighbours[v]) require(links(u, v) == links(v, u), "factors", "links go both ways");
    }
    Index links(Index u, Index v) const { return (neighbours[u][0] == v) + (neighbours[u][1] == v); }
    Index neighbour(Index node, Index side) const { return neighbours[node][side]; }
    // Replaces the links u-p and w-q by u-q and w-p.
    void exchange(Index u, Index w, Index p, Index q) {
        replace(u, p, q);
        replace(p, u, w);
        replace(w, q, p);
        replace(q, w, u);
    }
    // How many cycles there are; `order` becomes all servers, cycle by cycle.
    Index cycles(std::vector<std::int64_t> &order, std::vector<bool> &seen) const {
        seen.assign(neighbours.size(), false);
        order.clear();
        Index count = 0;
        for (Index start = 0; start < Index(neighbours.size()); ++start) {
            count += !seen[start];
            for (Index before = -1, node = start; !seen[node];) {
                seen[node] = true;
                order.push_back(node);
                auto [a, b] = neighbours[node];
                before = std::exchange(node, a == before ? b : a);
            }
        }
        return count;
    }
};

// int64[m, n]: one Hamiltonian cycle for each factor, together over the same links; none if the search fails.
//
// `neighbours` holds the two neighbours of each of n servers in each of m factors (twice the same for parallel links).
// Squares are exchanged between two factors while the number of cycles does not grow, in `tries` random tries.
inline std::optional<Matrix<std::int64_t>> join_cycles(Ints neighbours, Index m, Index n, Index tries,
                                                       std::uint64_t seed) {
    require(m < (Index(1) << 20) && (n > 0 || m == 0), "factors", "too many factors, or no server");
    std::vector<CycleFactor> factors;
    std::vector<std::int64_t> cycles, order;
    std::vector<bool> seen;
    for (Index f = 0; f < m; ++f) {
        factors.emplace_back(neighbours.part(2 * n * f, 2 * n * (f + 1)));
        cycles.push_back(factors[f].cycles(order, seen));
    }
    auto joined = [&] { return std::accumulate(cycles.begin(), cycles.end(), Index(0)) == m; };
    std::uint64_t state = seed * 2 + 88172645463325253u;
    StopWatch look;
    for (Index t = 0; t < tries && !joined(); ++t) {
        look();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        Index draw = Index(state >> 2), a = draw % m, b = draw / m % m;
        if (a == b || cycles[a] + cycles[b] == 2) continue;
        CycleFactor &first = factors[a], &second = factors[b];
        Index u = draw / (m * m) % n, v = first.neighbour(u, draw / 7 % 2), x = second.neighbour(u, draw / 11 % 2);
        if (v == x) continue;
        for (Index side = 0; side < 2; ++side) {
            Index w = second.neighbour(v, side);
            if (w == u || w == x || first.links(w, x) == 0) continue;
            first.exchange(u, w, v, x);
            second.exchange(u, w, x, v);
            Index after_a = first.cycles(order, seen), after_b = second.cycles(order, seen);
            if (after_a + after_b <= cycles[a] + cycles[b]) {
                cycles[a] = after_a, cycles[b] = after_b;
            } else {
                first.exchange(u, w, x, v);
                second.exchange(u, w, v, x);
            }
            break;
        }
    }
    if (!joined()) return std::nullopt;
    Matrix<std::int64_t> result(m, n);
    for (Index f = 0; f < m; ++f) {
        factors[f].cycles(order, seen);
        std::copy(order.begin(), order.end(), result.row(f).begin());
    }
    return result;
}

}  // namespace topoopt::graph
