// Annealing of a topology on its demand-weighted hop total, by exchanges of the heads of two links.
//
// R_k[i] is the set of servers within k hops of i, and sum D dist = sum_k sum_i D[i, outside R_k[i]], cut off after a
// given number of levels (pairs not reached count one more). An exchange changes R_1 of the tails of its links only,
// and R_k of servers one hop before a change of R_{k-1}; the demand outside a changed row is corrected bit by bit.
//
// Exchanges may be drawn by demand: a new link i -> l by D_il, then the links i -> j and k -> l that go by D_kj over
// (D_ij D_kl). Then an evaluation ends at a level whose sum is far above what is accepted: farther than deeper levels
// made up for in all but few of the exchanges accepted before.
#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "arrays.hpp"
#include "random.hpp"
#include "stop.hpp"

namespace topoopt::search {

inline void require_heads(Table<const std::int64_t> out, Table<const double> demand) {
    require(out.rows > 0 && out.rows < (Index(1) << 20) && out.columns > 0, "out", "servers and ports are needed");
    require_within(out.flat(), 0, out.rows, "out");
    require_shape(demand, out.rows, out.rows, "demand");
}

// sum D dist by breadth-first search; pairs that no path joins count n hops.
inline double hops_of(Table<const std::int64_t> out, Table<const double> demand, std::vector<Index> &scratch) {
    Index n = out.rows, d = out.columns;
    scratch.resize(std::size_t(2 * n));
    Index *queue = scratch.data(), *hops = queue + n;
    double total = 0.0;
    for (Index source = 0; source < n; ++source) {
        std::fill(hops, hops + n, n);
        hops[source] = 0;
        queue[0] = source;
        for (Index begin = 0, end = 1; begin < end; ++begin) {
            Index v = queue[begin];
            for (Index a = 0; a < d; ++a) {
                Index w = out(v, a);
                if (hops[w] != n) continue;
                hops[w] = hops[v] + 1;
                queue[end++] = w;
            }
        }
        for (Index v = 0; v < n; ++v) total += demand(source, v) * double(hops[v]);
    }
    return total;
}

inline double hop_total(Table<const std::int64_t> out, Table<const double> demand) {
    require_heads(out, demand);
    std::vector<Index> scratch;
    return hops_of(out, demand, scratch);
}

// The links of a topology, and what may be exchanged. A dark port points to its own server in both tables.
struct Links {
    Table<std::int64_t> out, into;  // heads and tails, changed in place
    Table<const bool> allowed;
    bool paired;  // links are fibre pairs: both tables hold the same links, and exchanges keep it so

    void require_sound(Table<const double> demand) const {
        require_heads(out, demand);
        require_shape(into, out.rows, out.columns, "into");
        require_within(into.flat(), 0, out.rows, "into");
        require_shape(allowed, out.rows, out.rows, "allowed");
    }
    static void replace(View<std::int64_t> row, Index old, Index next) {
        for (auto &item : row)
            if (item == old) {
                item = next;
                return;
            }
    }
    // Links i -> j and k -> l become i -> l and k -> j; with paired links the opposite arcs follow.
    void exchange(Index i, Index j, Index k, Index l) const {
        replace(out.row(i), j, l);
        replace(out.row(k), l, j);
        replace(into.row(j), i, k);
        replace(into.row(l), k, i);
        if (!paired) return;
        replace(out.row(j), i, k);
        replace(out.row(l), k, i);
        replace(into.row(i), j, l);
        replace(into.row(k), l, j);
    }
    bool may_exchange(Index i, Index j, Index k, Index l) const {
        if (i == k || j == l || !allowed(i, l) || !allowed(k, j)) return false;
        return !paired || !(i == j || i == l || k == j || k == l || !allowed(l, i) || !allowed(j, k));
    }
};

// Sets of servers within so many hops of each, as bits: the rows of level k, server after server, lie at rows[k n ...].
struct Reach {
    Index n, words, levels;
    std::vector<std::uint64_t> bits;

