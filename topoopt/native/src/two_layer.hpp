// Multipliers of the two-layer bound. The program, over y (link), z (exactly two hops) and p_ikj (both links of
// i -> k -> j), i, k, j distinct:
//
//     maximise sum D (2 y + z)
//     (1) (2) row and column sums of y <= d      (3) y_ij + z_ij <= 1       (4) z_ij <= sum_k p_ikj
//     (5) sum_j p_ikj <= d y_ik                  (6) sum_i p_ikj <= d y_kj  (7) p_ikj <= y_ik   (8) p_ikj <= y_kj
//
// by the primal-dual hybrid gradient method (Chambolle and Pock, J. Math. Imaging Vis. 40, 2011), diagonally
// preconditioned; each iteration is one pass over the n^3 arrays.
#pragma once
#include <algorithm>
#include <cmath>

#include "arrays.hpp"
#include "stop.hpp"

// Twice as fast where the processor has wider registers, with the same bytes: every lane of a sum is added up by
// itself, and nothing is fused.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && !defined(TOPOOPT_CHECKED)
#define TOPOOPT_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define TOPOOPT_WIDE
#endif

#pragma GCC diagnostic ignored "-Wpsabi"  // all functions that take or return lanes are inlined

namespace topoopt::flows {

class TwoLayerSearch {
    static constexpr Index LANES = 8;
    using Lanes = float __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

    struct Single : Matrix<float> {  // rows of whole lanes
        using Matrix<float>::Matrix;
        Lanes &at(Index row, Index column) { return *reinterpret_cast<Lanes *>(&(*this)(row, column)); }
    };
    Index n, width;  // rows have `width` items, which stay zero from the n-th on
    float d, step_y, s1, s4, s5;
    // Of pairs: demand, y, z, multipliers of (3) to (6), sums of those of (7) over j and of (8) over i, extrapolated
    // values, sums of extrapolated p; `distinct` is 1 where i != j and 0 elsewhere.
    Single c, y, z, l3, l4, l5, l6, sum7, sum8, ahead_y, ahead_z, by_ij, by_ik, by_kj, distinct;
    Single p, l7, l8;  // of triples, a row for each i and k
    Single l2, into;   // of servers
    std::vector<float> l1;

    [[gnu::always_inline]] static Lanes positive(Lanes x) { return x > 0.0f ? x : Lanes{}; }
    [[gnu::always_inline]] static float sum(Lanes x) {
        float total = x[0];
        for (Index lane = 1; lane < LANES; ++lane) total += x[lane];
        return total;
    }
    TOPOOPT_WIDE void step_links() {
        for (Index i = 0; i < n; ++i)
            for (Index j = 0; j < width; j += LANES) {
                Lanes slope = l1[i] + l2.at(0, j) + l3.at(i, j) - 2.0f * c.at(i, j) - d * (l5.at(i, j) + l6.at(i, j));
                slope -= sum7.at(i, j) + sum8.at(i, j);
                Lanes next = positive(y.at(i, j) - step_y * slope);
                next = (next < 1.0f ? next : Lanes{} + 1.0f) * distinct.at(i, j);
                ahead_y.at(i, j) = 2.0f * next - y.at(i, j);
                y.at(i, j) = next;
                next = positive(z.at(i, j) + 0.5f * (c.at(i, j) - l3.at(i, j) - l4.at(i, j)));
                next = (next < 1.0f ? next : Lanes{} + 1.0f) * distinct.at(i, j);
                ahead_z.at(i, j) = 2.0f * next - z.at(i, j);
                z.at(i, j) = next;
            }
    }
    TOPOOPT_WIDE void step_relays() {
        const Index blocks = width / LANES;
        for (auto *sums : {&by_ij, &by_kj, &sum8}) std::fill(sums->items.begin(), sums->items.end(), 0.0f);
        for (Index i = 0; i < n; ++i)
            for (Index k = 0; k < n; ++k) {
                if (i == k) continue;
                float fixed = l5(i, k), first = 0.5f * ahead_y(i, k);
                Index row = i * n + k;
                // Pointers of its own: what is written through one of them could be any other member.
                Lanes *p_ik = &p.at(row, 0), *l7_ik = &l7.at(row, 0), *l8_ik = &l8.at(row, 0), *sum8_k = &sum8.at(k, 0);
                Lanes *by_i = &by_ij.at(i, 0), *by_k = &by_kj.at(k, 0), *l4_i = &l4.at(i, 0), *l6_k = &l6.at(k, 0);
                Lanes *y_k = &ahead_y.at(k, 0), *distinct_i = &distinct.at(i, 0), *distinct_k = &distinct.at(k, 0);
                Lanes total{}, total7{};
                for (Index j = 0; j < blocks; ++j) {
                    Lanes old = p_ik[j], seven = l7_ik[j], eight = l8_ik[j], others = distinct_i[j] * distinct_k[j];
                    Lanes next = positive(old - 0.2f * (fixed + l6_k[j] + seven + eight - l4_i[j])) * others;
                    Lanes ahead = 2.0f * next - old;
                    seven = positive(seven + 0.5f * ahead - first) * others;
                    eight = positive(eight + 0.5f * ahead - 0.5f * y_k[j]) * others;
                    p_ik[j] = next, l7_ik[j] = seven, l8_ik[j] = eight;
                    by_i[j] += ahead, by_k[j] += ahead, sum8_k[j] += eight;
                    total += ahead, total7 += seven;
                }
                by_ik(i, k) = sum(total), sum7(i, k) = sum(total7);
            }
    }
    TOPOOPT_WIDE void step_pairs() {
        std::fill(into.items.begin(), into.items.end(), 0.0f);
        for (Index i = 0; i < n; ++i) {
            Lanes out{};
            for (Index j = 0; j < width; j += LANES) {
                Lanes y = ahead_y.at(i, j), z = ahead_z.at(i, j), free = distinct.at(i, j);
                out += y, into.at(0, j) += y;
                l3.at(i, j) = positive(l3.at(i, j) + 0.5f * (y + z - 1.0f)) * free;
                l4.at(i, j) = positive(l4.at(i, j) + s4 * (z - by_ij.at(i, j))) * free;
                l5.at(i, j) = positive(l5.at(i, j) + s5 * (by_ik.at(i, j) - d * y)) * free;
                l6.at(i, j) = positive(l6.at(i, j) + s5 * (by_kj.at(i, j) - d * y)) * free;
            }
            l1[i] = std::max(0.0f, l1[i] + s1 * (sum(out) - d));
        }
        for (Index j = 0; j < n; ++j) l2(0, j) = std::max(0.0f, l2(0, j) + s1 * (into(0, j) - d));
    }

