// The dual function of the bound by relay blocks with its subgradients; the best links around a relay.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

#include "arrays.hpp"
#include "carried.hpp"
#include "stop.hpp"

namespace topoopt::search {

// Inserts a value into a descending row of the largest.
inline void keep_largest(View<double> top, double value) {
    Index at = top.size - 1;
    if (!(value > top[at])) return;
    for (; at > 0 && top[at - 1] < value; --at) top[at] = top[at - 1];
    top[at] = value;
}

// The best links around one relay server: max over sets I, J of at most d places of
//     sum_I a_i + sum_J b_j + sum_{I x J} w_ij.
// Any u with 0 <= u <= w splits the last sum: what row i takes is at most T_d(u_i.), the sum of its d largest, what
// column j takes at most T_d(w_.j - u_.j). A few subgradient steps lower this bound; then rows are chosen one after
// another, what is charged to them exact. Four rows at most are two pairs: a pair takes at most what it is worth with
// half of each b_j alone, however the four are paired, and few are above the best by this.
class BestBlock {
    static constexpr double closed = 1e-9;  // part of the best value by which a bound may exceed it
    static constexpr Index rounds = 20, starts = 4;
    static constexpr double infinity = std::numeric_limits<double>::infinity();
    using Set = View<Index>;

    Index q, d;
    std::vector<double> worth, top, by_row, by_column;
    std::vector<Index> next_rows, next_columns, other_rows, other_columns, places;
    Matrix<Index> row_top, column_top;
    std::vector<char> old_row, old_column;

    static double sum(View<const double> values) { return std::accumulate(values.begin(), values.end(), 0.0); }

