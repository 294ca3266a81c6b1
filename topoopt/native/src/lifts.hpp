// Annealing of whole orbits of links: a graph on m orbits of a group, given by one link of each orbit of links (the
// lift of a voltage graph; Brankovic et al., Electron. J. Combin. 5, 1998, R9).
//
// The sum of distances to one server of every orbit is found by bit-parallel breadth-first search. Server v has a set
// of the servers (o, 1) that it reaches within t hops, one bit for each orbit o. The next set is the union of those of
// its neighbours. The sets of a coset lie in a row; a link leads from row to row and turns it, so rows are joined
// whole, a vector of servers at a time. Rows are stored twice, one behind the other, so that a turn is an offset.
#pragma once
#include <cmath>
#include <cstring>

#include "arrays.hpp"
#include "random.hpp"
#include "stop.hpp"

// All sums are of integers: a processor with longer vectors gives the same bytes. Sanitizers start after resolvers.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && !defined(TOPOOPT_CHECKED)
#define TOPOOPT_VECTORS __attribute__((target_clones("arch=x86-64-v3", "popcnt", "default")))
#else
#define TOPOOPT_VECTORS
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are never passed between functions: all these are inlined
#endif

namespace topoopt::search {

// A finite group by the right cosets of a cyclic subgroup: element c^x r_y has the number y a + x, 0 <= x < a, 0 <= y <
// b. Multiplication by s from the right takes coset y to coset row(y, s) and turns it by turn(y, s); the order is a b.
struct Group {
    int a, b;
    Table<const std::int32_t> row, turn;
    std::vector<int> inverses, involutions;  // elements that are their own inverse, the identity among them

    Group(Index size, Table<const std::int32_t> row, Table<const std::int32_t> turn) : row(row), turn(turn) {
        require(0 < size && size <= (1 << 16) && row.rows > 0 && row.rows <= (1 << 16), "a", "cosets are needed");
        a = int(size), b = int(row.rows);
        require_shape(row, b, Index(a) * b, "row");
        require_shape(turn, b, Index(a) * b, "turn");
        require_within(row.flat(), 0, b, "row");
        require_within(turn.flat(), 0, a, "turn");
        inverses.assign(order(), -1);
        for (int g = 0; g < order(); ++g) {
            require(times(0, g) == g && times(g, 0) == g, "row", "element 0 is not the identity");
            for (int h = 0; h < order(); ++h)
                if (times(g, h) == 0) inverses[g] = h;
            require(inverses[g] >= 0, "row", "an element has no inverse");
            if (inverses[g] == g) involutions.push_back(g);
        }
    }
    int order() const { return a * b; }
    int times(int g, int h) const {
        int x = g % a + turn(g / a, h);
        return row(g / a, h) * a + (x < a ? x : x - a);
    }
    int inverse(int g) const { return inverses[g]; }
};

// Port h belongs to orbit h / d. Server (o, r) has through it a link to server (peer[h] / d, r shift[h]).
// Two-way links: peer[peer[h]] = h and the shifts are inverse; a port that is its own peer has a shift that is its own
// inverse, and is dark if that is the identity. One-way links: peer is a permutation of the ports.
struct Lift {
    int orbits, degree;
    bool one_way;
    const Group &group;
    std::vector<std::int32_t> peer, shift;

    Lift(Index orbits, Index degree, bool one_way, const Group &group)
        : orbits(int(orbits)), degree(int(degree)), one_way(one_way), group(group) {
        require(0 < orbits && orbits <= (1 << 16) && 0 < degree && degree <= (1 << 10), "orbits", "ports are needed");
        require(orbits * group.order() * ((orbits + 7) / 8) < (1 << 28), "orbits", "too many servers");
        peer.assign(ports(), 0), shift.assign(ports(), 0);
    }
    int ports() const { return orbits * degree; }
    std::int64_t servers() const { return std::int64_t(orbits) * group.order(); }

