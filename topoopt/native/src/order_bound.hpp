// A time that the order of the passes of a strategy does not go below, for many strategies a second.
//
// Each is the longest of some paths through the passes, where each waits for the one before. With F, I and W of a
// rank's passes of a micro-batch (both gradients together B, all three Q), c a hop, m micro-batches, v chunks, for
// rank r of p:
//
//     all        what passes the ranks before r, all work of r, what goes back through the ranks before it
//     1F1B       a micro-batch that goes from r to the end and comes back keeps r waiting, as r has w = p-1-r others
//                in between: F(i) to B(i) takes Q_r + D_r + 2cw, D_r the passes behind r; then F(i+w+1) follows. Such
//                paths and single steps of F_r + B_r one after the other, the last path at the end
//     interleaved   the first path to the end and back before the first backward pass of r, and the last one
//     ZB-H1      the same paths with I in place of B and W between; those W that r puts off come behind
//     ZB-2P      all forward passes and I, and W as far as the memory of 2p micro-batches lets none be put off
//     DualPipe   all work of r but for the last W that its order puts off, then the path back to the end of the ranks
//
// The weights of the first stage are gathered before, the gradients of the last layer reduced behind. A single stage
// has no other path: the bound is the time.
#pragma once
#include "stages.hpp"

namespace topoopt::pipeline {

enum Schedule { GPIPE, ONE_F_ONE_B, INTERLEAVED, ZB_H1, ZB_2P, DUALPIPE, DUALPIPE_V, SCHEDULES };

// Gradients of weights of so many times p micro-batches wait at most under ZB-2P (arXiv:2401.10241, table 2).
constexpr double PUT_OFF = 68.0 / 32.0;

class OrderBound {
    // Passes of the stages before one; what its reduction is exposed at least; how much later than behind all passes
    // and hops before it its first pass begins.
    struct Head {
        double forward, inputs, weights, exposed, late;
    };
    std::vector<Stage> t;
    std::vector<Head> to;
    Index p = 1, v = 1, m = 1, stages = 1;
    double c = 0.0, sent = 0.0;

    void fill_heads(bool gathers, bool hiding, bool split) {
        Head sum{};
        double start = 0.0;
        for (Index s = 0; s < stages; ++s) {
            const Stage &stage = t[s];
            double late = 0.0;
            sum.exposed = 0.0;
            if (gathers) {
                double back = stage[WEIGHTS] + (split ? 0.0 : stage[INPUTS]);
                sum.exposed = reduced_at(0.0, back, stage[REDUCED], stage[LAYERS], back, hiding) - back;
                late = late_weights(stage[GATHERED], stage[LAYERS], stage[FORWARD], 0.0, hiding);
            }
            start = std::max(start, late);
            sum.late = start - sum.forward - s * c;
            to[s] = sum;
            start += stage[FORWARD] + c;
            sum.forward += stage[FORWARD], sum.inputs += stage[INPUTS], sum.weights += stage[WEIGHTS];
        }
        to[stages] = sum;
    }
    double with_sends(double seconds, Index r) const {
        return seconds + (r < p - 1 ? sent : 0.0) + (r > 0 ? sent : 0.0);
    }
    double whole() const { return to[p].forward + to[p].inputs + to[p].weights + 2.0 * c * (p - 1); }
    double back(Index s) const { return to[s].inputs + to[s].weights; }

