// Which circuits a scheduler sets for the bytes that wait: greedy, filled up, joined to one network.
#pragma once
#include <cmath>
#include <numeric>

#include "events.hpp"
#include "random.hpp"
#include "stop.hpp"

namespace topoopt::circuits {

using Links = Matrix<std::int32_t>;  // parallel circuits of each ordered pair of servers

constexpr int PAIR_BITS = 24;  // of a pair of servers, below the random bits that break ties
constexpr Index MAX_CIRCUIT_SERVERS = Index(1) << (PAIR_BITS / 2), MAX_CIRCUIT_DEGREE = Index(1) << 20;

inline void require_interfaces(Index servers, Index degree) {
    require(servers >= 1 && servers <= MAX_CIRCUIT_SERVERS, "servers", "1 to 4096 are needed");
    require(degree >= 1 && degree <= MAX_CIRCUIT_DEGREE, "degree", "1 to 1048576 interfaces a server are needed");
}

class Scheduler {
    Index n, degree;
    Table<const double> demand;
    Random random;
    Links links;
    StopWatch look;

    Index drawn() { return random.below(Index(1) << (63 - PAIR_BITS)) << PAIR_BITS; }
    void join(Index a, Index b) { ++links(a, b), ++links(b, a); }
    void part(Index a, Index b) { --links(a, b), --links(b, a); }
    Index free_interfaces(Index server) const {
        auto row = links.row(server);
        return degree - std::accumulate(row.begin(), row.end(), Index(0));
    }

    // The pair with most demand gets a circuit, its demand is halved, and so on; ties are broken at random.
    void set_greedily(bool directed) {
        constexpr Index PAIR = (Index(1) << PAIR_BITS) - 1;
        EventQueue pairs;  // by minus their demand
        pairs.reset(0, 0);
        for (Index i = 0; i < n; ++i)
            for (Index j = directed ? 0 : i + 1; j < n; ++j) {
                double amount = directed ? demand(i, j) : std::max(demand(i, j), demand(j, i));
                if (i != j && amount > 0.0) pairs.add(-amount, drawn() | (i * n + j));
            }
        std::vector<Index> out(n), in(n);
        auto &other = directed ? in : out;
        double negative;
        while (pairs.first(negative)) {
            look();
            Index pair = pairs.take() & PAIR, i = pair / n, j = pair % n;
            if (out[i] >= degree || other[j] >= degree) continue;
            ++out[i], ++other[j];
            ++links(i, j);
            if (!directed) ++links(j, i);
            pairs.add(0.5 * negative, drawn() | pair);
        }
    }

    // Joins free interfaces of different servers at random, pairs not yet joined first.
    void fill_free() {
        std::vector<Index> free(n), partners;
        for (Index i = 0; i < n; ++i) free[i] = free_interfaces(i);
        while (true) {
            look();
            Index first = std::max_element(free.begin(), free.end()) - free.begin();
            if (free[first] <= 0) return;
            partners.clear();
            for (bool fresh : {true, false}) {
                for (Index j = 0; j < n; ++j)
                    if (j != first && free[j] > 0 && (links(first, j) == 0 || !fresh)) partners.push_back(j);
                if (!partners.empty()) break;
            }
            if (partners.empty()) return;
            Index other = partners[random.below(Index(partners.size()))];
            join(first, other);
            --free[first], --free[other];
        }
    }

    std::vector<bool> component_of(Index start) const {
        std::vector<bool> seen(n);
        std::vector<Index> queue{start};
        seen[start] = true;
        for (std::size_t begin = 0; begin < queue.size(); ++begin)
            for (Index v = queue[begin], j = 0; j < n; ++j)
                if (links(v, j) > 0 && !seen[j]) {
                    seen[j] = true;
                    queue.push_back(j);
                }
        return seen;
    }

    // Two interfaces to join a component by: those of its server with most free ones, twice; else the ends of its link
    // of least demand that is no bridge, which is given up. With two links or more at every server there is such a
    // link, as there is a circle (parallel links count).
    std::pair<Index, Index> freed(const std::vector<bool> &inside) {
        struct Link {
            double demand;
            Index i, j;
        };
        std::vector<Link> candidates;
        Index best = -1, most = 0;
        for (Index i = 0; i < n; ++i) {
            if (!inside[i]) continue;
            if (Index free = free_interfaces(i); free > most) best = i, most = free;
            for (Index j = i + 1; j < n; ++j)
                if (inside[j] && links(i, j) > 0)
                    candidates.push_back({std::max(demand(i, j), demand(j, i)) / links(i, j), i, j});
        }
        if (best >= 0) return {best, best};
        std::stable_sort(candidates.begin(), candidates.end(), [](auto &a, auto &b) { return a.demand < b.demand; });
        for (auto [_, i, j] : candidates) {
            look();
            part(i, j);
            if (links(i, j) > 0 || component_of(i)[j]) return {i, j};
            join(i, j);
        }
        throw std::logic_error("a component without a free interface has a circle");
    }

    // Joins all components; degree 2 at least, or n = 2. Every step joins two components and parts none.
    void connect() {
        while (true) {
            look();
            auto here = component_of(0);
            Index other = std::find(here.begin(), here.end(), false) - here.begin();
            if (other == n) return;
            auto [a, b] = freed(here);
            auto [c, d] = freed(component_of(other));
            join(a, c);
            if ((a != b || c != d) && free_interfaces(b) > 0 && free_interfaces(d) > 0) join(b, d);
        }
    }

  public:
    Scheduler(Table<const double> demand, Index degree, std::uint64_t &state)
        : n(demand.rows), degree(degree), demand(demand), random{state}, links(n, n) {}

    Links scheduled(bool directed, bool connected) && {
        set_greedily(directed);
        if (connected) {
            fill_free();
            connect();
        }
        return std::move(links);
    }
};

// Circuits for a demand. A server has `degree` interfaces; directed circuits take a transmit side of one and a receive
// side of another, the others are fibre pairs: an interface at both ends, by the larger demand of both directions.
// `connected` (fibre pairs only): free interfaces are used and all servers joined.
inline Links scheduled_circuits(Table<const double> demand, Index degree, bool directed, bool connected,
                                std::uint64_t &state) {
    require_interfaces(demand.rows, degree);
    require_shape(demand, demand.rows, demand.rows, "demand");
    for (double amount : demand.flat()) require(!std::isnan(amount), "demand", "numbers are needed");
    require(!connected || (!directed && (degree >= 2 || demand.rows <= 2)), "connected",
            "fibre pairs and two interfaces a server are needed to join all");
    return Scheduler(demand, degree, state).scheduled(directed, connected);
}

// Directed circuits before any demand is known: `degree` shifts of a random order of the servers.
inline Links random_circuits(Index n, Index degree, std::uint64_t &state) {
    require_interfaces(n, degree);
    Links links(n, n);
    if (n < 2) return links;
    Random random{state};
    std::vector<Index> name(n), shift(n - 1);
    std::iota(name.begin(), name.end(), Index(0));
    std::iota(shift.begin(), shift.end(), Index(1));
    for (auto *order : {&name, &shift})
        for (Index i = Index(order->size()) - 1; i > 0; --i) std::swap((*order)[i], (*order)[random.below(i + 1)]);
    StopWatch look;
    for (Index k = 0; k < degree; ++k) {
        look();
        for (Index i = 0; i < n; ++i) ++links(name[i], name[(i + shift[k % (n - 1)]) % n]);
    }
    return links;
}

}  // namespace topoopt::circuits
