// Collectives: loads of All-to-All along shortest paths, and times of schedules.
#pragma once
#include <algorithm>
#include <limits>
#include <tuple>

#include "arrays.hpp"
#include "stop.hpp"

namespace topoopt::graph {

// What one unit of traffic to every other server loads links with; predecessors share by the links' weights.
inline std::vector<double> shortest_path_loads(Table<const std::int32_t> distance, Table<const std::int64_t> order,
                                               Ints first, Ints tails, Ints label, Floats weight) {
    Index n = distance.columns;
    require_shape(order, distance.rows, n, "order");
    require_within(order.flat(), 0, n, "order");
    require_offsets(first, n, tails.size, "first");
    require_within(tails, 0, n, "tails");
    require_size(label, tails.size, "label");
    require_within(label, 0, weight.size, "label");
    std::vector<double> load(weight.size), due(n);
    for (Index row = 0; row < distance.rows; ++row) {
        look_at_stop();
        Int32s hops = distance.row(row);
        std::fill(due.begin(), due.end(), 1.0);
        for (Index k = n - 1; k > 0; --k) {
            Index v = order(row, k), before = Index(hops[v]) - 1;
            double total = 0.0;
            for (Index link = first[v]; link < first[v + 1]; ++link)
                if (hops[tails[link]] == before) total += weight[label[link]];
            for (Index link = first[v]; link < first[v + 1]; ++link) {
                if (hops[tails[link]] != before) continue;
                double part = due[v] * weight[label[link]] / total;
                load[label[link]] += part;
                due[tails[link]] += part;
            }
        }
    }
    return load;
}

// Times of sends sorted by step: all steps one after the other, without barriers, of the link that carries most. A sum
// waits for all that its sender adds, a copy for what its sender gets.
inline std::tuple<double, double, double> schedule_times(Int32s block, Int32s tail, Int32s head, Int32s step,
                                                         Bools reduce, Ints units, Int32s owner, Ints start, Ints arcs,
                                                         Ints once, Floats us_per_unit, Floats slow, Index nodes) {
    Index sends = block.size, links = us_per_unit.size;
    require(nodes >= 1 && nodes < (1 << 20), "nodes", "a number of nodes from 1 to 1048575 is needed");
    require(links > 0, "us_per_unit", "a link is needed");
    for (Int32s own : {tail, head, step}) require_size(own, sends, "tail, head, step");
    for (Int32s own : {tail, head}) require_within(own, 0, nodes, "tail, head");
    require_size(reduce, sends, "reduce");
    require_size(slow, sends, "slow");
    require_within(block, 0, units.size, "block");
    require_size(owner, units.size, "owner");
    require_offsets(start, sends, arcs.size, "start");
    require_within(arcs, 0, links, "arcs");
    require_size(once, arcs.size, "once");
    require_within(once, 0, arcs.size, "once");
    std::vector<double> load(links), whole(links), free(links);
    std::vector<double> left(arcs.size), done(arcs.size);  // when the bytes of an entry begin and end to pass its link
    Matrix<double> summed(units.size, nodes);              // all that was added there has come
    Matrix<double> copied(units.size, nodes, std::numeric_limits<double>::infinity());  // the first copy has come
    double total = 0.0, latest = 0.0, latency = 0.0, fullest = 0.0;
    StopWatch watch;
    for (Index k = 0; k < sends; ++k) {
        watch();
        if (k > 0 && step[k] != step[k - 1]) {
            total += latency + fullest;
            latency = fullest = 0.0;
            std::fill(load.begin(), load.end(), 0.0);
        }
        latency = std::max(latency, slow[k]);
        bool own = reduce[k] || tail[k] == owner[block[k]];
        double leave = own ? summed(block[k], tail[k]) : copied(block[k], tail[k]), end = leave;
        for (Index entry = start[k]; entry < start[k + 1]; ++entry) {
            if (once[entry] == entry) {
                Index arc = arcs[entry];
                double lasts = double(units[block[k]]) * us_per_unit[arc];
                load[arc] += lasts;
                whole[arc] += lasts;
                fullest = std::max(fullest, load[arc]);
                left[entry] = std::max(leave, free[arc]);  // switches pass on while they receive
                done[entry] = free[arc] = left[entry] + lasts;
            }
            leave = left[once[entry]];
            end = std::max(end, done[once[entry]]);
        }
        double arrival = end + slow[k];
        double &there = (reduce[k] ? summed : copied)(block[k], head[k]);
        there = reduce[k] ? std::max(there, arrival) : std::min(there, arrival);
        latest = std::max(latest, arrival);
    }
    if (sends > 0) total += latency + fullest;
    return {total, latest, *std::max_element(whole.begin(), whole.end())};
}

}  // namespace topoopt::graph
