// Regular directed multigraphs, one per isomorphism class, of few hops in all; all networks of a few servers.
//
// Rows (the heads of servers 0, 1, ...) are filled in the numbering of a breadth-first search from server 0: a head is
// a server known before or the next number. `excess` of a server is its sum of hops to all others beyond the Moore
// bound. Cut off when even the most favourable completion has too much of it, and, at the leaves, unless the table of
// rows is the smallest (lexicographically) among all breadth-first numberings from servers of least excess.
#pragma once
#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "arrays.hpp"
#include "stop.hpp"

namespace topoopt::exact {

class RegularNetworks {
    using Mask = std::uint64_t;

    Index n, degree, moore, least, most, at = 0;
    std::vector<Index> choice, reached;  // heads chosen so far (-1: none yet) and servers known before each
    std::vector<Index> in_used, out_used, excess, factorial;
    std::vector<Mask> out_masks, in_masks;
    std::vector<Index> label, order, fresh, digit, radix, row;  // of one numbering
    StopWatch watch;

    static Mask bit(Index server) { return Mask(1) << server; }

    // Least excess of `start`: arcs of masks[v] are certain, degree - used[v] more may lead to any server of `takers`.
    // Servers outside the certain ones are counted as new wherever an arc may lead to some; no more of them than can be
    // reached if all arcs that may lead anywhere led everywhere. Both only lower the sum.
    Index hops_excess(const std::vector<Mask> &masks, const std::vector<Index> &used, Mask takers, Index start) const {
        Mask seen = bit(start), frontier = seen, wide = seen, wide_front = seen;
        Index phantoms = 0, all_phantoms = 0, known = 1, total = 0;
        while (known < n) {
            total += n - known;
            Mask after = 0;
            Index open = degree * phantoms;
            for (Mask rest = frontier; rest; rest &= rest - 1) {
                Index v = std::countr_zero(rest);
                after |= masks[v];
                open += degree - used[v];
            }
            frontier = after & ~seen;
            seen |= frontier;
            if (frontier == 0 && open == 0) return n * n;
            after = 0;
            for (Mask rest = wide_front; rest; rest &= rest - 1) {
                Index v = std::countr_zero(rest);
                after |= masks[v];
                if (used[v] < degree) after |= takers;
            }
            wide_front = after & ~wide;
            wide |= wide_front;
            Index room = std::popcount(wide & ~seen);
            phantoms = std::min(open, room);
            all_phantoms = std::min(all_phantoms + phantoms, room);
            if (wide_front == 0 && wide != bit(n) - 1) return n * n;
            known = all_phantoms + std::popcount(seen);
        }
        return total - moore;
    }
    // Numbers the heads of a server that are new, in the order that its digit says, and sorts the numbers of all.
    Index number_heads(Index position, Index known) {
        const Index *heads = choice.data() + order[position] * degree;
        Index count = 0;
        for (Index k = 0; k < degree; ++k)
            if (label[heads[k]] < 0) {
                label[heads[k]] = n;  // known, not numbered yet
                fresh[count++] = heads[k];
            }
        radix[position] = factorial[count];
        Index code = digit[position];
        for (Index k = 0; k < count; ++k) {
            Index orders = factorial[count - 1 - k], pick = k + code / orders;
            code %= orders;
            std::rotate(fresh.begin() + k, fresh.begin() + pick, fresh.begin() + pick + 1);
            label[fresh[k]] = known;
            order[known++] = fresh[k];
        }
        for (Index k = 0; k < degree; ++k) {
            Index value = label[heads[k]], slot = k;
            for (; slot > 0 && row[slot - 1] > value; --slot) row[slot] = row[slot - 1];
            row[slot] = value;
        }
        return known;
    }
    // Whether the table is the smallest among all breadth-first numberings from least-excess servers. The orders in
    // which the newly known heads of servers are numbered are counted through like an odometer.
    bool is_smallest() {
        for (Index root = 0; root < n; ++root) {
            if (excess[root] > excess[0]) continue;
            std::fill(digit.begin(), digit.end(), 0);
            while (true) {
                watch();
                std::fill(label.begin(), label.end(), -1);
                label[root] = 0;
                order[0] = root;
                Index known = 1, position = 0;
                for (; position < n; ++position) {
                    known = number_heads(position, known);
                    auto own = choice.begin() + position * degree;
                    auto [mine, other] = std::mismatch(row.begin(), row.end(), own);
                    if (mine == row.end()) continue;
                    if (*mine < *other) return false;
                    break;
                }
                position = std::min(position, n - 1);
                while (position >= 0 && ++digit[position] >= radix[position]) digit[position--] = 0;
                if (position < 0) break;
                std::fill(digit.begin() + position + 1, digit.end(), 0);
            }
        }
        return true;
    }
    void descend(Index known) {
        ++at;
        reached[at] = known;
        choice[at] = -1;
    }
    // Whether the networks with these rows, the last one whole, can be of the excess that is asked for.
    bool fits() {
        std::fill(out_masks.begin(), out_masks.end(), 0);
        std::fill(in_masks.begin(), in_masks.end(), 0);
        std::fill(out_used.begin(), out_used.end(), 0);
        for (Index p = 0; p <= at; ++p) {
            out_masks[p / degree] |= bit(choice[p]);
            in_masks[choice[p]] |= bit(p / degree);
            ++out_used[p / degree];
        }
        Mask in_free = 0, out_free = 0;
        for (Index v = 0; v < n; ++v) {
            if (in_used[v] < degree) in_free |= bit(v);
            if (out_used[v] < degree) out_free |= bit(v);
        }
        Index total = 0;
        for (Index v = 0; v < n; ++v) total += excess[v] = hops_excess(out_masks, out_used, in_free, v);
        if (total > most || excess[0] > most / n) return false;
        if (at == n * degree - 1)
            return total >= least && *std::min_element(excess.begin(), excess.end()) == excess[0] && is_smallest();
        total = 0;
        for (Index v = 0; v < n; ++v) total += hops_excess(in_masks, in_used, out_free, v);
        return total <= most;
    }