    // Sum of the largest positive values, as many as `place` holds; their places, -1 for those that are not there.
    double largest(View<const double> values, Set place) {
        std::fill(top.begin(), top.end(), 0.0);
        std::fill(place.begin(), place.end(), -1);
        double *best = top.data();
        for (Index i = 0; i < values.size; ++i) {
            double value = values[i];
            if (!(value > best[d - 1])) continue;
            Index at = d - 1;
            for (; at > 0 && best[at - 1] < value; --at) {
                best[at] = best[at - 1];
                place[at] = place[at - 1];
            }
            best[at] = value;
            place[at] = i;
        }
        return sum(top);
    }
    // Best columns for the rows, best rows for the columns, and so on; `rows` is where it starts.
    double alternate(Set rows, Set columns) {
        std::copy(rows.begin(), rows.end(), next_rows.begin());
        std::copy(columns.begin(), columns.end(), next_columns.begin());
        double best = -1.0;
        for (Index round = 0; round < rounds; ++round) {
            std::copy(b.begin(), b.end(), worth.begin());
            for (Index i : next_rows)
                if (i >= 0)
                    for (Index j = 0; j < q; ++j) worth[j] += w(i, j);
            largest(worth, next_columns);
            std::copy(a.begin(), a.end(), worth.begin());
            double value = 0.0;
            for (Index j : next_columns) {
                if (j < 0) continue;
                value += b[j];
                for (Index i = 0; i < q; ++i) worth[i] += w(i, j);
            }
            value += largest(worth, next_rows);
            if (value <= best + 1e-12) break;
            best = value;
            std::copy(next_rows.begin(), next_rows.end(), rows.begin());
            std::copy(next_columns.begin(), next_columns.end(), columns.begin());
        }
        return best;
    }
    // The places of descending worth.
    std::vector<Index> descending(const std::vector<double> &values) const {
        std::vector<Index> order(values.size());
        std::iota(order.begin(), order.end(), Index(0));
        std::stable_sort(order.begin(), order.end(), [&](Index i, Index j) { return values[i] > values[j]; });
        return order;
    }
    // Lowers the bound of a split by Polyak steps; what rows and columns are worth under it at most.
    double improve(Table<double> u, double best, Index steps) {
        std::fill(old_row.begin(), old_row.end(), true);
        std::fill(old_column.begin(), old_column.end(), true);
        for (Index at = 0; at < q * q; ++at) u.data[at] = std::min(u.data[at], w.items[at]);
        double bound = 0.0;
        for (Index step = 0;; ++step) {
            for (Index i = 0; i < q; ++i) {
                if (old_row[i]) by_row[i] = a[i] + largest(u.row(i), row_top.row(i));
                if (!old_column[i]) continue;
                for (Index j = 0; j < q; ++j) worth[j] = w(j, i) - u(j, i);
                by_column[i] = b[i] + largest(worth, column_top.row(i));
            }
            bound = largest(by_row, next_rows);
            bound += largest(by_column, next_columns);
            if (step >= steps || bound <= best * (1.0 + closed)) return bound;
            double length = 0.7 * (bound - best) / double(2 * d * d);
            std::fill(old_row.begin(), old_row.end(), false);
            std::fill(old_column.begin(), old_column.end(), false);
            for (Index row : next_rows) {
                if (row < 0) continue;
                for (Index other : row_top.row(row)) {
                    if (other < 0) continue;
                    u(row, other) = std::max(0.0, u(row, other) - length);
                    old_row[row] = old_column[other] = true;
                }
            }
            for (Index column : next_columns) {
                if (column < 0) continue;
                for (Index other : column_top.row(column)) {
                    if (other < 0) continue;
                    u(other, column) = std::min(w(other, column), u(other, column) + length);
                    old_row[other] = old_column[column] = true;
                }
            }
        }
    }
    // What beats `best`, from two pairs of rows at most; row q is none.
    double by_pairs(Set rows, Set columns, double best) {
        struct Pair {
            double value;
            Index i, j;
        };
        std::vector<Index> usable;
        for (Index i = 0; i < q; ++i)
            if (a[i] > -infinity) usable.push_back(i);
        usable.push_back(q);
        std::vector<double> fixed(q), zero(q, 0.0);
        auto worth_of = [&](Index i) { return i < q ? a[i] : 0.0; };
        auto row_of = [&](Index i) { return i < q ? w.row(i).data : zero.data(); };
        auto most_with = [&](Index i, Index j) {  // the d largest of `fixed` with two more rows
            const double *one = row_of(i), *two = row_of(j);
            std::fill(top.begin(), top.end(), 0.0);
            for (Index y = 0; y < q; ++y) keep_largest(top, fixed[y] + one[y] + two[y]);
            return sum(top);
        };
        Matrix<double> joint(q + 1, q + 1);
        std::vector<Pair> pairs;
        for (Index y = 0; y < q; ++y) fixed[y] = 0.5 * b[y];
        for (Index i : usable)
            for (Index j : usable) {
                if (j < i || (i == j && i < q)) continue;
                double value = worth_of(i) + worth_of(j) + most_with(i, j);
                joint(i, j) = joint(j, i) = value;
                pairs.push_back({value, i, j});
            }
        std::ranges::stable_sort(pairs, std::greater<>(), &Pair::value);
        StopWatch watch;
        for (auto one = pairs.begin(); one != pairs.end() && 2.0 * one->value > best * (1.0 + closed); ++one) {
            auto [value, i, j] = *one;
            for (Index y = 0; y < q; ++y) fixed[y] = b[y] + row_of(i)[y] + row_of(j)[y];
            for (auto two = one; two != pairs.end() && value + two->value > best * (1.0 + closed); ++two) {
                watch();
                auto [other, k, l] = *two;
                if ((i < q && (i == k || i == l)) || (j < q && (j == k || j == l))) continue;
                if (Index(i < q) + Index(j < q) + Index(k < q) + Index(l < q) > d) continue;
                if (std::min(joint(i, k) + joint(j, l), joint(i, l) + joint(j, k)) < value + other) continue;
                double exact = worth_of(i) + worth_of(j) + worth_of(k) + worth_of(l) + most_with(k, l);
                if (!(exact > best)) continue;
                best = exact;
                std::fill(rows.begin(), rows.end(), -1);
                std::ranges::copy_if(std::array{i, j, k, l}, rows.begin(), [&](Index row) { return row < q; });
                for (Index y = 0; y < q; ++y) worth[y] = fixed[y] + row_of(k)[y] + row_of(l)[y];
                largest(worth, columns);
            }
        }
        return best;
    }
    // What the least of the d best takes; 0 where there are fewer.
    double last_of(const std::vector<double> &values) {
        largest(values, places);
        return places[d - 1] >= 0 ? values[places[d - 1]] : 0.0;
    }