    void set(Int32s peers, Int32s shifts) {
        require_size(peers, ports(), "peer");
        require_size(shifts, ports(), "shift");
        require_within(peers, 0, ports(), "peer");
        require_within(shifts, 0, group.order(), "shift");
        std::vector<char> met(ports());
        for (int h = 0; h < ports(); ++h) {
            require(!std::exchange(met[peers[h]], 1), "peer", "no permutation of the ports");
            bool paired = peers[peers[h]] == h && shifts[peers[h]] == group.inverse(shifts[h]);
            require(one_way || paired, "peer", "ports are not paired, or their shifts are not inverse");
        }
        peer.assign(peers.begin(), peers.end()), shift.assign(shifts.begin(), shifts.end());
    }
    void randomise(Random &random) {
        std::vector<int> order(ports());
        for (int h = 0; h < ports(); ++h) order[h] = h;
        for (int h = ports() - 1; h > 0; --h) std::swap(order[h], order[random.below(h + 1)]);
        for (int h = 0; one_way && h < ports(); ++h) peer[h] = order[h], shift[h] = int(random.below(group.order()));
        for (int i = 0; !one_way && i < ports(); i += 2) {
            int h = order[i];
            if (i + 1 == ports()) {
                peer[h] = h, shift[h] = group.involutions.back();
            } else {
                int g = order[i + 1];
                peer[h] = g, peer[g] = h, shift[h] = int(random.below(group.order()));
                shift[g] = group.inverse(shift[h]);
            }
        }
    }
};

typedef std::uint64_t Vector1 __attribute__((vector_size(8)));
typedef std::uint64_t Vector2 __attribute__((vector_size(16)));
typedef std::uint64_t Vector4 __attribute__((vector_size(32)));

struct Rows {
    int rows, degree, bytes, stride;
    const std::int32_t *from;  // of every row and port, where the neighbours' sets begin
};

template <class V> __attribute__((always_inline)) inline V load(const std::uint8_t *p) {
    V v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

// Sets of one more hop; the number of their elements.
template <class V> __attribute__((always_inline)) inline std::int64_t spread_by(const Rows &s, const std::uint8_t *sets,
                                                                                std::uint8_t *next) {
    constexpr int WIDTH = sizeof(V);
    std::uint8_t ones[2 * WIDTH] = {};
    int rest = s.bytes % WIDTH ? s.bytes % WIDTH : WIDTH;
    std::memset(ones, 0xFF, rest);
    const V tail = load<V>(ones);
    std::int64_t count = 0;
    for (int row = 0; row < s.rows; ++row) {
        const std::int32_t *from = s.from + row * s.degree;
        std::uint8_t *to = next ? next + row * s.stride : nullptr;
        for (int c = 0; c < s.bytes; c += WIDTH) {
            V set = load<V>(sets + row * s.stride + c);
            for (int j = 0; j < s.degree; ++j) set |= load<V>(sets + from[j] + c);
            if (c + WIDTH >= s.bytes) set &= tail;
            for (int i = 0; i < WIDTH / 8; ++i) count += __builtin_popcountll(set[i]);
            if (next) std::memcpy(to + c, &set, WIDTH);
        }
        for (int c = 0; next && c < s.bytes; c += WIDTH) {
            V set = load<V>(to + c);
            std::memcpy(to + s.bytes + c, &set, WIDTH);
        }
    }
    return count;
}

TOPOOPT_VECTORS inline std::int64_t spread1(const Rows &s, const std::uint8_t *sets, std::uint8_t *next) {
    return spread_by<Vector1>(s, sets, next);
}
TOPOOPT_VECTORS inline std::int64_t spread2(const Rows &s, const std::uint8_t *sets, std::uint8_t *next) {
    return spread_by<Vector2>(s, sets, next);
}
TOPOOPT_VECTORS inline std::int64_t spread4(const Rows &s, const std::uint8_t *sets, std::uint8_t *next) {
    return spread_by<Vector4>(s, sets, next);
}

class Hops {
    struct Place {  // of one server of an orbit in a set
        std::int32_t byte;
        std::uint8_t bit;
    };
    const Lift &lift;
    int set_bytes;
    Rows rows;
    std::vector<std::int32_t> from;
    std::vector<Place> by_port;
    std::vector<std::uint8_t> sets, next;

    std::int64_t spread(bool last) {
        auto by = rows.bytes <= 8 ? spread1 : rows.bytes <= 16 ? spread2 : spread4;
        return by(rows, sets.data(), last ? nullptr : next.data());
    }
    Place place(int orbit, int element, int reached) const {
        int a = lift.group.a, row = orbit * lift.group.b + element / a;
        return {row * rows.stride + element % a * set_bytes + reached / 8, std::uint8_t(1u << reached % 8)};
    }
    bool insert(Place at) {  // whether it was not there yet
        std::uint8_t *set = &sets[at.byte];
        bool fresh = !(set[0] & at.bit);
        set[0] |= at.bit, set[rows.bytes] |= at.bit;
        return fresh;
    }
    std::int64_t own() {  // sets of no hop
        std::fill(sets.begin(), sets.end(), std::uint8_t(0));
        for (int o = 0; o < lift.orbits; ++o) insert(place(o, 0, o));
        return lift.orbits;
    }
    std::int64_t neighbours() {  // sets of at most one hop
        std::int64_t count = own();
        for (Place at : by_port) count += insert(at);
        return count;
    }

  public:
    explicit Hops(const Lift &lift) : lift(lift), set_bytes((lift.orbits + 7) / 8) {
        int bytes = lift.group.a * set_bytes, count = lift.orbits * lift.group.b;
        from.resize(std::size_t(count) * lift.degree);
        rows = {count, lift.degree, bytes, 2 * bytes + 32, from.data()};
        require(std::int64_t(count) * rows.stride < (std::int64_t(1) << 30), "orbits", "too many servers");
        sets.resize(std::size_t(count) * rows.stride + 32), next.resize(sets.size());
        by_port.resize(lift.ports());
        for (int h = 0; h < lift.ports(); ++h) update(h);
    }
    void update(int h) {  // port h has changed
        const Group &g = lift.group;
        int o = h / lift.degree, port = h % lift.degree, other = lift.peer[h] / lift.degree;
        by_port[h] = place(o, g.inverse(lift.shift[h]), other);
        for (int y = 0; y < g.b; ++y)
            from[(o * g.b + y) * lift.degree + port] =
                (other * g.b + g.row(y, lift.shift[h])) * rows.stride + g.turn(y, lift.shift[h]) * set_bytes;
    }
    // Sum of distances, those of more than `levels` hops counted as levels + 1; or a lower bound on it that is more
    // than `limit`: there are at most `fan` times as many pairs at distance t + 1 as at distance t.
    std::int64_t total(int levels, std::int64_t limit) {
        std::int64_t pairs = std::int64_t(lift.orbits) * lift.servers(), fan = lift.degree - (lift.one_way ? 0 : 1);
        std::int64_t before = lift.orbits, sum = pairs - before;
        for (int t = 1; t <= levels; ++t) {
            std::int64_t reached = t == 1 ? neighbours() : spread(t == levels);
            if (t > 1) sets.swap(next);
            std::int64_t left = pairs - reached, fresh = reached - before, least = sum += left;
            for (int s = t + 1; s <= levels && left > 0; ++s) {
                fresh = std::min(fresh * fan, pairs), left -= fresh;
                least += std::max<std::int64_t>(0, left);
            }
            if (least > limit) return least;
            before = reached;
        }
        return sum;
    }
    // Number of pairs of every distance; none if some server is not reached.
    std::vector<std::int64_t> histogram() {
        std::int64_t pairs = std::int64_t(lift.orbits) * lift.servers(), before = own();
        std::vector<std::int64_t> count(1, before);
        while (before < pairs) {
            look_at_stop();
            std::int64_t reached = spread(false);
            sets.swap(next);
            if (reached == before) return {};
            count.push_back(reached - before);
            before = reached;
        }
        return count;
    }
};

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

class Annealer {
    static constexpr double TURN = 0.3, SPLIT = 0.1;
    struct Old {
        int port;
        std::int32_t peer, shift;
    };
    Lift &lift;
    Random &random;
    Hops hops;
    std::vector<Old> undo;

    int below(int limit) { return int(random.below(limit)); }
    void set(int h, int peer, int shift) {
        undo.push_back({h, lift.peer[h], lift.shift[h]});
        lift.peer[h] = peer, lift.shift[h] = shift;
        hops.update(h);
    }
    void join(int h, int g, int shift) { set(h, g, shift), set(g, h, lift.group.inverse(shift)); }
    void close(int h) {  // onto itself
        const auto &choice = lift.group.involutions;
        set(h, h, choice[below(int(choice.size()))]);
    }
    void turn(int h) {  // another shift
        int g = lift.peer[h], shift = below(lift.group.order());
        if (lift.one_way) return set(h, g, shift);
        g == h ? close(h) : join(h, g, shift);
    }
    // (o, 1) -> (p, s) and (q, w) -> (r, w t) become (o, 1) -> (r, w t) and (q, w) -> (p, s)
    void exchange_heads(int h, int i) {
        const Group &group = lift.group;
        int w = below(group.order()), first = lift.peer[h], second = lift.peer[i];
        int shift = group.times(w, lift.shift[i]), other = group.times(group.inverse(w), lift.shift[h]);
        set(h, second, shift), set(i, first, other);
    }
    void exchange(int h, int i) {  // links h - g and i - j become h - i and g - j
        const Group &group = lift.group;
        int g = lift.peer[h], j = lift.peer[i], w = below(group.order());
        int shift = group.times(group.inverse(lift.shift[h]), group.times(w, lift.shift[i]));
        join(h, i, w);
        if (g != h && j != i) join(g, j, shift);
        else if (g != h) close(g);
        else if (j != i) close(j);
    }
    bool propose() {
        int h = below(lift.ports()), i = below(lift.ports()), g = lift.peer[h];
        if (lift.ports() == 1 || random.uniform() < TURN) {
            if (!lift.one_way && g != h && lift.group.involutions.size() > 1 && random.uniform() < SPLIT)
                close(h), close(g);
            else turn(h);
            return true;
        }
        if (i == h || (!lift.one_way && i == g)) return false;
        lift.one_way ? exchange_heads(h, i) : exchange(h, i);
        return true;
    }

  public:
    Annealer(Lift &lift, Random &random) : lift(lift), random(random), hops(lift) {}

    // Leaves the best graph met in `lift`; its sum of distances.
    std::int64_t run(Index proposals, double hot, double cold, int levels) {
        std::int64_t now = hops.total(levels, std::int64_t(1) << 60), best = now;
        std::vector<std::int32_t> best_peer = lift.peer, best_shift = lift.shift;
        double heat = hot, ratio = proposals ? std::pow(cold / hot, 1.0 / double(proposals)) : 1.0;
        StopWatch watch;
        for (Index made = 0; made < proposals; ++made) {
            watch();
            heat *= ratio;
            undo.clear();
            if (!propose()) continue;
            std::int64_t limit = now + std::int64_t(-heat * std::log(1.0 - random.uniform()));
            std::int64_t total = hops.total(levels, limit);
            if (total <= limit) {
                now = total;
                if (now < best) best = now, best_peer = lift.peer, best_shift = lift.shift;
                continue;
            }
            for (auto old = undo.rbegin(); old != undo.rend(); ++old) {
                lift.peer[old->port] = old->peer, lift.shift[old->port] = old->shift;
                hops.update(old->port);
            }
        }
        lift.peer = best_peer, lift.shift = best_shift;
        return best;
    }
};

// From the graph given, or a random one where `anew`; the best graph met is left in `peer` and `shift`.
inline std::int64_t anneal_lift(Index a, Table<const std::int32_t> row, Table<const std::int32_t> turn, Index degree,
                                bool one_way, bool anew, View<std::int32_t> peer, View<std::int32_t> shift,
                                Index proposals, double hot, double cold, Index levels, std::uint64_t seed) {
    require(degree > 0 && peer.size % degree == 0, "peer", "ports of all orbits are needed");
    require(proposals >= 0, "proposals", "not negative");
    require(0 < cold && cold <= hot && hot <= 1e6, "hot", "temperatures fall from at most 1e6 and stay above 0");
    require(1 <= levels && levels <= (1 << 16), "levels", "one at least");
    Group group(a, row, turn);
    Lift lift(peer.size / degree, degree, one_way, group);
    require_size(shift, peer.size, "shift");
    Random random{seed};
    if (anew) lift.randomise(random);
    else lift.set(Int32s(peer), Int32s(shift));
    std::int64_t best = Annealer(lift, random).run(proposals, hot, cold, int(levels));
    std::copy(lift.peer.begin(), lift.peer.end(), peer.begin());
    std::copy(lift.shift.begin(), lift.shift.end(), shift.begin());
    return best;
}

// Pairs of every distance from one server of every orbit; none if some server is not reached.
inline std::vector<std::int64_t> lift_distances(Index a, Table<const std::int32_t> row, Table<const std::int32_t> turn,
                                                Index degree, bool one_way, Int32s peer, Int32s shift) {
    require(degree > 0 && peer.size % degree == 0, "peer", "ports of all orbits are needed");
    Group group(a, row, turn);
    Lift lift(peer.size / degree, degree, one_way, group);
    lift.set(peer, shift);
    return Hops(lift).histogram();
}

}  // namespace topoopt::search
