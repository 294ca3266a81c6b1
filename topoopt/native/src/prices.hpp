// Link lengths that prove a topology no better than a target: primal-dual hybrid gradient on the routing problem.
//
// Saddle point of min theta, max over lengths l >= 0 and potentials pi:
//
//     theta + sum_e l_e (sum_s f_es - theta) + sum_{s, v != s} pi_vs (D_sv - in_vs + out_vs),    f >= 0.
//
// Any l proves theta >= sum D dist_l / sum l, so lengths are tested as they come and the work ends once the target is
// proven; between neighbouring topologies flows, potentials and lengths are a warm start.
#pragma once
#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "arrays.hpp"
#include "exchanges.hpp"
#include "stop.hpp"

namespace topoopt::search {

// Loops over rows of numbers, each by itself: two or four at a time give the same bits as one. Elsewhere loops stay as
// they are written. The machine is asked once which of the two it can do.
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && !defined(TOPOOPT_CHECKED)
#define TOPOOPT_ROWS __attribute__((optimize("O3"), target_clones("avx2", "default"), noinline)) static
#else
#define TOPOOPT_ROWS static inline
#endif

// Least of two rows, the second a step further away; the rows are not the same.
TOPOOPT_ROWS void take_shorter(double *__restrict to, const double *__restrict from, double step, Index n) {
    for (Index j = 0; j < n; ++j) {
        double through = step + from[j];
        to[j] = through < to[j] ? through : to[j];
    }
}

// One step of the flow over a link, whose potentials at tail and head are given; what is ahead of it.
TOPOOPT_ROWS void step_flow(double *__restrict flow, double *__restrict sum, const double *__restrict tail,
                            const double *__restrict head, double *__restrict net_tail, double *__restrict net_head,
                            double *__restrict ahead, double charge, double tau, Index n) {
    for (Index s = 0; s < n; ++s) {
        double next = flow[s] - tau * (charge + tail[s] - head[s]);
        ahead[s] = next > 0.0 ? next : 0.0;
    }
    for (Index s = 0; s < n; ++s) {
        double old = flow[s], next = ahead[s];
        flow[s] = next;
        sum[s] += next;
        next = 2.0 * next - old;
        ahead[s] = next;
        net_head[s] -= next;
        net_tail[s] += next;
    }
}

TOPOOPT_ROWS void climb(double *__restrict potential, double *__restrict sum, const double *__restrict net,
                        double sigma, Index own, Index n) {
    for (Index s = 0; s < n; ++s) potential[s] += sigma * net[s];
    potential[own] = 0.0;
    for (Index s = 0; s < n; ++s) sum[s] += potential[s];
}

// Shortest paths for a length of every link (Floyd and Warshall).
inline void fill_distances(Table<const std::int64_t> out, View<const double> length, Table<double> distance) {
    constexpr double far = std::numeric_limits<double>::infinity();
    Index n = out.rows, d = out.columns;
    std::fill_n(distance.data, n * n, far);
    for (Index i = 0; i < n; ++i) {
        for (Index a = 0; a < d; ++a) distance(i, out(i, a)) = std::min(distance(i, out(i, a)), length[i * d + a]);
        distance(i, i) = 0.0;
    }
    for (Index k = 0; k < n; ++k)
        for (Index i = 0; i < n; ++i)
            if (i != k && distance(i, k) < far)
                take_shorter(distance.row(i).data, distance.row(k).data, distance(i, k), n);
}

class PriceSearch {
    static constexpr Index period = 40;
    Table<const std::int64_t> out;
    Table<const double> demand;
    Table<double> flow, potential;
    View<double> length;
    Index n, d, m;
    Matrix<double> distance, mean_flow, mean_potential, net, ahead;
    std::vector<double> mean_length, load, trial;

    double proved(View<const double> lengths) {
        fill_distances(out, lengths, distance);
        double total = 0.0, size = 0.0;
        for (Index at = 0; at < n * n; ++at)
            if (demand.data[at] > 0.0) total += demand.data[at] * distance.items[at];
        for (double each : lengths) size += each;
        return size > 0.0 ? total / size : 0.0;
    }

  public:
    PriceSearch(Table<const std::int64_t> out, Table<const double> demand, Table<double> flow, Table<double> potential,
                View<double> length)
        : out(out),
          demand(demand),
          flow(flow),
          potential(potential),
          length(length),
          n(out.rows),
          d(out.columns),
          m(n * d),
          distance(n, n),
          mean_flow(m, n),
          mean_potential(n, n),
          net(n, n),
          ahead(d, n),
          mean_length(m),
          load(m),
          trial(m) {}