  public:
    std::vector<double> a, b;  // worth of each row and column
    Matrix<double> w;          // worth of each pair, not negative

    BestBlock(Index q, Index d)
        : q(q),
          d(d),
          worth(q),
          top(d),
          by_row(q),
          by_column(q),
          next_rows(d),
          next_columns(d),
          other_rows(d),
          other_columns(d),
          places(d),
          row_top(q, d),
          column_top(q, d),
          old_row(q),
          old_column(q),
          a(q),
          b(q),
          w(q, q) {}

    double value(View<const Index> rows, View<const Index> columns) const {
        double value = 0.0;
        for (Index i : rows) {
            if (i < 0) continue;
            value += a[i];
            for (Index j : columns)
                if (j >= 0) value += w(i, j);
        }
        for (Index j : columns)
            if (j >= 0) value += b[j];
        return value;
    }
    // A good value with its sets, from the guess and from the rows of most worth, each alone: no more than the best.
    double good(Set rows, Set columns) {
        double best = alternate(rows, columns);
        std::vector<double> alone(q);
        for (Index i = 0; i < q; ++i) {
            for (Index j = 0; j < q; ++j) worth[j] = b[j] / double(d) + w(i, j);
            alone[i] = a[i] + largest(worth, places);
        }
        std::vector<Index> order = descending(alone);
        std::fill(other_columns.begin(), other_columns.end(), -1);
        for (Index start = 0; start < std::min(starts, q); ++start) {
            std::fill(other_rows.begin(), other_rows.end(), -1);
            other_rows[0] = order[start];
            double value = alternate(other_rows, other_columns);
            if (value <= best) continue;
            best = value;
            std::copy(other_rows.begin(), other_rows.end(), rows.begin());
            std::copy(other_columns.begin(), other_columns.end(), columns.begin());
        }
        return best;
    }
    // The maximum, with its sets, from a guess at them; u, a split to start from, is improved in place.
    double exact(Table<double> u, Set rows, Set columns, Index steps) {
        double best = alternate(rows, columns);
        if (d <= 4) return by_pairs(rows, columns, best);
        double bound = improve(u, best, steps);
        if (bound <= best * (1.0 + closed)) return best;
        double last_row = last_of(by_row), last_column = last_of(by_column);
        std::vector<Index> order, left;
        for (Index i : descending(by_row))
            if (bound - last_row + std::min(by_row[i], last_row) > best) order.push_back(i);
        for (Index j = 0; j < q; ++j)
            if (bound - last_column + std::min(by_column[j], last_column) > best) left.push_back(j);
        Index count = Index(order.size()), width = Index(left.size());
        // the r largest worths of rows from place s on, and of each column what r of these rows may add
        Matrix<double> ahead(count + 1, d + 1), tail((count + 1) * (d + 1), width), tops(width, d);
        for (Index s = count; s-- > 0;) {
            for (Index r = 1; r <= d; ++r)
                ahead(s, r) = ahead(s, r - 1) + (s + r <= count ? std::max(0.0, by_row[order[s + r - 1]]) : 0.0);
            for (Index y = 0; y < width; ++y) {
                keep_largest(tops.row(y), w(order[s], left[y]) - u(order[s], left[y]));
                for (Index r = 1; r <= d; ++r) tail(s * (d + 1) + r, y) = tail(s * (d + 1) + r - 1, y) + tops(y, r - 1);
            }
        }
        Matrix<double> base(d + 1, width);
        for (Index y = 0; y < width; ++y) base(0, y) = b[left[y]];
        std::vector<double> fixed(d + 1), most(d);
        std::vector<Index> next(d + 1), chosen(d, -1);
        StopWatch watch;
        for (Index depth = 0; depth >= 0;) {
            watch();
            Index s = next[depth], r = d - depth;
            double value = -1.0;
            if (s < count) {
                std::fill(most.begin(), most.end(), 0.0);
                auto added = tail.row(s * (d + 1) + r);
                for (Index y = 0; y < width; ++y) keep_largest(most, base(depth, y) + added[y]);
                value = fixed[depth] + ahead(s, r) + sum(most);
            }
            if (s >= count || value <= best * (1.0 + closed)) {
                --depth;
                continue;
            }
            Index taken = order[s];
            next[depth] = s + 1;
            chosen[depth] = taken;
            fixed[depth + 1] = fixed[depth] + a[taken];
            std::fill(most.begin(), most.end(), 0.0);
            for (Index y = 0; y < width; ++y) {
                base(depth + 1, y) = base(depth, y) + w(taken, left[y]);
                keep_largest(most, base(depth + 1, y));
            }
            value = fixed[depth + 1] + sum(most);
            if (value > best) {
                best = value;
                std::fill(rows.begin(), rows.end(), -1);
                std::copy_n(chosen.begin(), depth + 1, rows.begin());
                largest(base.row(depth + 1), columns);
                for (Index &column : columns)
                    if (column >= 0) column = left[column];
            }
            if (depth + 1 < d) {
                ++depth;
                next[depth] = s + 1;
            }
        }
        return best;
    }
};

// The dual function of a demand, with what one evaluation hands on to the next: sets and splits of every block.
class RelayDual {
    static constexpr double better = 1e-9;  // part by which a set must beat those known to be kept
    static constexpr Index known_sets = 40;