  public:
    RegularNetworks(Index n, Index degree, Index moore, Index least, Index most)
        : n(n),
          degree(degree),
          moore(moore),
          least(least),
          most(most),
          choice(n * degree, -1),
          reached(n * degree, 1),
          in_used(n),
          out_used(n),
          excess(n),
          factorial(degree + 1, 1),
          out_masks(n),
          in_masks(n),
          label(n),
          order(n),
          fresh(degree),
          digit(n),
          radix(n, 1),
          row(degree) {
        for (Index k = 1; k <= degree; ++k)
            factorial[k] = factorial[k - 1] > (Index(1) << 62) / k ? Index(1) << 62 : factorial[k - 1] * k;
    }
    bool over() const { return at < 0; }

    // Goes on for at most `steps` choices; the heads of so many graphs at most, one row each.
    Matrix<std::int64_t> next(Index steps, Index graphs) {
        Matrix<std::int64_t> result;
        result.columns = n * degree;
        for (; steps > 0 && at >= 0 && result.rows < graphs; --steps) {
            watch();
            Index server = at / degree, k = at % degree, before = choice[at];
            Index head = before >= 0 ? before + 1 : k > 0 ? choice[at - 1] : 0;
            if (before >= 0) --in_used[before];
            Index last = std::min(reached[at], n - 1);
            while (head <= last && (head == server || in_used[head] == degree)) ++head;
            if (head > last) {
                choice[at--] = -1;
                continue;
            }
            choice[at] = head;
            ++in_used[head];
            Index now = reached[at] + (head == reached[at]);
            if (k < degree - 1) {
                descend(now);
                continue;
            }
            if ((now < n && now < server + 2) || !fits()) continue;
            if (at < n * degree - 1) {
                descend(now);
                continue;
            }
            result.items.insert(result.items.end(), choice.begin(), choice.end());
            ++result.rows;
        }
        return result;
    }
};

// All link counts within the degrees that leave no room for one more allowed link, one row of n * n each; one more
// than `limit` where there are more.
class MaximalNetworks {
    Index degree, most_links;
    bool mirrored;  // a link i -> j is one j -> i too; then every pair is listed once
    Ints tails, heads;
    std::vector<Index> links, sent, received;

    bool room(Index pair) const {
        return links[pair] < most_links && sent[tails[pair]] < degree && received[heads[pair]] < degree;
    }
    void add(Index pair, Index count) {
        links[pair] += count;
        sent[tails[pair]] += count;
        received[heads[pair]] += count;
        if (!mirrored) return;
        sent[heads[pair]] += count;
        received[tails[pair]] += count;
    }

  public:
    MaximalNetworks(Index n, Index degree, Index most_links, bool mirrored, Ints tails, Ints heads)
        : degree(degree),
          most_links(most_links),
          mirrored(mirrored),
          tails(tails),
          heads(heads),
          links(tails.size, -1),
          sent(n),
          received(n) {}

    Matrix<std::int64_t> all(Index limit) {
        Matrix<std::int64_t> result;
        Index n = Index(sent.size()), pairs = tails.size;
        result.columns = n * n;
        StopWatch watch;
        for (Index at = 0; at >= 0;) {
            watch();
            if (at == pairs) {
                bool full = true;
                for (Index p = 0; p < pairs; ++p) full &= !room(p);
                if (full) {
                    result.items.resize(std::size_t(++result.rows * n * n));
                    if (result.rows > limit) return result;
                    auto table = result.row(result.rows - 1);
                    for (Index p = 0; p < pairs; ++p) {
                        table[tails[p] * n + heads[p]] = links[p];
                        if (mirrored) table[heads[p] * n + tails[p]] = links[p];
                    }
                }
                --at;
            } else if (links[at] < 0) {
                links[at++] = 0;
            } else if (room(at)) {
                add(at++, 1);
            } else {
                add(at, -links[at]);
                links[at--] = -1;
            }
        }
        return result;
    }
};

inline Matrix<std::int64_t> maximal_networks(Index n, Index degree, Index most_links, bool mirrored, Ints tails,
                                             Ints heads, Index limit) {
    require(n >= 1 && n <= 1024, "n", "1 to 1024 servers are needed");
    require(limit >= 0 && limit < (Index(1) << 30), "limit", "a number of networks is needed");
    require_size(heads, tails.size, "heads");
    require_within(tails, 0, n, "tails");
    require_within(heads, 0, n, "heads");
    return MaximalNetworks(n, degree, most_links, mirrored, tails, heads).all(limit);
}

}  // namespace topoopt::exact
