// Links around every server at once: what they are worth at a node of a tree over links. Degree 2.
//
// The bound and its proof are those of relay blocks with two differences: paths of three links or more cost what the
// prices of links say, and servers that have chosen their links have no others. A node is given by rows int64[n, 2],
// the heads of the links of every server, -1 where it has not chosen, and by into int64[n, 2], the tails of the links
// chosen that lead to it, -1 where fewer are known.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "arrays.hpp"
#include "carried.hpp"
#include "stop.hpp"

namespace topoopt::exact {

// Prices of links, reliefs of pairs and shifts of worth between the ends of a link, or their slopes.
template <class T> struct Prices {
    Table<T> price, relief, shift;

    std::array<Table<T>, 3> all() const { return {price, relief, shift}; }
};

class LinkNode {
  public:
    static constexpr double nothing = -1e18;  // worth of what cannot be chosen
    struct Pair {
        Index a, b;  // a <= b; the same for two links between the same servers

        bool twice() const { return a == b; }
        Index times(Index server) const { return (a == server) + (b == server); }
    };

    Index n;
    std::vector<std::vector<Pair>> ins, outs;  // tails that may lead to each server, heads that its links may have
    Matrix<char> absent;                       // links that are never there

    LinkNode(Table<const std::int64_t> rows, Table<const std::int64_t> into)
        : n(rows.rows), ins(n), outs(n), absent(n, n) {
        auto open = [&](Index server) { return rows(server, 0) < 0; };
        for (Index k = 0; k < n; ++k) {
            Index first = into(k, 0), second = into(k, 1);
            for (Index a = 0; a < n; ++a)
                for (Index b = a; b < n; ++b) {
                    if (a == k || b == k) continue;
                    bool fits = open(a) && open(b);
                    if (second >= 0) fits = a == first && b == second;
                    else if (first >= 0) fits = (a == first && open(b)) || (b == first && open(a));
                    if (fits) ins[k].push_back({a, b});
                    fits = into(a, 1) < 0 && into(b, 1) < 0 && (a != b || into(a, 0) < 0);
                    if (!open(k)) fits = a == rows(k, 0) && b == rows(k, 1);
                    if (fits) outs[k].push_back({a, b});
                }
            for (Index j = 0; j < n; ++j)
                absent(k, j) = j == k || (open(k) ? into(j, 1) >= 0 : j != rows(k, 0) && j != rows(k, 1));
        }
    }
};

// Least price of three links or more between i and j, and how it is reached.
struct FarLengths {
    Index n;
    Matrix<double> far;
    Matrix<Index> last;  // the server before j, or, of paths with three links, -1 - (n a + b) for i -> a -> b -> j

    explicit FarLengths(Index n) : n(n), far(n, n), last(n, n) {}

    void fill(Table<const double> price) {
        StopWatch watch;
        for (Index i = 0; i < n; ++i) {
            for (Index j = 0; j < n; ++j) {
                far(i, j) = 1e18;
                if (i != j) fill_three(price, i, j);
            }
            for (bool changed = n > 3; changed;) {
                watch();
                changed = false;
                for (Index j = 0; j < n; ++j)
                    for (Index b = 0; b < n; ++b) {
                        double length = far(i, b) + price(b, j);
                        if (j == i || b == i || b == j || !(length < far(i, j) * (1 - 1e-12))) continue;
                        far(i, j) = length;
                        last(i, j) = b;
                        changed = true;
                    }
            }
            far(i, i) = 0.0;
        }
    }

  private:
    void fill_three(Table<const double> price, Index i, Index j) {
        double best = 1e18;
        Index by = 0;
        for (Index b = 0; b < n; ++b) {
            if (b == i || b == j || price(b, j) >= best) continue;
            for (Index a = 0; a < n; ++a) {
                if (a == i || a == j || a == b) continue;
                double length = price(i, a) + price(a, b) + price(b, j);
                if (length < best) best = length, by = a * n + b;
            }
        }
        far(i, j) = best;
        last(i, j) = -1 - by;
    }
};

// Worths of the links around one server after another, for prices that are given.
class LinkBlocks {
    using Pair = LinkNode::Pair;
    const LinkNode &node;
    Index n;
    Table<const double> demand;
    double theta;
    // ends[side][second][v]: half of what a link from v into the server (side 0), or out of it to v, is worth; the
    // first of two with its shift
    std::vector<double> saved, ends[2][2];