    Index n, d;
    Matrix<double> demand;
    Matrix<std::int64_t> least, most_links;  // links between servers
    double further;
    std::vector<Index> server, beside;  // a place around a relay: the first link of a server, or a further one of its
    Index q;
    Matrix<double> split;       // of the pairs around each relay, one below another
    Matrix<Index> sets, known;  // the best places before and after each relay; sets found before, the newest first
    BestBlock block;

    struct At {  // where the function is evaluated
        Table<const double> price, relief, shift;
        double theta;
        Matrix<double> gain;
    };
    struct Idle {
        Index in, out;
    };

    void recall(Index k, View<Index> before, View<Index> after) {
        remembered = block.value(before, after);
        Index found = -1;
        for (Index at = 0; at < known_sets; ++at) {
            double value = block.value(known.row(2 * (k * known_sets + at)), known.row(2 * (k * known_sets + at) + 1));
            if (value > remembered) remembered = value, found = at;
        }
        if (found < 0) return;
        std::copy_n(known.row(2 * (k * known_sets + found)).data, d, before.data);
        std::copy_n(known.row(2 * (k * known_sets + found) + 1).data, d, after.data);
    }
    void remember(Index k, View<Index> before, View<Index> after) {
        auto rows = known.row(2 * k * known_sets).data;
        std::copy_backward(rows, rows + 2 * d * (known_sets - 1), rows + 2 * d * known_sets);
        std::copy_n(before.data, d, rows);
        std::copy_n(after.data, d, rows + d);
    }
    // Worths of the places around k.
    void fill_block(Index k, const At &at, const Matrix<double> &most, double far, double fill_in, double fill_out) {
        double premium = premium_of_theta * at.theta;
        constexpr double never = -std::numeric_limits<double>::infinity();
        for (Index y = 0; y < q; ++y) {
            Index i = server[y], beyond = beside[y];
            double &a = block.a[y] = never, &b = block.b[y] = never;
            auto w = block.w.row(y);
            std::fill(w.begin(), w.end(), 0.0);
            if (i == k) continue;
            double into = carried(demand(i, k), beyond, at.theta), out = carried(demand(k, i), beyond, at.theta);
            a = 0.5 * (at.theta * at.price(i, k) + at.gain(i, k) * into) - fill_in;
            b = 0.5 * (at.theta * at.price(k, i) + at.gain(k, i) * out) - fill_out;
            if (beyond == 0 || into > 0.0) a += at.shift(i, k);
            if (beyond == 0 || out > 0.0) b -= at.shift(k, i);
            if (beyond < least(i, k)) a += premium;
            if (beyond < least(k, i)) b += premium;
            if (beyond >= most_links(i, k)) a = never;
            if (beyond >= most_links(k, i)) b = never;
            auto carries = most.row(y);
            for (Index z = 0; z < q; ++z) {
                Index j = server[z];
                if (carries[z] > 0.0 && j != k)
                    w[z] = std::max(0.0, far - at.relief(i, j) - at.price(i, k) - at.price(k, j)) * carries[z];
            }
        }
    }
    // Half a link i -> j that carries nothing; half of what it costs.
    double idle(Index i, Index j, const At &at) {
        price(i, j) -= 0.5 * at.theta;
        return 0.5 * at.price(i, j);
    }
    // Half a link i -> j that counts in a block, with its shift; half of what it costs.
    double counted(Index i, Index j, Index beyond, double sign, const At &at) {
        double moved = at.gain(i, j) > 0.0 ? 0.5 * carried(demand(i, j), beyond, at.theta) : 0.0;
        price(i, j) -= 0.5 * at.theta - moved;
        relief(i, j) += moved;
        used(beyond * n + i, j) += 0.5;
        if (beyond == 0 || demand(i, j) > double(beyond) * at.theta) shift(i, j) += sign;
        return 0.5 * at.price(i, j);
    }
    double descend(Index k, View<const Index> before, View<const Index> after, Idle fill, const Matrix<double> &most,
                   const At &at, double slope) {
        for (Index y : before) {
            if (y < 0) {
                slope -= idle(fill.in, k, at);
                continue;
            }
            Index i = server[y];
            slope -= counted(i, k, beside[y], -1.0, at);
            for (Index z : after) {
                if (z < 0 || !(block.w(y, z) > 0.0)) continue;
                Index j = server[z];
                relief(i, j) += most(y, z);
                price(i, k) += most(y, z);
                price(k, j) += most(y, z);
            }
        }
        for (Index z : after) slope -= z < 0 ? idle(k, fill.out, at) : counted(k, server[z], beside[z], 1.0, at);
        return slope;
    }