    Reach(Table<const std::int64_t> out, Index levels)
        : n(out.rows), words((n + 63) / 64), levels(levels), bits(std::size_t((levels + 1) * n * words), 0) {
        for (Index i = 0; i < n; ++i) row(0, i)[i / 64] = std::uint64_t(1) << (i % 64);
        for (Index k = 1; k <= levels; ++k)
            for (Index i = 0; i < n; ++i)
                for (Index w = 0; w < words; ++w) row(k, i)[w] = joined(out, k, i, w);
    }
    std::uint64_t *row(Index level, Index server) { return bits.data() + (level * n + server) * words; }
    std::uint64_t joined(Table<const std::int64_t> out, Index level, Index server, Index word) {
        std::uint64_t all = row(level - 1, server)[word];
        for (Index a = 0; a < out.columns; ++a) all |= row(level - 1, out(server, a))[word];
        return all;
    }
    double total(Table<const double> demand) {  // sum D min(dist, levels + 1)
        double total = 0.0;
        for (Index k = 0; k <= levels; ++k)
            for (Index i = 0; i < n; ++i) {
                const std::uint64_t *within = row(k, i);
                for (Index j = 0; j < n; ++j)
                    if (!(within[j / 64] >> (j % 64) & 1)) total += demand(i, j);
            }
        return total;
    }
};

inline void require_levels(Index levels, Index n) {
    require(0 <= levels && levels <= n, "levels", "0 to n are needed");
    require((levels + 1) * n <= (Index(1) << 36) / n, "levels", "too many for so many servers");
}

inline double cut_hop_total(Table<const std::int64_t> out, Table<const double> demand, Index levels) {
    require_heads(out, demand);
    require_levels(levels, out.rows);
    return Reach(out, levels).total(demand);
}

class Annealing {
    // Part of the exchanges drawn by demand, where some are; what every pair has beside its demand, against the mean;
    // exchanges accepted before the first evaluation is cut short, deviations beyond which that is done, and how fast
    // what was accepted before is forgotten.
    static constexpr double BY_DEMAND = 0.9, BASE = 0.5, LEARNED = 100.0, DEVIATIONS = 2.0, FORGET = 1e-3;

    Links links;
    Table<const double> demand;
    Table<double> ahead;  // of each level: exchanges accepted; mean and variance of what deeper levels made up for
    Index n, words, levels;
    Reach reach;
    struct Change {
        Index level, server;
    };
    std::vector<Change> changes;
    std::vector<std::uint64_t> saved, row;  // rows before they changed; the row that is looked at
    std::vector<Index> mark;
    Index stamp = 0;
    Matrix<double> worth, drawn;          // of a link that goes or comes; summed demand along each row
    std::vector<double> partial, chance;  // sums up to each level; of two links at the ends of a new one
    struct Ends {
        Index i, j, k, l;
    };

    bool by_demand() const { return ahead.rows > 0; }
    Ends draw(Random &random) {
        Index d = links.out.columns, i = random.below(n);
        auto row = drawn.row(i);
        if (!by_demand() || !(row[n - 1] > 0.0) || random.uniform() >= BY_DEMAND) {
            Index k = random.below(n);
            Index j = links.out(i, random.below(d));
            return {i, j, k, links.out(k, random.below(d))};
        }
        Index l = std::min(Index(std::ranges::upper_bound(row, random.uniform() * row[n - 1]) - row.begin()), n - 1);
        double sum = 0.0;
        for (Index pair = 0; pair < d * d; ++pair) {
            Index j = links.out(i, pair / d), k = links.into(l, pair % d);
            chance[pair] = sum += worth(k, j) / (worth(i, j) * worth(k, l));
        }
        Index pair = std::ranges::upper_bound(chance, random.uniform() * sum) - chance.begin();
        pair = std::min(pair, d * d - 1);
        return {i, links.out(i, pair / d), links.into(l, pair % d), l};
    }
    bool hopeless(Index level, double delta, double limit) const {
        return ahead(level, 0) >= LEARNED && delta > limit + ahead(level, 1) + DEVIATIONS * std::sqrt(ahead(level, 2));
    }
    void learn(double delta) {
        for (Index level = 0; level < ahead.rows; ++level) {
            double part = std::max(FORGET, 1.0 / (ahead(level, 0) += 1.0));
            double off = partial[level] - delta - ahead(level, 1);
            ahead(level, 1) += part * off;
            ahead(level, 2) = (1.0 - part) * (ahead(level, 2) + part * off * off);
        }
    }
    bool parallel_made(Index i, Index j, Index k, Index l) const {
        for (Index a = 0; a < links.out.columns; ++a)
            if (links.out(i, a) == l || links.out(k, a) == j) return true;
        return false;
    }
    double outside(Index server, Index word, std::uint64_t bits, double delta, double sign) const {
        for (; bits; bits &= bits - 1) delta += sign * demand(server, word * 64 + std::countr_zero(bits));
        return delta;
    }
    void look_at(Index level, Index v, double &delta) {
        if (mark[v] == stamp) return;
        mark[v] = stamp;
        std::uint64_t *old = reach.row(level, v);
        bool differs = false;
        for (Index w = 0; w < words; ++w) {
            row[w] = reach.joined(links.out, level, v, w);
            differs |= row[w] != old[w];
        }
        if (!differs) return;
        std::uint64_t *kept = saved.data() + Index(changes.size()) * words;
        for (Index w = 0; w < words; ++w) {
            kept[w] = old[w];
            delta = outside(v, w, old[w] & ~row[w], delta, 1.0);
            delta = outside(v, w, row[w] & ~old[w], delta, -1.0);
            old[w] = row[w];
        }
        changes.push_back({level, v});
    }
    // By how much the hop total grows, infinite where it is given up as above the limit; rows and what they were are
    // kept.
    double changed(View<const Index> centres, double limit) {
        double delta = 0.0;
        changes.clear();
        Index begin = 0;
        for (Index level = 1; level <= levels; ++level) {
            ++stamp;
            // the tails of the links exchanged, and whoever links to a row changed one level below
            Index end = Index(changes.size());
            for (Index at = centres.size; at-- > 0;) look_at(level, centres[at], delta);
            for (Index at = begin; at < end; ++at) {
                Index centre = changes[at].server;
                look_at(level, centre, delta);
                for (Index b = 0; b < links.into.columns; ++b) look_at(level, links.into(centre, b), delta);
            }
            begin = end;
            if (!by_demand()) continue;
            partial[level] = delta;
            if (level < levels && hopeless(level, delta, limit)) return std::numeric_limits<double>::infinity();
        }
        return delta;
    }
    void undo() {
        for (Index at = 0; at < Index(changes.size()); ++at)
            std::copy_n(saved.data() + at * words, words, reach.row(changes[at].level, changes[at].server));
    }