  public:
    struct Multipliers {
        Matrix<float> weight, first_link, ends;  // w; u, a row for each i and k; those of (1) and (2)
    };

    TwoLayerSearch(Index degree, Table<const float> demand) : n(demand.rows), d(float(degree)) {
        require(n == demand.columns && 2 <= n && n <= 512, "demand", "a square matrix of 2 to 512 servers is needed");
        require(1 <= degree && degree < (Index(1) << 30), "degree", "out of range");
        width = (n + LANES - 1) / LANES * LANES;
        Index others = std::max<Index>(n - 2, 1);
        step_y = float(1.0 / double(3 + 2 * degree + 2 * others)), s1 = float(1.0 / double(n - 1));
        s4 = float(1.0 / double(1 + others)), s5 = float(1.0 / double(others + degree));
        for (auto *pair :
             {&c, &y, &z, &l3, &l4, &l5, &l6, &sum7, &sum8, &ahead_y, &ahead_z, &by_ij, &by_ik, &by_kj, &distinct})
            *pair = Single(n, width);
        for (auto *triple : {&p, &l7, &l8}) *triple = Single(n * n, width);
        l2 = into = Single(1, width);
        l1.resize(n);
        for (Index i = 0; i < n; ++i)
            for (Index j = 0; j < n; ++j) c(i, j) = demand(i, j), distinct(i, j) = i == j ? 0.0f : 1.0f;
    }
    void run(Index iterations) {
        for (Index i = 0; i < iterations; ++i) {
            look_at_stop();
            step_links();
            step_relays();
            step_pairs();
        }
    }
    // In units of the demand.
    Multipliers multipliers() const {
        Multipliers now{{n, n}, {n * n, n}, {2, n}};
        for (Index i = 0; i < n; ++i) {
            now.ends(0, i) = l1[i], now.ends(1, i) = l2(0, i);
            for (Index j = 0; j < n; ++j) now.weight(i, j) = i == j ? 0.0f : std::min(l4(i, j), c(i, j));
            for (Index k = 0; k < n; ++k)
                for (Index j = 0; j < n; ++j)
                    now.first_link(i * n + k, j) = std::min(l7(i * n + k, j) + l5(i, k), now.weight(i, j));
        }
        return now;
    }
};

}  // namespace topoopt::flows
