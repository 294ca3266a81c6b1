// Link-disjoint Hamiltonian cycles over all links of a topology whose servers have the same even number of links.
//
// Every link has a colour, every server two links of each. Exchanging two colours along a closed trail that alternates
// between them keeps that; trails are drawn at random, and kept unless there are more cycles than before, until every
// colour is one cycle. Almost all random regular graphs of even degree have such cycles (Kim and Wormald 2001). An
// AllReduce of all servers then loads every link alike.
#pragma once
#include <algorithm>
#include <tuple>

#include "arrays.hpp"
#include "random.hpp"
#include "stop.hpp"

namespace topoopt::graph {

class ColouredLinks {
    static constexpr Index tries_per_server = 60, steps_per_link = 4;

    Index n, colours, most;
    Matrix<std::int64_t> links, have;       // links of each server; how many of each colour they are
    std::vector<std::int64_t> sum, colour;  // of each link: its two servers, added up
    std::uint64_t state;
    Random random{state};
    StopWatch watch;

    void paint(Index link, Index one, Index now) {
        for (Index server : {one, sum[link] - one}) {
            --have(server, colour[link]);
            ++have(server, now);
        }
        colour[link] = now;
    }

    // From a server on, links of `more` become `less` and the other way round, until servers have two of each again.
    bool exchange(Index server, Index more, Index less) {
        Index last = -1;
        for (Index step = 0; step < most; ++step) {
            watch();
            Index selected = -1, seen = 0;
            for (Index link : links.row(server))
                if (colour[link] == more && link != last && random.below(++seen) == 0) selected = link;
            if (selected < 0) return false;
            paint(selected, server, less);
            server = sum[selected] - server;
            last = selected;
            std::swap(more, less);
            if (have(server, more) == 2) return true;
        }
        return false;
    }

    // The server behind a link of a colour other than the last one, and that link.
    std::pair<Index, Index> after(Index server, Index each, Index last) const {
        for (Index link : links.row(server))
            if (colour[link] == each && link != last) return {sum[link] - server, link};
        return {server, last};
    }

    Index cycles(Index each) const {
        std::vector<char> seen(n);
        Index count = 0;
        for (Index start = 0; start < n; ++start) {
            count += !seen[start];
            for (Index server = start, last = -1; !seen[server];) {
                seen[server] = true;
                std::tie(server, last) = after(server, each, last);
            }
        }
        return count;
    }

    // Two links of each colour at every server, by trails from those with too many.
    bool balance() {
        for (Index attempt = 0; attempt < tries_per_server * n; ++attempt) {
            look_at_stop();
            auto crowded = std::find_if(have.items.begin(), have.items.end(), [](Index count) { return count > 2; });
            if (crowded == have.items.end()) return true;
            Index start = (crowded - have.items.begin()) / colours, more = -1, less = -1;
            for (Index each = 0; each < colours; ++each) {
                if (have(start, each) > 2) more = each;
                if (have(start, each) < 2) less = each;
            }
            exchange(start, more, less);
        }
        return false;
    }

  public:
    // Each link begins with the colour that its two servers have fewest of.
    ColouredLinks(Table<const std::int64_t> counts, Index colours, std::uint64_t seed)
        : n(counts.rows), colours(colours), links(n, 2 * colours), have(n, colours), state(seed) {
        std::vector<std::int64_t> filled(n);
        for (Index one = 0; one < n; ++one)
            for (Index other = one + 1; other < n; ++other)
                for (Index copy = 0; copy < counts(one, other); ++copy) {
                    Index least = 0;
                    for (Index each = 1; each < colours; ++each)
                        if (have(one, each) + have(other, each) < have(one, least) + have(other, least)) least = each;
                    for (Index server : {one, other}) {
                        ++have(server, least);
                        links(server, filled[server]++) = Index(sum.size());
                    }
                    sum.push_back(one + other);
                    colour.push_back(least);
                }
        most = steps_per_link * Index(sum.size());
    }
    ColouredLinks(const ColouredLinks &) = delete;

    bool search() {
        if (!balance()) return false;
        std::vector<Index> count(colours);
        for (Index each = 0; each < colours; ++each) count[each] = cycles(each);
        std::vector<std::int64_t> kept = colour;
        for (Index attempt = 0;; ++attempt) {
            if (*std::max_element(count.begin(), count.end()) == 1) return true;
            if (attempt == tries_per_server * n || colours < 2) return false;
            Index a = random.below(colours), b = (a + 1 + random.below(colours - 1)) % colours;
            if (count[a] + count[b] == 2) continue;
            if (exchange(random.below(n), a, b)) {
                Index one = cycles(a), other = cycles(b);
                if (one + other <= count[a] + count[b]) {
                    count[a] = one;
                    count[b] = other;
                    kept = colour;
                    continue;
                }
            }
            colour = kept;
            std::fill(have.items.begin(), have.items.end(), 2);
        }
    }

    Matrix<std::int64_t> orders() const {
        Matrix<std::int64_t> orders(colours, n);
        for (Index each = 0; each < colours; ++each)
            for (Index k = 1, last = -1; k < n; ++k)
                std::tie(orders(each, k), last) = after(orders(each, k - 1), each, last);
        return orders;
    }
};

// One order of all servers for every two links of a server; none where none are found, or numbers differ or are odd.
inline Matrix<std::int64_t> hamiltonian_cycles(Table<const std::int64_t> counts, std::uint64_t seed) {
    Index n = counts.rows, degree = 0;
    require_shape(counts, n, n, "counts");
    require_within(counts.flat(), 0, 1 << 16, "counts");
    for (Index i = 0; i < n; ++i) {
        Index sum = 0;
        for (Index j = 0; j < n; ++j) {
            sum += counts(i, j);
            require(counts(i, j) == counts(j, i) && counts(i, i) == 0, "counts", "links go both ways, none to itself");
        }
        if (i == 0) degree = sum;
        if (sum != degree) return Matrix<std::int64_t>(0, n);
    }
    if (n < 3 || degree < 2 || degree % 2 != 0) return Matrix<std::int64_t>(0, n);
    ColouredLinks links(counts, degree / 2, seed);
    return links.search() ? links.orders() : Matrix<std::int64_t>(0, n);
}

}  // namespace topoopt::graph