    double gpipe() const {
        double longest = 0.0, back = 0.0;
        for (Index r = 0; r < p; ++r) {
            longest = std::max(longest, t[r][FORWARD] + (r < p - 1 ? sent : 0.0));
            back = std::max(back, t[r][INPUTS] + t[r][WEIGHTS] + (r > 0 ? sent : 0.0));
        }
        return to[0].late + whole() + (m - 1) * (longest + back) + to[0].exposed;
    }
    double one_f_one_b() const {
        double bound = 0.0, all = whole();
        for (Index r = 0; r < p; ++r) {
            double forward = t[r][FORWARD], back = t[r][INPUTS] + t[r][WEIGHTS], own = with_sends(forward + back, r);
            Index w = std::min(p - 1 - r, m - 1);
            double value = all + (m - 1) * own - w * (std::min(forward, back) + sent);
            if (m - 1 >= p - r) {
                double behind = all - 2.0 * c * r - (to[r].forward + to[r].inputs + to[r].weights);
                double gain = behind - (p - r) * own;
                value = std::max(value, all + (m - 1) * own + gain * (gain > 0.0 ? (m - 1) / (p - r) : 1));
            }
            value += to[r].late;
            double before = to[r].inputs + to[r].weights + c * r;
            bound = std::max(std::max(bound, value + to[0].exposed), value - before + to[r].exposed);
        }
        return bound;
    }
    // The first forward passes of rank r, or its last backward passes: so many.
    double turns(Index r, Index count, bool ahead) const {
        double sum = 0.0;
        for (Index chunk = 0; chunk < v; ++chunk) {
            Index s = chunk * p + r;
            double own = ahead ? t[s][FORWARD] : t[s][INPUTS] + t[s][WEIGHTS];
            if (ahead ? s < stages - 1 : s > 0) own += sent;
            sum += (count / stages * p + std::min(std::max<Index>(count % stages - chunk * p, 0), p)) * own;
        }
        return sum;
    }
    double interleaved() const {
        double bound = 0.0;
        for (Index r = 0; r < p; ++r) {
            Index w = 2 * (p - r - 1) + (v - 1) * p, z = (v - 1) * p + r;
            double own = turns(r, m * v, true) + turns(r, m * v, false);
            own -= 2.0 * sent;  // the last pass that is sent each way may be the last one of the path
            double idle = 0.0;
            if (w + 1 <= m * v) {
                double hops = c * (2 * stages - 2 - r - z);
                double there = to[stages].forward - to[r].forward + back(stages) - back(z + 1) + hops;
                double here = to[stages].forward - to[z + 1].forward + back(stages) - back(r) + hops;
                double first = std::max(0.0, there - turns(r, w + 1, true));
                double last = std::max(0.0, here - turns(r, w + 1, false));
                idle = w + 2 <= m * v ? first + last : std::max(first, last);
            }
            double value = to[r].late + to[r].forward + c * r + own + idle;
            bound = std::max(std::max(bound, value + back(r) + c * r + to[0].exposed), value + to[r].exposed);
        }
        return bound;
    }
    double zb_h1() const {
        double bound = 0.0, all = to[p].forward + to[p].inputs + 2.0 * c * (p - 1);
        for (Index r = 0; r < p; ++r) {
            double both = t[r][FORWARD] + t[r][INPUTS], later = t[r][WEIGHTS], own = with_sends(both, r);
            double value = to[r].forward + c * r + m * (both + later) + (m - 1) * (own - both) + to[r].exposed;
            double waited = to[r].forward + to[r].inputs + 2.0 * c * r + both + (m - 1) * own +
                            std::max<Index>(0, m - 1 - r) * later;
            Index w = p - 1 - r;
            if (m - 1 >= w + 1) {
                double behind = all - 2.0 * c * r - to[r].forward - to[r].inputs;
                for (Index a : {Index(1), (m - 1) / (w + 1)}) {
                    double put_off = std::max<Index>(0, m - 1 - a * w - r) * later;
                    waited = std::max(waited, all + (m - 1 - a * (w + 1)) * own + a * behind + put_off);
                }
            }
            bound = std::max(bound, to[r].late + std::max(value, waited + t[0][WEIGHTS] + to[0].exposed));
        }
        return bound;
    }
    double zb_2p() const {
        double bound = 0.0;
        for (Index r = 0; r < p; ++r) {
            double both = t[r][FORWARD] + t[r][INPUTS], later = t[r][WEIGHTS], own = with_sends(both, r);
            double value = to[r].forward + c * r + both + (m - 1) * own;
            double waited = value + to[r].inputs + c * r + std::max<Index>(0, m - 1 - Index(PUT_OFF * p)) * later +
                            t[0][WEIGHTS] + to[0].exposed;
            bound = std::max(bound, to[r].late + std::max(value + m * later + to[r].exposed, waited));
        }
        return bound;
    }
    double both_ends(bool folded) const {
        Index ends = folded ? 2 * p : p;
        double bound = 0.0, exposed = std::min(to[0].exposed, to[ends - 1].exposed);
        for (Index r = 0; r < (folded ? p : p / 2); ++r) {
            const Stage &near = t[r], &far = t[ends - 1 - r];
            double later = std::max(near[WEIGHTS], far[WEIGHTS]);
            double work = near[FORWARD] + near[INPUTS] + near[WEIGHTS] + far[FORWARD] + far[INPUTS] + far[WEIGHTS];
            double value = to[0].late + to[r].forward + c * r + work * (folded ? double(m) : m / 2.0);
            double waited =
                value - (r + 1) * later + to[r].inputs + c * r + std::min(t[0][WEIGHTS], t[ends - 1][WEIGHTS]);
            bound =
                std::max(std::max(bound, value + std::min(to[r].exposed, to[ends - 1 - r].exposed)), waited + exposed);
        }
        return bound;
    }