  public:
    Annealing(Links links, Table<const double> demand, Index levels, Table<double> ahead)
        : links(links),
          demand(demand),
          ahead(ahead),
          n(links.out.rows),
          words((n + 63) / 64),
          levels(levels),
          reach(links.out, levels),
          saved(std::size_t((levels + 1) * n * words)),
          row(words),
          mark(n, 0),
          worth(n, n),
          drawn(n, n),
          partial(levels + 1),
          chance(links.out.columns * links.out.columns) {
        changes.reserve(std::size_t((levels + 1) * n));
        double base = 0.0;
        for (double value : demand.flat()) base += BASE * value / double(n * n);
        for (Index i = 0; i < n; ++i)
            for (Index j = 0; j < n; ++j) {
                worth(i, j) = demand(i, j) + (links.paired ? demand(j, i) : 0.0) + base;
                drawn(i, j) = (j > 0 ? drawn(i, j - 1) : 0.0) + (links.allowed(i, j) ? demand(i, j) : 0.0);
            }
    }
    // Temperature falls geometrically from `hot` to `cold`; the heads of the least hop total met.
    Matrix<std::int64_t> run(Ints group, bool parallel, double hot, double cold, Index proposals, std::uint64_t state) {
        Random random{state};
        Table<std::int64_t> out = links.out;
        Index d = out.columns;
        double total = reach.total(demand), best = total, heat = hot;
        double ratio = hot > 0.0 ? std::pow(cold / hot, 1.0 / double(std::max(Index(1), proposals))) : 1.0;
        Matrix<std::int64_t> heads(n, d);
        std::copy_n(out.data, n * d, heads.items.begin());
        StopWatch watch;
        for (Index done = 0; done < proposals; ++done) {
            watch();
            heat *= ratio;
            auto [i, j, k, l] = draw(random);
            auto inside = [&](Index tail, Index head) { return group[tail] == group[head]; };
            if (inside(i, j) != inside(k, l) || inside(i, j) != inside(i, l) || inside(i, j) != inside(k, j)) continue;
            if (!links.may_exchange(i, j, k, l) || (!parallel && parallel_made(i, j, k, l))) continue;
            double limit = by_demand() ? -heat * std::log(1.0 - random.uniform()) : 0.0;
            links.exchange(i, j, k, l);
            Index centres[4] = {i, k, j, l};
            double delta = changed({centres, links.paired ? 4 : 2}, limit);
            if (delta <= limit || (!by_demand() && delta <= -heat * std::log(1.0 - random.uniform()))) {
                learn(delta);
                total += delta;
                if (total < best - 1e-9 * std::abs(best)) {
                    best = total;
                    std::copy_n(out.data, n * d, heads.items.begin());
                }
            } else {
                links.exchange(i, l, k, j);
                undo();
            }
        }
        return heads;
    }
};

inline Matrix<std::int64_t> anneal(Table<std::int64_t> out, Table<std::int64_t> into, Table<const double> demand,
                                   Table<const bool> allowed, Ints group, Index levels, bool paired, bool parallel,
                                   double hot, double cold, Index proposals, std::uint64_t seed, Table<double> ahead) {
    Links links{out, into, allowed, paired};
    links.require_sound(demand);
    require_size(group, out.rows, "group");
    require_levels(levels, out.rows);
    if (ahead.rows > 0) require_shape(ahead, levels + 1, 3, "ahead");
    return Annealing(links, demand, levels, ahead).run(group, parallel, hot, cold, proposals, seed);
}

// Exchanges that give up no more of the links `kept` than a limit; every topology is evaluated afresh.
class Rewiring {
    Links links;
    Table<const double> demand;
    Table<const std::int64_t> kept;
    Matrix<std::int64_t> count;  // links between servers
    std::vector<Index> scratch;

