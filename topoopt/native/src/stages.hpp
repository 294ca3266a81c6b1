// Layers and seconds of the stages of a pipeline, for strategies with any numbers of layers.
#pragma once
#include <algorithm>
#include <array>
#include <limits>

#include "arrays.hpp"
#include "stop.hpp"

namespace topoopt::pipeline {

enum Span { FORWARD, INPUTS, WEIGHTS, REDUCED, GATHERED, STEP, COMPUTE, LAYERS = COMPUTE, SPANS };
// Where the spans of the parts that a stage is made of stand in a row, behind those of kinds of layers.
constexpr Index EMBEDDING = 0, HEAD = SPANS, CHUNK = 2 * SPANS, PARTS = 3 * SPANS;
// Seconds of the spans of a stage, and the number of its layers.
using Stage = std::array<double, SPANS>;

inline void require_strategy(Index p, Index v, Index most_stages) {
    constexpr Index most = Index(1) << 20;
    require(p >= 1 && v >= 1 && p <= most && v <= most && p * v <= most_stages, "shape", "more stages than columns");
}
// Numbers of layers whose sums cannot overflow.
inline void require_layers(Ints layers) {
    std::uint64_t bits = 0;
    for (auto count : layers) bits |= std::uint64_t(count) + (std::uint64_t(1) << 40);
    require(bits >> 41 == 0, "layers", "a number below 2^40 is needed");
}

// Layers of the stages of a rank. Where they differ, all ranks have the longer ones at the same turns: the last ones,
// but for the last rank not the one that the head stands behind.
inline void chunks_of_load(Index load, Index rank, Index p, Index v, View<std::int64_t> stages) {
    Index longer = (load % v + v) % v, base = (load - longer) / v, end = v - (rank == p - 1);
    for (Index chunk = 0; chunk < v; ++chunk) stages[chunk * p + rank] = base + (end - longer <= chunk && chunk < end);
}

// Layers of every stage of strategies, those between the first and the last rank as even as can be.
inline Matrix<std::int64_t> even_stages(Index layers, Ints p, Ints v, Ints first, Ints last) {
    Index most = 0;
    require_size(v, p.size, "v"), require_size(first, p.size, "first"), require_size(last, p.size, "last");
    require_layers({&layers, 1}), require_layers(first), require_layers(last);
    for (Index i = 0; i < p.size; ++i) {
        require_strategy(p[i], v[i], Index(1) << 20);
        most = std::max(most, p[i] * v[i]);
    }
    require(p.size * most < Index(1) << 28, "p", "too many stages");
    Matrix<std::int64_t> stages(p.size, most);
    for (Index i = 0; i < p.size; ++i) {
        Index between = layers - first[i] - last[i], inner = std::max<Index>(p[i] - 2, 1);
        Index longer = (between % inner + inner) % inner, base = (between - longer) / inner;
        for (Index rank = 0; rank < p[i]; ++rank) {
            Index load = rank == 0 ? first[i] : rank == p[i] - 1 ? last[i] : base + (rank - 1 < longer);
            chunks_of_load(p[i] == 1 ? layers : load, rank, p[i], v[i], stages.row(i));
        }
    }
    return stages;
}

// Layers of every rank.
inline Matrix<std::int64_t> loads_of_ranks(Ints p, Table<const std::int64_t> stages) {
    require_size(p, stages.rows, "p"), require_within(p, 1, Index(1) << 20, "p"), require_layers(stages.flat());
    Matrix<std::int64_t> loads(p.size, p.size > 0 ? *std::max_element(p.begin(), p.end()) : 1);
    for (Index i = 0; i < p.size; ++i)
        for (Index first = 0; first < stages.columns; first += p[i])
            for (Index rank = 0; rank < std::min(p[i], stages.columns - first); ++rank)
                loads(i, rank) += stages(i, first + rank);
    return loads;
}

// Layers are dealt one at a time, each to the rank that is through with it first among those that have memory for it.
inline Matrix<std::int64_t> balanced_stages(Table<const std::int64_t> shape, Table<const double> seconds,
                                            Table<const double> held, Table<const double> flight, double usable,
                                            Index layers, Index dense_layers, Table<const std::int64_t> stages) {
    require_shape(shape, stages.rows, 2, "shape"), require_shape(seconds, stages.rows, 5, "seconds");
    require_shape(held, stages.rows, 6, "held"), require_layers({&layers, 1}), require_layers({&dense_layers, 1});
    require(flight.rows == stages.rows, "flight", "wrong shape");
    constexpr double never = std::numeric_limits<double>::infinity();
    Matrix<std::int64_t> balanced(stages.rows, stages.columns);
    std::copy(stages.flat().begin(), stages.flat().end(), balanced.items.begin());
    std::vector<std::int64_t> loads(flight.columns);
    std::vector<double> took(flight.columns);
    StopWatch watch;
    for (Index i = 0; i < stages.rows; ++i) {
        Index p = shape(i, 0), v = shape(i, 1), left = layers;
        require_strategy(p, v, stages.columns);
        require(p <= flight.columns, "flight", "more ranks than columns");
        auto spent = seconds.row(i), bytes = held.row(i), batches = flight.row(i);
        // When a rank is through with so many layers of a micro-batch; never where memory does not hold them.
        auto through = [&](Index rank, Index load) {
            Index dense = rank == 0 ? std::min(dense_layers, load) : 0;
            double space = dense * bytes[0] + (load - dense) * bytes[1] + batches[rank] * load * bytes[2] + bytes[3];
            double time = dense * spent[0] + (load - dense) * spent[1] + v * spent[2];
            if (rank == 0) space += bytes[4], time += spent[3];
            if (rank == p - 1) space += bytes[5], time += spent[4];
            return space <= usable ? time : never;
        };
        bool fits = true;
        for (Index rank = 0; rank < p; ++rank) {
            loads[rank] = v - (rank == 0 || rank == p - 1);
            left -= loads[rank];
            took[rank] = through(rank, loads[rank] + 1);
            fits = fits && through(rank, loads[rank]) < never;
        }
        for (fits = fits && left >= 0; fits && left > 0; --left) {
            Index best = 0;
            for (Index rank = 1; rank < p; ++rank)
                if (took[rank] <= took[best]) best = rank;
            fits = took[best] < never;
            took[best] = through(best, ++loads[best] + 1);
            watch();
        }
        if (!fits) continue;
        for (Index rank = 0; rank < p; ++rank) chunks_of_load(loads[rank], rank, p, v, balanced.row(i));
    }
    return balanced;
}

// What the stages of strategies are made of, one row a strategy.
struct StageParts {
    Table<const double> seconds;   // of each part, its spans
    Table<const double> exchange;  // of a layer of each kind
    Bools hidden;
    Table<const std::int64_t> layers;         // of every stage
    Table<const std::int64_t> before;         // layers of each kind before every layer, and of all
    Index predicted_layers, predicting_kind;  // those that predict further tokens