  public:
    Matrix<double> gains;  // what a unit of demand i -> j saves that the server relays over two links
    FarLengths lengths;
    Matrix<double> worth;  // of the choices of tails and heads

    LinkBlocks(const LinkNode &node, Table<const double> demand, double theta)
        : node(node),
          n(node.n),
          demand(demand),
          theta(theta),
          saved(n),
          gains(n, n),
          lengths(n),
          worth(n * (n + 1) / 2, n * (n + 1) / 2) {
        for (auto &side : ends)
            for (auto &row : side) row.assign(n, 0.0);
    }
    void fill(Index k, Prices<const double> at) {
        const Matrix<double> &far = lengths.far;
        for (Index side = 0; side < 2; ++side)
            for (Index v = 0; v < n; ++v) {
                if (v == k) continue;
                Index i = side ? k : v, j = side ? v : k;
                double gain = std::max(0.0, far(i, j) - at.price(i, j) - at.relief(i, j));
                double moved = side ? -at.shift(i, j) : at.shift(i, j);
                ends[side][0][v] = 0.5 * (theta * at.price(i, j) + gain * std::min(demand(i, j), theta)) + moved;
                ends[side][1][v] = 0.5 * (theta * at.price(i, j) + gain * carried(demand(i, j), 1, theta));
            }
        for (Index i = 0; i < n; ++i)
            for (Index j = 0; j < n; ++j) {
                gains(i, j) = 0.0;
                if (i == j || i == k || j == k) continue;
                gains(i, j) = std::max(0.0, far(i, j) - at.relief(i, j) - at.price(i, k) - at.price(k, j));
            }
        for (Index p = 0; p < Index(node.ins[k].size()); ++p) fill_row(p, node.ins[k][p], node.outs[k]);
    }

  private:
    void fill_row(Index p, Pair tails, const std::vector<Pair> &outs) {
        auto [a, b] = tails;
        double into = ends[0][0][a] + ends[0][a == b ? 1 : 0][b];
        for (Index j = 0; j < n; ++j) {
            saved[j] = gains(a, j) * std::min(demand(a, j), theta);
            if (a != b) saved[j] += gains(b, j) * std::min(demand(b, j), theta);
        }
        auto row = worth.row(p);
        for (Index q = 0; q < Index(outs.size()); ++q) {
            auto [c, d] = outs[q];
            if (c != d) {
                row[q] = into + ends[1][0][c] + ends[1][0][d] + saved[c] + saved[d];
                continue;
            }
            row[q] = into + ends[1][0][c] + ends[1][1][c] + saved[c];
            if (a == b) row[q] += gains(a, c) * (std::min(demand(a, c), 2.0 * theta) - std::min(demand(a, c), theta));
        }
    }
};

// Prices at a node: subgradient ascent until they close it.
//
// The dual function is what is owed, sum of demand times (far - relief), less the worth of the blocks; above 0 no
// network of the node has utilisation `theta`. It only matters in proportion to sum of demand times far. Steps are as
// long as would reach a value a little above 0 (Polyak), directions deflected from the one before (Camerini, Fratta and
// Maffioli, 1975).
class BlockAscent {
    static constexpr double enough = 2e-6;  // part of demand times far by which a node has to be closed for it to end
    static constexpr double aim = 1e-4, least_price = 0.02;
    static constexpr double most = 1e6;  // of a relief or shift, where the mean price is 1: far beyond any of use
    static constexpr Index patience = 8;

