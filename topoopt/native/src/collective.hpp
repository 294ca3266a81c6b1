// Collectives: loads of All-to-All along shortest paths, and times of schedules without barriers.
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

// Slots of the nodes that get a block, a few rows of each block: as many as there are nodes, or a table with room for
// twice its messages.
class BlockSlots {
    std::vector<Index> first;
    std::vector<std::int32_t> node;

  public:
    BlockSlots(Int32s block, Index blocks, Index nodes) : first(blocks + 1) {
        for (std::int32_t own : block) ++first[own + 1];
        for (Index b = 0; b < blocks; ++b) first[b + 1] = first[b] + std::min(nodes, 2 * first[b + 1] + 1);
        node.assign(first[blocks], -1);
    }
    Index size() const { return Index(node.size()); }
    Index of(Index block, Index v) {
        Index slots = first[block + 1] - first[block], at = v % slots;
        while (node[first[block] + at] >= 0 && node[first[block] + at] != v) at = (at + 1) % slots;
        return first[block] + at;
    }
    Index taken(Index block, Index v) {
        Index slot = of(block, v);
        node[slot] = std::int32_t(v);
        return slot;
    }
};

// Time of sends in their order, without barriers. A sum waits for all that its sender adds, a copy for what its sender
// gets.
inline double makespan(Int32s block, Int32s tail, Int32s head, Bools reduce, Ints units, Int32s owner, Ints start,
                       Ints arcs, Ints once, Floats us_per_unit, Floats slow, Index nodes) {
    Index sends = block.size, links = us_per_unit.size;
    require(nodes >= 1 && nodes < (1 << 20), "nodes", "a number of nodes from 1 to 1048575 is needed");
    require(links > 0, "us_per_unit", "a link is needed");
    for (Int32s own : {tail, head}) require_size(own, sends, "tail, head");
    for (Int32s own : {tail, head}) require_within(own, 0, nodes, "tail, head");
    require_size(reduce, sends, "reduce");
    require_size(slow, sends, "slow");
    require_within(block, 0, units.size, "block");
    require_size(owner, units.size, "owner");
    require_offsets(start, sends, arcs.size, "start");
    require_within(arcs, 0, links, "arcs");
    require_size(once, arcs.size, "once");
    require_within(once, 0, arcs.size, "once");
    std::vector<double> free(links);
    std::vector<double> left(arcs.size), done(arcs.size);  // when the bytes of an entry begin and end to pass its link
    BlockSlots slots(block, units.size, nodes);
    std::vector<double> summed(slots.size());                                           // all added there has come
    std::vector<double> copied(slots.size(), std::numeric_limits<double>::infinity());  // the first copy has come
    double latest = 0.0;
    StopWatch watch;
    for (Index k = 0; k < sends; ++k) {
        watch();
        bool own = reduce[k] || tail[k] == owner[block[k]];
        double leave = (own ? summed : copied)[slots.of(block[k], tail[k])], end = leave;
        for (Index entry = start[k]; entry < start[k + 1]; ++entry) {
            if (once[entry] == entry) {
                Index arc = arcs[entry];
                left[entry] = std::max(leave, free[arc]);  // switches pass on while they receive
                done[entry] = free[arc] = left[entry] + double(units[block[k]]) * us_per_unit[arc];
            }
            leave = left[once[entry]];
            end = std::max(end, done[once[entry]]);
        }
        double arrival = end + slow[k];
        double &there = (reduce[k] ? summed : copied)[slots.taken(block[k], head[k])];
        there = reduce[k] ? std::max(there, arrival) : std::min(there, arrival);
        latest = std::max(latest, arrival);
    }
    return latest;
}

}  // namespace topoopt::graph