    void check() const {
        require_shape(seconds, layers.rows, PARTS + SPANS * before.columns, "seconds");
        require_shape(exchange, layers.rows, before.columns, "exchange");
        require_size(hidden, layers.rows, "hidden"), require_layers({&predicted_layers, 1});
        require(before.rows >= 1, "before", "no row"), require_layers(before.flat());
        require(predicting_kind >= 0 && predicting_kind < before.columns, "predicting_kind", "no such kind");
        for (Index i = 0; i < layers.rows; ++i) {
            Index sum = 0;
            for (auto count : layers.row(i)) {
                require(count >= 0 && count < before.rows, "layers", "more than there are");
                sum += count;
            }
            require(sum < before.rows, "layers", "more than there are");
        }
    }
    // The stages of a strategy, as many as there are items.
    void fill(Index strategy, View<Stage> stages) const {
        auto own = layers.row(strategy).part(0, stages.size);
        auto part = seconds.row(strategy), passed = exchange.row(strategy);
        Index begin = 0, last = stages.size - 1, kinds = before.columns, ends = SPANS * kinds;
        for (Index s = 0; s <= last; ++s) {
            auto behind = before.row(begin + own[s]), ahead = before.row(begin);
            begin += own[s];
            auto count = [&](Index kind) {
                return behind[kind] - ahead[kind] + (s == last && kind == predicting_kind ? predicted_layers : 0);
            };
            auto add = [&](Stage &sum, Index from, Index to) {
                for (Index span = from; span < to; ++span) {
                    double total = 0.0;
                    for (Index kind = 0; kind < kinds; ++kind) total += double(count(kind)) * part[SPANS * kind + span];
                    sum[span] = total + part[ends + CHUNK + span];
                }
                for (Index span = from; s == 0 && span < to; ++span) sum[span] += part[ends + EMBEDDING + span];
                for (Index span = from; s == last && span < to; ++span) sum[span] += part[ends + HEAD + span];
            };
            Stage sum;
            add(sum, 0, COMPUTE);
            double waited = 0.0;
            for (Index kind = 0; kind < kinds; ++kind) waited += double(count(kind)) * passed[kind];
            if (hidden[strategy]) {
                add(sum, COMPUTE, SPANS);
                waited -= std::min(2.0 * waited, sum[COMPUTE]) / 2.0;
            }
            sum[LAYERS] = double(std::max<Index>(own[s] + (s == last ? predicted_layers : 0), 1));
            sum[FORWARD] += waited, sum[INPUTS] += waited;
            stages[s] = sum;
        }
    }
};

inline Matrix<double> stage_tables(const StageParts &parts) {
    parts.check();
    constexpr Index block = 8;  // strategies whose columns share lines of the cache
    Index stages = parts.layers.columns, count = parts.layers.rows;
    std::vector<Stage> t(block * stages);
    Matrix<double> tables(SPANS * stages, count);
    for (Index begin = 0; begin < count; begin += block) {
        Index end = std::min(begin + block, count);
        for (Index i = begin; i < end; ++i)
            parts.fill(i, View<Stage>(t).part((i - begin) * stages, (i - begin + 1) * stages));
        for (Index row = 0; row < SPANS * stages; ++row)
            for (Index i = begin; i < end; ++i) tables(row, i) = t[(i - begin) * stages + row % stages][row / stages];
    }
    return tables;
}

// Before when a stage cannot begin, its weights coming layer by layer behind those of stages before it.
inline double late_weights(double gathered, double layers, double forward, double before, bool hiding) {
    if (!hiding) return before + gathered;
    return before + std::max(gathered / layers, gathered - forward * (layers - 1.0) / layers);
}

// When the gradients of a stage are reduced, layer by layer, behind those before, as its last pass makes them.
inline double reduced_at(double free, double done, double reduced, double layers, double back, bool hiding) {
    if (!hiding) return std::max(free, done) + reduced;
    return std::max(free + reduced, std::max(done + reduced / layers, done - back * (layers - 1.0) / layers + reduced));
}

// The step of the optimizer on the fullest rank, and with ZeRO 3 what passes do not hide of gathering and reducing;
// `paired` ranks hold a stage of either half, of DualPipe two of them the same ones.
//
// Rounds of ZeRO 3 have a pass each to hide in: weights are gathered for the forward pass, and once more for the
// backward one, which also reduces gradients over the same interfaces (arXiv:2304.11277). Of the first layer that is
// gathered or the last one that is reduced nothing is hidden.
template <class SpanOf>  // of a stage
std::pair<double, double> rank_costs(SpanOf &&t, Index p, Index v, Index m, bool all_passes, bool hiding, bool paired) {
    double step = 0.0, shown = 0.0;
    double met = paired && v == 1 ? m / 2.0 : double(m);  // micro-batches of a stage on a rank
    Index stages = p * v;
    for (Index rank = 0; rank < (paired ? stages / 2 : p); ++rank) {
        double own = 0.0, reduced = 0.0, gathered = 0.0, forward = 0.0, back = 0.0, layers = 0.0;
        for (Index chunk = 0; chunk < (paired ? 2 : v); ++chunk) {
            Index s = paired && chunk == 1 ? stages - 1 - rank : chunk * p + rank;
            own += t(s, STEP);
            if (!all_passes) continue;
            reduced += met * t(s, REDUCED);
            gathered += met * t(s, GATHERED);
            forward += met * t(s, FORWARD);
            back += met * (t(s, INPUTS) + t(s, WEIGHTS));
            layers += t(s, LAYERS);
        }
        step = std::max(step, own);
        if (all_passes && hiding) {
            double ahead = gathered / 2.0, behind = gathered / 2.0 + reduced;
            gathered = std::max(ahead / (layers * met), ahead - (1.0 - 1.0 / layers) * forward);
            reduced = std::max(behind / (layers * met), behind - (1.0 - 1.0 / layers) * back);
        }
        shown = std::max(shown, reduced + gathered);
    }
    return {step, shown};
}

}  // namespace topoopt::pipeline