  public:
    explicit OrderBound(Index most_stages) : t(most_stages), to(most_stages + 1) {}

    // shape: schedule, p, v, m and ZeRO of a strategy.
    double operator()(const StageParts &parts, Index strategy, Ints shape, double hop, bool hiding, bool blocking) {
        Index schedule = shape[0], zero = shape[4];
        p = shape[1], v = shape[2], m = shape[3], stages = p * v;
        parts.fill(strategy, View<Stage>(t).part(0, stages));
        c = p > 1 ? hop : 0.0, sent = blocking ? c : 0.0;
        fill_heads(zero < 3, hiding, schedule >= ZB_H1);
        double value = p == 1 ? to[0].late + m * (t[0][FORWARD] + t[0][INPUTS] + t[0][WEIGHTS]) + to[0].exposed
                       : schedule == GPIPE       ? gpipe()
                       : schedule == ONE_F_ONE_B ? one_f_one_b()
                       : schedule == INTERLEAVED ? interleaved()
                       : schedule == ZB_H1       ? zb_h1()
                       : schedule == ZB_2P       ? zb_2p()
                                                 : both_ends(schedule == DUALPIPE_V);
        auto at = [&](Index s, Span span) { return t[s][span]; };
        auto [step, shown] = rank_costs(at, p, v, m, zero >= 3, hiding, schedule >= DUALPIPE);
        return value + (step + shown);
    }
};

// Seconds, one value a strategy; shape: int64[R, 5], schedule, p, v, m and ZeRO.
inline std::vector<double> order_bounds(const StageParts &parts, Table<const std::int64_t> shape, Floats hop,
                                        bool hiding, bool blocking) {
    Index count = shape.rows;
    parts.check();
    require_shape(shape, parts.layers.rows, 5, "shape"), require_size(hop, count, "hop");
    OrderBound bound(parts.layers.columns);
    std::vector<double> bounds(count);
    StopWatch watch;
    for (Index i = 0; i < count; ++i) {
        auto own = shape.row(i);
        require(own[0] >= 0 && own[0] < SCHEDULES, "shape", "no such schedule");
        require_strategy(own[1], own[2], parts.layers.columns);
        require(own[0] != DUALPIPE_V || own[2] == 2, "shape", "the V shape has two chunks");
        require(own[3] >= 0 && own[3] < Index(1) << 31, "shape", "a number of micro-batches below 2^31 is needed");
        bounds[i] = bound(parts, i, own, hop[i], hiding, blocking);
        watch();
    }
    return bounds;
}

}  // namespace topoopt::pipeline