    // Counts i -> j and k -> l out, i -> l and k -> j in; by how much the links given up grow.
    Index counted(Index i, Index j, Index k, Index l) {
        Index grown = 0;
        auto out = [&](Index u, Index v) {
            if (u != v) grown += count(u, v)-- <= kept(u, v);
        };
        auto in = [&](Index u, Index v) {
            if (u != v) grown -= count(u, v)++ < kept(u, v);
        };
        out(i, j), out(k, l), in(i, l), in(k, j);
        return grown;
    }
    // Whether the server has a free receiver, too: a free sender alone cannot take part in an exchange.
    bool dark(Index server) const { return std::ranges::count(links.into.row(server), server) > 0; }

  public:
    Rewiring(Links links, Table<const double> demand, Table<const std::int64_t> kept)
        : links(links), demand(demand), kept(kept), count(links.out.rows, links.out.rows, 0) {
        for (Index i = 0; i < links.out.rows; ++i)
            for (auto head : links.out.row(i)) count(i, head) += i != head;
    }
    double run(Table<std::int64_t> best, Index limit, bool parallel, double hot, double cold, Index proposals,
               std::uint64_t state, double least) {
        Random random{state};
        Table<std::int64_t> out = links.out;
        Index n = out.rows, d = out.columns, lost = 0;
        for (Index at = 0; at < n * n; ++at) lost += std::max(Index(0), kept.data[at] - count.items[at]);
        double total = hops_of(out, demand, scratch), heat = hot;
        double ratio = std::pow(cold / hot, 1.0 / double(proposals));
        StopWatch watch;
        for (Index done = 0; done < proposals; ++done) {
            watch();
            heat *= ratio;
            Index i = random.below(n), k = random.below(n);
            Index j = out(i, random.below(d)), l = out(k, random.below(d));
            if (!links.may_exchange(i, j, k, l) || (i == j && !dark(i)) || (k == l && !dark(k))) continue;
            if (!parallel && (count(i, l) > 0 || count(k, j) > 0)) continue;
            Index grown = counted(i, j, k, l);
            if (links.paired) grown += counted(j, i, l, k);
            if (lost + grown <= limit) {
                links.exchange(i, j, k, l);
                double next = hops_of(out, demand, scratch);
                if (next <= total || next - total <= -heat * std::log(1.0 - random.uniform())) {
                    lost += grown;
                    total = next;
                    if (total < least * (1.0 - 1e-9)) {
                        least = total;
                        std::copy_n(out.data, n * d, best.data);
                    }
                    continue;
                }
                links.exchange(i, l, k, j);
            }
            counted(i, l, k, j);
            if (links.paired) counted(l, i, j, k);
        }
        return least;
    }
};

inline double rewire(Table<std::int64_t> out, Table<std::int64_t> into, Table<std::int64_t> best,
                     Table<const double> demand, Table<const bool> allowed, Table<const std::int64_t> kept, Index limit,
                     bool paired, bool parallel, double hot, double cold, Index proposals, std::uint64_t seed,
                     double least) {
    Links links{out, into, allowed, paired};
    links.require_sound(demand);
    require_shape(kept, out.rows, out.rows, "kept");
    require_within(kept.flat(), 0, Index(1) << 20, "kept");
    require_shape(best, out.rows, out.columns, "best");
    return Rewiring(links, demand, kept).run(best, limit, parallel, hot, cold, proposals, seed, least);
}

}  // namespace topoopt::search