    LinkNode node;
    Index n;
    Table<const double> demand;
    Prices<double> state;
    double theta;
    LinkBlocks blocks;
    Matrix<double> slope, left;  // of prices, reliefs and shifts, one below another; demand that takes far paths

    Prices<double> slopes() {
        return {{slope.items.data(), n, n}, {slope.items.data() + n * n, n, n}, {slope.items.data() + 2 * n * n, n, n}};
    }
    // Half a link i -> j that counts in a block.
    void count(Index i, Index j, bool second, double sign) {
        auto [price, relief, shift] = slopes();
        price(i, j) -= 0.5 * theta;
        if (blocks.lengths.far(i, j) - state.price(i, j) - state.relief(i, j) > 0.0) {
            double moved = 0.5 * (second ? carried(demand(i, j), 1, theta) : std::min(demand(i, j), theta));
            price(i, j) += moved;
            relief(i, j) += moved;
            left(i, j) -= moved;
        }
        if (!second) shift(i, j) += sign;
    }
    void relay(Index i, Index k, Index j, double capacity) {
        if (!(blocks.gains(i, j) > 0.0)) return;
        auto [price, relief, shift] = slopes();
        double moved = std::min(demand(i, j), capacity);
        relief(i, j) += moved;
        price(i, k) += moved;
        price(k, j) += moved;
        left(i, j) -= moved;
    }
    void send_far(Index i, Index j) {
        auto price = slopes().price;
        const Matrix<Index> &last = blocks.lengths.last;
        StopWatch watch;
        Index at = j;
        for (; last(i, at) >= 0; at = last(i, at)) {
            watch();
            price(last(i, at), at) += left(i, j);
        }
        Index a = (-1 - last(i, at)) / n, b = (-1 - last(i, at)) % n;
        price(i, a) += left(i, j);
        price(a, b) += left(i, j);
        price(b, at) += left(i, j);
    }
    // The dual function and the sum of demand times far; the slopes are filled.
    std::pair<double, double> dual() {
        const Matrix<double> &far = blocks.lengths.far;
        blocks.lengths.fill(state.price);
        std::fill(slope.items.begin(), slope.items.end(), 0.0);
        std::copy_n(demand.data, n * n, left.items.begin());
        double value = 0.0, total = 0.0;
        for (Index i = 0; i < n; ++i)
            for (Index j = 0; j < n; ++j) {
                total += demand(i, j) * far(i, j);
                value += demand(i, j) * (far(i, j) - state.relief(i, j));
                slopes().relief(i, j) -= demand(i, j);
            }
        for (Index k = 0; k < n; ++k) {
            blocks.fill(k, {state.price, state.relief, state.shift});
            double best = LinkNode::nothing;
            Index best_in = 0, best_out = 0;
            for (Index p = 0; p < Index(node.ins[k].size()); ++p)
                for (Index q = 0; q < Index(node.outs[k].size()); ++q)
                    if (blocks.worth(p, q) > best) best = blocks.worth(p, q), best_in = p, best_out = q;
            if (best == LinkNode::nothing) return {std::numeric_limits<double>::infinity(), 1.0};
            value -= best;
            auto tails = node.ins[k][best_in], heads = node.outs[k][best_out];
            for (Index q = 0; q < 2; ++q) {
                count(q ? tails.b : tails.a, k, q && tails.twice(), -1.0);
                count(k, q ? heads.b : heads.a, q && heads.twice(), 1.0);
            }
            double capacity = theta * (tails.twice() && heads.twice() ? 2.0 : 1.0);
            for (Index p = 0; p < (tails.twice() ? 1 : 2); ++p)
                for (Index q = 0; q < (heads.twice() ? 1 : 2); ++q)
                    relay(p ? tails.b : tails.a, k, q ? heads.b : heads.a, capacity);
        }
        for (Index i = 0; i < n; ++i)
            for (Index j = 0; j < n; ++j)
                if (i != j && left(i, j) != 0.0) send_far(i, j);
        return {value, total};
    }
    bool barred(Index x, Index at) const { return x != 1 && node.absent.items[at]; }
    void set_bar() {
        double longest = 0.0;
        for (Index at = 0; at < n * n; ++at)
            if (!node.absent.items[at]) longest = std::max(longest, state.price.data[at]);
        for (Index at = 0; at < n * n; ++at)
            if (node.absent.items[at]) state.price.data[at] = double(n) * longest;
    }

