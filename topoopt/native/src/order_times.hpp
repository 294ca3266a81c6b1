// What is exchanged around the passes of strategies whose orders are the same; tables: spans by stages, [7 S, R].
#pragma once
#include <cmath>

#include "stages.hpp"

namespace topoopt::pipeline {

struct StageTables {
    Table<const double> tables;
    Index stages;

    StageTables(Table<const double> tables, Index stages) : tables(tables), stages(stages) {
        require(stages >= 1 && tables.rows == SPANS * stages, "tables", "seven rows a stage are needed");
    }
    double operator()(Index s, Span span, Index strategy) const { return tables(span * stages + s, strategy); }
};

// Before when no pass of a stage starts, [S, R]; home: the rank of each stage.
inline Matrix<double> ready_times(Table<const double> tables, Ints home, bool hiding) {
    Index stages = home.size;
    StageTables t(tables, stages);
    require_within(home, 0, stages, "home");
    Matrix<double> ready(stages, tables.columns);
    std::vector<Index> first(stages, stages), next(stages);  // the stages of each rank, as a list
    for (Index s = stages - 1; s >= 0; --s) next[s] = first[home[s]], first[home[s]] = s;
    for (Index i = 0; i < tables.columns; ++i) {
        look_at_stop();
        for (Index s = 0; s < stages; ++s) {
            double before = 0.0;
            for (Index other = first[home[s]]; other < (hiding ? s : stages); other = next[other])
                if (other != s) before += t(other, GATHERED, i);
            ready(s, i) = late_weights(t(s, GATHERED, i), t(s, LAYERS, i), t(s, FORWARD, i), before, hiding);
        }
    }
    return ready;
}

// When the last rank has reduced its gradients, the stage that is through first before the others.
inline std::vector<double> reduced_times(Table<const double> tables, Table<const double> done, Ints home, bool split,
                                         bool hiding) {
    Index stages = home.size;
    StageTables t(tables, stages);
    require_shape(done, stages, tables.columns, "done");
    require_within(home, 0, stages, "home");
    std::vector<double> reduced(tables.columns), free(*std::max_element(home.begin(), home.end()) + 1);
    std::vector<std::pair<double, Index>> order(stages);
    for (Index i = 0; i < tables.columns; ++i) {
        look_at_stop();
        std::fill(free.begin(), free.end(), 0.0);
        for (Index s = 0; s < stages; ++s) {
            order[s] = {std::isnan(done(s, i)) ? INFINITY : done(s, i), s};
            if (!hiding) free[home[s]] = std::max(free[home[s]], done(s, i));
        }
        std::sort(order.begin(), order.end());
        for (auto [end, s] : order) {
            double back = t(s, WEIGHTS, i) + (split ? 0.0 : t(s, INPUTS, i)), &own = free[home[s]];
            own = reduced_at(own, done(s, i), t(s, REDUCED, i), t(s, LAYERS, i), back, hiding);
        }
        reduced[i] = *std::max_element(free.begin(), free.end());
    }
    return reduced;
}

// `rank_costs` of strategies: the steps of the optimizer, and what ZeRO 3 shows beside.
inline std::pair<std::vector<double>, std::vector<double>> rank_costs_of(Table<const double> tables, Index p, Index v,
                                                                         Index m, bool all_passes, bool hiding,
                                                                         bool paired) {
    require_strategy(p, v, tables.rows);
    StageTables t(tables, p * v);
    std::vector<double> step(tables.columns), shown(tables.columns);
    for (Index i = 0; i < tables.columns; ++i) {
        auto at = [&](Index s, Span span) { return t(s, span, i); };
        auto [own, exchanged] = rank_costs(at, p, v, m, all_passes, hiding, paired);
        step[i] = own, shown[i] = own + exchanged - own;
    }
    return {std::move(step), std::move(shown)};
}

}  // namespace topoopt::pipeline
