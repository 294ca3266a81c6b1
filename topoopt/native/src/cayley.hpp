// Breadth-first loads of Cayley digraphs of semidirect products, and a climb among their generators.
//
// Elements, products and arcs are those of `topoopt.core.topology`. A group lets every rank look like the identity, so
// that the loads of one rank are those of all: an element x may come over the generator s in step dist(x) where
// dist(x s^-1) = dist(x) - 1, and by Hall's theorem the load of a step is the largest, over sets of generators, of the
// elements that come over no others, over the size of the set.
#pragma once
#include <algorithm>
#include <bit>

#include "arrays.hpp"
#include "random.hpp"
#include "stop.hpp"

namespace topoopt::graph {

// Z_m x| Z_k; powers[b] = r^b mod m.
struct SemidirectProduct {
    Index m, k;
    Ints powers;

    Index inverse(Index x) const {
        Index b = (k - x % k) % k;
        return (m - powers[b] * (x / k) % m) % m * k + b;
    }
};

class CayleySearch {
    struct Loads {
        Index steps, total, far;  // 0 steps where too many are needed, or not all elements are reached
    };

    Index most_steps, parts;
    std::uint64_t state;
    Random random{state};
    std::vector<std::int64_t> per_link;  // of each set of generators, parts / its size
    std::vector<std::int64_t> chosen, held, ahead, distance, masks, queue, inside;

  public:
    // By steps, of the set of least load, then of least sum of distances: load in 1 / parts of a shard per link.
    std::vector<std::int64_t> load, far;
    Matrix<std::int64_t> generators;

    CayleySearch(Index degree, Index most_steps, Index parts, std::uint64_t seed)
        : most_steps(most_steps), parts(parts), state(seed) {
        require(degree >= 1 && degree <= 16, "degree", "1 to 16 generators are needed");
        require(most_steps >= 0 && most_steps < (1 << 26 >> degree), "most_steps", "it is out of range");
        require(parts >= 1 && parts < (Index(1) << 31), "parts", "it is out of range");
        chosen.resize(degree);
        per_link.assign(Index(1) << degree, 0);
        for (std::size_t mask = 1; mask < per_link.size(); ++mask) per_link[mask] = parts / std::popcount(mask);
        load.assign(most_steps + 1, Index(1) << 60);
        far = load;
        generators = Matrix<std::int64_t>(most_steps + 1, degree);
    }
    CayleySearch(const CayleySearch &) = delete;

    // Climbs to small sums of distances by exchanging generators; begun anew after `patience` draws without gain.
    // Returns the least sum met, -1 where no set reached all elements; and the numbers of steps with a better set.
    std::pair<Index, std::vector<std::int64_t>> climb(Index m, Index k, Ints powers, bool paired, Index draws,
                                                      Index patience) {
        require(m >= 1 && k >= 1 && m < (1 << 20) && k < (1 << 20) && m * k >= 2 && m * k < (1 << 20), "m, k",
                "2 to 1048575 elements are needed");
        require_size(powers, k, "powers");
        require_within(powers, 0, m, "powers");
        SemidirectProduct group{m, k, powers};
        Index held_far = -1, held_load = 0, stale = 0, least = -1;
        std::vector<std::int64_t> better;
        for (Index draw = 0; draw < draws; ++draw) {
            look_at_stop();
            Index kept = 0;
            if (held_far >= 0) {  // one generator leaves, with its inverse
                Index out = held[random.below(Index(held.size()))], back = paired ? group.inverse(out) : out;
                for (Index each : held)
                    if (each != out && each != back) chosen[kept++] = each;
            }
            if (!fill(group, paired, kept)) {
                held_far = -1;
                continue;
            }
            auto [steps, total, away] = loads(group);
            ++stale;
            if (steps > 0) {
                if (total < load[steps] || (total == load[steps] && away < far[steps])) {
                    load[steps] = total;
                    far[steps] = away;
                    std::copy(chosen.begin(), chosen.end(), generators.row(steps).begin());
                    if (std::find(better.begin(), better.end(), steps) == better.end()) better.push_back(steps);
                }
                if (least < 0 || away < least) least = away;
                if (held_far < 0 || away < held_far || (away == held_far && total <= held_load)) {
                    if (held_far < 0 || away < held_far || total < held_load) stale = 0;
                    held_far = away;
                    held_load = total;
                    held = chosen;
                }
            }
            if (stale > patience) {
                held_far = -1;
                stale = 0;
            }
        }
        return {least, std::move(better)};
    }

  private:
    // Draws the generators from `filled` on: different, none the identity; paired: closed under inversion.
    bool fill(const SemidirectProduct &group, bool paired, Index filled) {
        Index d = Index(chosen.size());
        for (Index attempt = 0; attempt < 50 * d && filled < d; ++attempt) {
            Index x = 1 + random.below(group.m * group.k - 1), y = paired ? group.inverse(x) : x;
            auto end = chosen.begin() + filled;
            if (std::find(chosen.begin(), end, x) != end || std::find(chosen.begin(), end, y) != end) continue;
            if (x != y && filled + 2 > d) continue;
            chosen[filled++] = x;
            if (x != y) chosen[filled++] = y;
        }
        return filled == d;
    }

    Loads loads(const SemidirectProduct &group) {
        const Index m = group.m, k = group.k, n = m * k, d = Index(chosen.size()), sets = Index(1) << d;
        ahead.resize(k * d);  // from x = a k + b over a link to x + ahead, modulo n
        for (Index link = 0; link < d; ++link) {
            std::uint64_t turn = std::uint64_t(chosen[link] / k), size = std::uint64_t(m);
            for (Index b = 0, e = chosen[link] % k; b < k; ++b, e = e + 1 == k ? 0 : e + 1) {
                std::uint64_t moved = std::uint64_t(group.powers[b]) * turn;
                moved = moved >> 32 ? moved % size : std::uint32_t(moved) % std::uint32_t(size);  // the latter is quick
                ahead[b * d + link] = Index(moved) * k + e - b;
            }
        }
        distance.assign(n, -1);
        masks.assign(n, 0);
        queue.resize(n);
        distance[0] = queue[0] = 0;
        Index end = 1, far = 0;
        for (Index begin = 0; begin < end; ++begin) {
            Index x = queue[begin], step = distance[x] + 1, row = Index(std::uint32_t(x) % std::uint32_t(k)) * d;
            for (Index link = 0; link < d; ++link) {
                Index y = x + ahead[row + link];
                if (y >= n) y -= n;
                if (distance[y] < 0) {
                    if (step > most_steps) return {0, 0, 0};
                    distance[y] = step;
                    far += step;
                    queue[end++] = y;
                }
                if (distance[y] == step) masks[y] |= Index(1) << link;
            }
        }
        if (end < n) return {0, 0, 0};
        Index steps = distance[queue[n - 1]], total = 0;
        inside.assign((steps + 1) * sets, 0);
        for (Index x = 1; x < n; ++x) ++inside[distance[x] * sets + masks[x]];
        for (Index step = 1; step <= steps; ++step) {
            View<std::int64_t> own = View<std::int64_t>(inside).part(step * sets, (step + 1) * sets);
            for (Index bit = 1; bit < sets; bit *= 2)  // sums over subsets
                for (Index high = bit; high < sets; high += 2 * bit)
                    for (Index mask = high; mask < high + bit; ++mask) own[mask] += own[mask - bit];
            Index largest = 0;
            for (Index mask = 1; mask < sets; ++mask) largest = std::max(largest, own[mask] * per_link[mask]);
            total += largest;
        }
        return {steps, total, far};
    }
};

}  // namespace topoopt::graph