  public:
    BlockAscent(Table<const double> demand, Prices<double> state, double theta, LinkNode given)
        : node(std::move(given)),
          n(node.n),
          demand(demand),
          state(state),
          theta(theta),
          blocks(node, demand, theta),
          slope(3 * n, n),
          left(n, n) {}

    // Improves the prices in place; the dual function they reach, in proportion.
    double run(Index iterations) {
        Index size = n * n;
        std::vector<double> run(3 * size), scale(3 * size), best_state(3 * size);
        auto each = [&](auto what) {  // every number of the state
            for (Index x = 0; x < 3; ++x)
                for (Index at = 0; at < size; ++at) what(x, at, x * size + at);
        };
        auto keep = [&] { each([&](Index x, Index at, Index all) { best_state[all] = state.all()[x].data[at]; }); };
        for (Index at = 0; at < size; ++at) {
            scale[at] = 1.0 / (theta * theta);
            scale[size + at] = 1.0 / (std::max(demand.data[at], 1e-3) * std::max(demand.data[at], 1.0));
            scale[2 * size + at] = 1.0;
        }
        keep();
        double best = -std::numeric_limits<double>::infinity(), pace = 1.0;
        Index stalled = 0;
        for (Index iteration = 0; iteration < iterations; ++iteration) {
            look_at_stop();
            set_bar();
            auto [value, total] = dual();
            double ratio = value / total;
            stalled = ratio > best + 1e-7 ? 0 : stalled + 1;
            if (ratio > best) best = ratio, keep();
            if (best > enough) break;
            if (stalled >= patience) {
                pace *= 0.6;
                stalled = 0;
                if (pace < 0.02) break;
            }
            double along = 0.0, length = 0.0;
            each([&](Index x, Index at, Index all) {
                if (barred(x, at)) slope.items[all] = 0.0;
                along += slope.items[all] * run[all];
                length += run[all] * run[all] / scale[all];
            });
            double deflect = length > 0.0 ? std::max(0.0, -1.5 * along / length) : 0.0;
            length = 0.0;
            each([&](Index, Index, Index all) {
                run[all] = scale[all] * slope.items[all] + deflect * run[all];
                length += run[all] * run[all] / scale[all];
            });
            move(run, pace * ((aim + 2 * enough) * total - value) / std::max(length, 1e-12));
        }
        each([&](Index x, Index at, Index all) { state.all()[x].data[at] = best_state[all]; });
        return best;
    }