    std::tuple<double, double, Index, std::vector<double>> run(double target, Index sweeps, double weight) {
        double best = proved(length), theta = 1.0, mean_theta = 0.0, estimate = std::numeric_limits<double>::infinity();
        std::vector<double> best_length(length.begin(), length.end());
        if (best >= target) return {best, estimate, 0, best_length};
        double tau = 1.0 / (3.0 * weight), tau_theta = 1.0 / (double(m) * weight);
        double sigma = weight / (2.0 * double(d)), sigma_length = weight / (double(n) + 1.0);
        Index averaged = 0, used = 0;
        while (used < sweeps) {
            look_at_stop();
            double size = 0.0;
            for (double each : length) size += each;
            double next = theta - tau_theta * (1.0 - size), ahead_theta = 2.0 * next - theta;
            theta = next;
            for (Index v = 0; v < n; ++v)
                for (Index s = 0; s < n; ++s) net(v, s) = demand(s, v);
            for (Index u = 0; u < n; ++u) advance(u, tau);
            for (Index v = 0; v < n; ++v)
                climb(potential.row(v).data, mean_potential.row(v).data, net.row(v).data, sigma, v, n);
            for (Index e = 0; e < m; ++e) {
                length[e] = std::max(0.0, length[e] + sigma_length * (load[e] - ahead_theta));
                mean_length[e] += length[e];
            }
            mean_theta += theta;
            ++averaged;
            if (++used % period) continue;
            double now = proved(length);
            if (now > best) best = now, best_length.assign(length.begin(), length.end());
            for (Index e = 0; e < m; ++e) trial[e] = mean_length[e] / double(averaged);
            double average = proved(trial);
            if (average > best) best = average, best_length = trial;
            if (best >= target) break;
            estimate = mean_theta / double(averaged);
            if (averaged < 4 * period) continue;
            if (average > now) {  // go on from the means
                std::copy(trial.begin(), trial.end(), length.begin());
                for (Index at = 0; at < m * n; ++at) flow.data[at] = mean_flow.items[at] / double(averaged);
                for (Index at = 0; at < n * n; ++at) potential.data[at] = mean_potential.items[at] / double(averaged);
                theta = mean_theta / double(averaged);
            }
            for (auto *mean : {&mean_flow.items, &mean_potential.items, &mean_length})
                std::fill(mean->begin(), mean->end(), 0.0);
            mean_theta = 0.0;
            averaged = 0;
        }
        return {best, estimate, used, best_length};
    }

  private:
    void advance(Index u, double tau) {  // the links out of a server
        double *own = potential.row(u).data, *sent = net.row(u).data;
        for (Index a = 0; a < d; ++a) {
            Index e = u * d + a, v = out(u, a);
            double *over = flow.row(e).data, *sum = mean_flow.row(e).data, *further = ahead.row(a).data;
            if (u != v) {
                step_flow(over, sum, own, potential.row(v).data, sent, net.row(v).data, further, length[e], tau, n);
                continue;
            }
            for (Index s = 0; s < n; ++s) {  // a dark port
                double next = std::max(0.0, over[s] - tau * (length[e] + own[s] - own[s]));
                further[s] = 2.0 * next - over[s];
                over[s] = next;
                sum[s] += next;
                sent[s] -= further[s];
                sent[s] += further[s];
            }
        }
        for (Index a = 0; a < d; a += 4) add_rows(a, load.data() + u * d);
    }
    void add_rows(Index first, double *totals) const {  // four side by side, each in the order of its row
        const double *rows[4];
        for (Index each = 0; each < 4; ++each) rows[each] = ahead.items.data() + std::min(first + each, d - 1) * n;
        double one = 0.0, two = 0.0, three = 0.0, four = 0.0;
        for (Index s = 0; s < n; ++s) {
            one += rows[0][s];
            two += rows[1][s];
            three += rows[2][s];
            four += rows[3][s];
        }
        const double found[4] = {one, two, three, four};
        std::copy_n(found, std::min(Index(4), d - first), totals + first);
    }
};

inline void require_lengths(Table<const std::int64_t> out, View<const double> length) {
    require(out.rows > 0 && out.rows < (Index(1) << 15) && out.columns > 0, "out", "servers and ports are needed");
    require_within(out.flat(), 0, out.rows, "out");
    require_size(length, out.rows * out.columns, "length");
}

inline Matrix<double> link_distances(Table<const std::int64_t> out, View<const double> length) {
    require_lengths(out, length);
    Matrix<double> distance(out.rows, out.rows);
    fill_distances(out, length, distance);
    return distance;
}

inline std::tuple<double, double, Index, std::vector<double>> price_links(Table<const std::int64_t> out,
                                                                          Table<const double> demand, double target,
                                                                          Index sweeps, double weight,
                                                                          Table<double> flow, Table<double> potential,
                                                                          View<double> length) {
    require_lengths(out, length);
    require_shape(demand, out.rows, out.rows, "demand");
    require_shape(flow, out.rows * out.columns, out.rows, "flow");
    require_shape(potential, out.rows, out.rows, "potential");
    return PriceSearch(out, demand, flow, potential, length).run(target, sweeps, weight);
}

}  // namespace topoopt::search