    double remembered = 0.0;
    Matrix<double> price, relief, shift, used;  // gradients; how often links were chosen

    static Index places(Table<const double> demand, Index d, double theta, Table<const std::int64_t> least,
                        std::vector<Index> &server, std::vector<Index> &beside) {
        Index n = demand.rows;
        for (Index beyond = 0; beyond < d; ++beyond)
            for (Index v = 0; v < n; ++v) {
                double most = demand(0, v);
                Index links = 1;
                for (Index u = 0; u < n; ++u) {
                    most = std::max({most, demand(u, v), demand(v, u)});
                    links = std::max({links, least(u, v), least(v, u)});
                }
                if (!(most > double(beyond) * theta || beyond < links)) continue;
                server.push_back(v);
                beside.push_back(beyond);
            }
        return Index(server.size());
    }
    template <class T> static Matrix<T> copied(Table<const T> table) {
        Matrix<T> copy(table.rows, table.columns);
        std::copy_n(table.data, table.rows * table.columns, copy.items.begin());
        return copy;
    }

  public:
    // Worth in units of theta that is added to links that are there in any case, so that they are chosen.
    static constexpr double premium_of_theta = 30.0;

    RelayDual(Index d, Table<const double> demand, double further, double theta, Table<const std::int64_t> least,
              Table<const std::int64_t> most, Table<const double> split)
        : n(demand.rows),
          d(d),
          demand(copied(demand)),
          least(copied(least)),
          most_links(copied(most)),
          further(further),
          q(places(demand, d, theta, least, server, beside)),
          split(n * q, q),
          sets(2 * n, d, -1),
          known(2 * n * known_sets, d, -1),
          block(q, d),
          price(n, n),
          relief(n, n),
          shift(n, n),
          used(d * n, n) {
        for (Index row = 0; row < n * n; ++row)
            std::copy_n(split.row(row).data, n, this->split.row(row / n * q + row % n).data);
    }
    Index servers() const { return n; }
    std::tuple<double, double, std::vector<double>> value(Table<const double> prices, Table<const double> reliefs,
                                                          Table<const double> shifts, double theta, Index steps,
                                                          bool exact) {
        double least_price = std::numeric_limits<double>::infinity(), demands = 0.0, relieved = 0.0;
        for (Index i = 0; i < n; ++i)
            for (Index j = 0; j < n; ++j)
                if (i != j) least_price = std::min(least_price, prices(i, j));
        double far = 3.0 * least_price;
        At at{prices, reliefs, shifts, theta, Matrix<double>(n, n)};
        for (Index e = 0; e < n * n; ++e) {
            at.gain.items[e] = std::max(far - prices.data[e] - reliefs.data[e], 0.0);
            demands += demand.items[e];
            relieved += reliefs.data[e] * demand.items[e];
            relief.items[e] = -demand.items[e];
        }
        std::fill(price.items.begin(), price.items.end(), 0.0);
        std::fill(shift.items.begin(), shift.items.end(), 0.0);
        double value = far * demands - relieved + further * least_price, slope = 0.0;
        std::vector<double> worth(n);
        Matrix<double> most(q, q);
        for (Index y = 0; y < q; ++y)
            for (Index z = 0; z < q; ++z)
                if (beside[y] == beside[z]) most(y, z) = carried(demand(server[y], server[z]), beside[y], theta);
        for (Index k = 0; k < n; ++k) {
            look_at_stop();
            Idle fill{(k + 1) % n, (k + 1) % n};
            Index due = 0;
            for (Index i = 0; i < n; ++i) {
                if (i != k && prices(i, k) > prices(fill.in, k)) fill.in = i;
                if (i != k && prices(k, i) > prices(k, fill.out)) fill.out = i;
                due += least(i, k) + least(k, i);
            }
            double fill_in = 0.5 * theta * prices(fill.in, k), fill_out = 0.5 * theta * prices(k, fill.out);
            fill_block(k, at, most, far, fill_in, fill_out);
            auto before = sets.row(k), after = sets.row(n + k);
            recall(k, before, after);
            double best =
                exact ? block.exact({split.row(k * q).data, q, q}, before, after, steps) : block.good(before, after);
            worth[k] = double(d) * (fill_in + fill_out) + best - premium_of_theta * theta * double(due);
            if (best > remembered + better * std::abs(remembered)) remember(k, before, after);
            value -= worth[k];
            slope = descend(k, before, after, fill, most, at, slope);
        }
        return {value, slope, std::move(worth)};
    }
    std::tuple<Matrix<double>, Matrix<double>, Matrix<double>> gradients() const { return {price, relief, shift}; }
    Matrix<double> uses() const { return used; }
    void forget_uses() { std::fill(used.items.begin(), used.items.end(), 0.0); }
};

inline void require_relay(Index d, Table<const double> demand, Table<const std::int64_t> least,
                          Table<const std::int64_t> most, Table<const double> split) {
    Index n = demand.rows;
    require(n >= 2 && n <= 2048, "demand", "2 to 2048 servers are needed");
    require(d >= 1 && d <= 1024 && n * d <= (Index(1) << 20), "d", "1 to 1024 are needed, and not too many links");
    require(n * (n * d) <= (Index(1) << 31) / (n * d), "d", "too many links around too many servers");
    require_shape(demand, n, n, "demand");
    require_shape(least, n, n, "least");
    require_shape(most, n, n, "most");
    require_within(least.flat(), 0, Index(1) << 20, "least");
    require_shape(split, n * n, n, "split");
}

}  // namespace topoopt::search