  private:
    void move(const std::vector<double> &run, double step) {
        double prices = 0.0, count = 0.0;
        Index size = n * n;
        for (Index at = 0; at < size; ++at) {
            double &price = state.price.data[at], &relief = state.relief.data[at], &shift = state.shift.data[at];
            if (!node.absent.items[at]) {
                price = std::max(least_price, price + step * run[at]);
                shift = std::min(most, std::max(-most, shift + step * run[2 * size + at]));
                prices += price;
                count += 1.0;
            }
            if (at % (n + 1) != 0) relief = std::min(most, std::max(0.0, relief + step * run[size + at]));
        }
        for (auto table : state.all())
            for (double &value : table.flat()) value *= count / prices;
    }
};

inline void require_node(Table<const double> demand, Prices<const double> state, Table<const std::int64_t> rows,
                         Table<const std::int64_t> into) {
    Index n = demand.rows;
    require(n >= 1 && n <= 64, "demand", "1 to 64 servers are needed");
    require_shape(demand, n, n, "demand");
    require_shape(state.price, n, n, "price");
    require_shape(state.relief, n, n, "relief");
    require_shape(state.shift, n, n, "shift");
    require_shape(rows, n, 2, "rows");
    require_within(rows.flat(), -1, n, "rows");
    require_shape(into, n, 2, "into");
    require_within(into.flat(), -1, n, "into");
}

inline double ascend(Table<const double> demand, Table<double> price, Table<double> relief, Table<double> shift,
                     double theta, Table<const std::int64_t> rows, Table<const std::int64_t> into, Index iterations) {
    require_node(demand, {price, relief, shift}, rows, into);
    return BlockAscent(demand, {price, relief, shift}, theta, LinkNode(rows, into)).run(iterations);
}

// What prices prove of a node, and of those that some choice of one server's links makes of it.
inline std::tuple<double, double, Matrix<std::int64_t>, std::vector<std::int64_t>, Matrix<double>> children(
    Table<const double> demand, Table<const double> price, Table<const double> relief, Table<const double> shift,
    double bar, double theta, Table<const std::int64_t> rows, Table<const std::int64_t> into) {
    require_node(demand, {price, relief, shift}, rows, into);
    constexpr double nothing = LinkNode::nothing, infinity = std::numeric_limits<double>::infinity();
    LinkNode node(rows, into);
    Index n = node.n, most = n * (n + 1) / 2;
    Matrix<double> barred(n, n), by_in(n, most, nothing), by_out(n, most, nothing), values(n, most, infinity);
    for (Index at = 0; at < n * n; ++at) barred.items[at] = node.absent.items[at] ? bar : price.data[at];
    LinkBlocks blocks(node, demand, theta);
    blocks.lengths.fill(barred);
    const Matrix<double> &far = blocks.lengths.far;
    double owed = 0.0, total = 0.0;
    for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < n; ++j) {
            total += demand(i, j) * far(i, j);
            owed += demand(i, j) * (far(i, j) - relief(i, j));
        }
    double whole = owed;
    for (Index k = 0; k < n; ++k) {
        look_at_stop();
        blocks.fill(k, {barred, relief, shift});
        for (Index p = 0; p < Index(node.ins[k].size()); ++p)
            for (Index q = 0; q < Index(node.outs[k].size()); ++q) {
                by_in(k, p) = std::max(by_in(k, p), blocks.worth(p, q));
                by_out(k, q) = std::max(by_out(k, q), blocks.worth(p, q));
            }
        auto row = by_in.row(k);
        whole -= *std::max_element(row.begin(), row.end());
    }
    Matrix<std::int64_t> heads(n * most, 2);
    std::vector<std::int64_t> many(n);
    for (Index s = 0; s < n; ++s) {
        many[s] = Index(node.outs[s].size());
        for (Index q = 0; q < many[s]; ++q) {
            heads(s * most + q, 0) = node.outs[s][q].a;
            heads(s * most + q, 1) = node.outs[s][q].b;
        }
        if (rows(s, 0) >= 0) continue;
        Matrix<double> times(3, n, nothing);  // worth of every block by how many links of s lead into it
        for (Index k = 0; k < n; ++k)
            for (Index p = 0; p < Index(node.ins[k].size()); ++p) {
                double &best = times(node.ins[k][p].times(s), k);
                best = std::max(best, by_in(k, p));
            }
        for (Index q = 0; q < many[s]; ++q) {
            double left = owed - by_out(s, q);
            for (Index k = 0; k < n; ++k) {
                if (k == s) continue;
                double block = times(node.outs[s][q].times(k), k);
                left = block == nothing ? infinity : left - block;
            }
            values(s, q) = left;
        }
    }
    return {whole, total, std::move(heads), std::move(many), std::move(values)};
}

inline Matrix<double> far_lengths(Table<const double> price) {
    require(price.rows >= 1 && price.rows <= 1024, "price", "1 to 1024 servers are needed");
    require_shape(price, price.rows, price.rows, "price");
    FarLengths lengths(price.rows);
    lengths.fill(price);
    return std::move(lengths.far);
}

}  // namespace topoopt::exact
