// Routing over soft shortest paths: one pass gives a bound, a flow that conserves and the slope of both.
#pragma once
#include <bit>
#include <optional>
#include <tuple>

#include "router.hpp"

namespace topoopt::routing {

constexpr double cut = 18.0;  // lateness of a path, in units of the softness, from which on nothing takes it
constexpr Index lanes = 8;    // computed side by side; sums are taken lane by lane, too

// exp(-late) to a relative error below 1e-12, 0 from `cut` on; late >= -1e-9. Taken as exp(late / 32)^32: without a
// branch, and so several at once. The argument is within 0.29 of the middle, where Taylor's series needs few terms.
inline double share_of(double late) {
    constexpr double folds = 32, middle = cut / 2 / folds, at_middle = 0.7548396019890073;  // exp(-middle)
    double least = late > 0.0 ? late : 0.0;
    double x = middle - (least < cut ? least : cut) * (1 / folds);
    double ninth = 1.0 / 40320 + x * (1.0 / 362880 + x * (1.0 / 3628800));
    double fifth = 1.0 / 24 + x * (1.0 / 120 + x * (1.0 / 720 + x * (1.0 / 5040 + x * ninth)));
    double power = (1.0 + x * (1.0 + x * (1.0 / 2 + x * (1.0 / 6 + x * fifth)))) * at_middle;
    power *= power;
    power *= power;
    power *= power;
    power *= power;
    return late < cut ? power * power : 0.0;
}

// log(value) to an absolute error below 1e-12; value > 0.
inline double logarithm(double value) {
    constexpr double root = 1.4142135623730951, log_two = 0.6931471805599453;
    auto bits = std::bit_cast<std::int64_t>(value);
    auto exponent = double(std::int32_t((bits >> 52) - 1023));
    auto part = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000);
    double z = (part - root) / (part + root), w = z * z;  // 2 artanh z is log(part / sqrt 2), |z| < 0.172
    double ninth = 1.0 / 9 + w * (1.0 / 11 + w * (1.0 / 13 + w * (1.0 / 15)));
    double artanh = z * (1.0 + w * (1.0 / 3 + w * (1.0 / 5 + w * (1.0 / 7 + w * ninth))));
    return exponent * log_two + log_two / 2 + 2.0 * artanh;
}

inline void take_shares(Floats late, View<double> share) {
    Index i = 0;
    for (; i + lanes <= late.size; i += lanes) {
        double part[lanes];
        for (Index j = 0; j < lanes; ++j) part[j] = share_of(late[i + j]);
        for (Index j = 0; j < lanes; ++j) share[i + j] = part[j];
    }
    for (; i < late.size; ++i) share[i] = share_of(late[i]);
}

// sum amount log value where amounts are above 0.
inline double summed_logarithms(Floats amount, Floats value) {
    require_size(value, amount.size, "value");
    double total[lanes] = {};
    Index v = 0;
    for (; v + lanes <= amount.size; v += lanes)
        for (Index j = 0; j < lanes; ++j) {
            double term = amount[v + j] * logarithm(value[v + j]);
            total[j] += amount[v + j] > 0.0 ? term : 0.0;
        }
    for (; v < amount.size; ++v) total[0] += amount[v] > 0.0 ? amount[v] * logarithm(value[v]) : 0.0;
    return sum_of({total, lanes});
}

// Traffic of the sources start..stop-1, the demand times `scale / total`, over paths that lead away from the source all
// the way, by logit shares: (sum D d, sum D phi, float64[m] loads), and the flow of each source added to `flow`.
//
// With phi(v) = -softness log sum over arcs u->v, d(u) < d(v), of exp(-(phi(u) + length) / softness), the loads are the
// slope of sum D phi, and each server splits what it gets by these exponentials (Dial's logit loading, Transportation
// Research 5, 1971). Distances are exact, from the order of the last call.
inline std::tuple<double, double, std::vector<double>> soft_loads(Router &router, Floats length, double softness,
                                                                  double scale, double total, Index start, Index stop,
                                                                  std::optional<Table<double>> flow) {
    std::scoped_lock lock(router.busy);
    router.require_all_sources();
    router.require_lengths(length);
    auto &[arcs, demands] = *router.problem;
    Index n = arcs.n, m = arcs.m;
    require(0 <= start && start <= stop && stop <= n, "start", "sources are within 0..n");
    if (flow) require_shape(*flow, n, m, "flow");
    std::vector<double> distance(n), key(n), weight(n), need(n), demand(n);
    std::vector<double> late(m), share(m), length_in(m), load_in(m);
    std::vector<Index> tail_in(m), head_in(m);
    Ints into = arcs.into;
    for (Index i = 0; i < m; ++i) {
        length_in[i] = length[arcs.arc_in[i]];
        tail_in[i] = arcs.tail[arcs.arc_in[i]];
        head_in[i] = arcs.head[arcs.arc_in[i]];
    }
    double hard = 0.0, soft = 0.0, sharpness = 1.0 / softness;
    for (Index s = start; s < stop; ++s) {
        look_at_stop();
        double all = 0.0;
        for (Index v = 0; v < n; ++v) {
            demand[v] = scale * (demands(s, v) / total);
            all += demand[v];
        }
        if (all == 0.0) continue;
        auto order = router.orders.row(s);
        std::fill(distance.begin(), distance.end(), infinite);
        distance[s] = key[0] = 0.0;
        for (bool again = true; again;) {  // a second time only where an order was wrong
            for (Index k = 1; k < n; ++k) {
                Index v = order[k], j = k - 1;
                double reach = distance[v];
                for (Index i = into[v], end = into[v + 1]; i < end; ++i)
                    reach = std::min(reach, distance[tail_in[i]] + length_in[i]);
                distance[v] = reach;
                for (; key[j] > reach; --j) {
                    key[j + 1] = key[j];
                    order[j + 1] = order[j];
                }
                key[j + 1] = reach;
                order[j + 1] = v;
            }
            again = false;
            for (Index i = 0; i < m; ++i) {
                double near = distance[tail_in[i]], far = distance[head_in[i]], through = near + length_in[i];
                again |= through < far;
                late[i] = near < far ? (through - far) * sharpness : cut;
            }
        }
        take_shares(late, share);
        std::fill(weight.begin(), weight.end(), 0.0);
        weight[s] = 1.0;
        for (Index k = 1; k < n; ++k) {
            double sum = 0.0;
            for (Index i = into[order[k]], end = into[order[k] + 1]; i < end; ++i) sum += weight[tail_in[i]] * share[i];
            weight[order[k]] = sum;
        }
        for (Index v = 0; v < n; ++v) {
            need[v] = 0.0;
            if (!(demand[v] > 0.0)) continue;
            hard += demand[v] * distance[v];
            need[v] = demand[v] / weight[v];
        }
        soft += summed_logarithms(demand, weight);
        for (Index k = n - 1; k >= 0; --k) {
            double through = need[order[k]];
            for (Index i = into[order[k]], end = into[order[k] + 1]; i < end; ++i) {
                double part = through * share[i];
                need[tail_in[i]] += part;
                late[i] = part * weight[tail_in[i]];
            }
        }
        for (Index i = 0; i < m; ++i) load_in[i] += late[i];
        if (flow)
            for (Index i = 0; i < m; ++i) (*flow)(s, arcs.arc_in[i]) += late[i];
    }
    std::vector<double> load(m);
    for (Index i = 0; i < m; ++i) load[arcs.arc_in[i]] += load_in[i];
    return {hard, hard - softness * soft, std::move(load)};
}

}  // namespace topoopt::routing
