// Named tuples of workloads, networks and task graphs, read and checked.
#pragma once
#include "border.hpp"
#include "model.hpp"

namespace topoopt {

constexpr Index MOST_SERVERS = Index(1) << 22;

template <class T> void require_from(View<T> items, Index low, const char *name) {
    for (auto item : items) require(Index(item) >= low, name, "a number is too small");
}
// Offsets of rows whose lengths are within low..high.
template <class T> void require_rows(View<T> offsets, Index items, Index low, Index high, const char *name) {
    require(offsets.size > 0, name, "offsets begin with 0");
    require_offsets(offsets, offsets.size - 1, items, name);
    for (Index i = 0; i + 1 < offsets.size; ++i) {
        Index length = offsets[i + 1] - offsets[i];
        require(low <= length && length <= high, name, "a row is too short or too long");
    }
}

inline Workload workload_of(nb::handle named) {
    Workload w;
    Fields(named).into(w.servers, w.samples, w.split_ptr, w.sample_ways, w.channel_ways, w.reduce_ways, w.forward_ms,
                       w.backward_ms, w.memory, w.edge_ptr, w.producer, w.fraction, w.channels, w.element_bytes,
                       w.mixes, w.weight_ptr, w.weight_bytes, w.local_ms, w.group_base, w.pinned);
    constexpr Index MANY = Index(1) << 40;
    Index operators = w.channels.size, splits = w.sample_ways.size, local = 0;
    require(0 < w.servers && w.servers < MOST_SERVERS && w.group_base.size == w.servers + 1, "group_base",
            "one item more than servers is needed");
    require(0 <= w.samples && w.samples < MANY, "samples", "out of range");
    require(w.split_ptr.size == operators + 1 && w.edge_ptr.size == operators + 1 && w.weight_ptr.size == operators + 1,
            "workload", "offsets of every operator are needed");
    require_rows(w.split_ptr, splits, 1, MANY, "split_ptr");
    require_rows(w.edge_ptr, w.producer.size, 0, MANY, "edge_ptr");
    require_rows(w.weight_ptr, w.weight_bytes.size, 0, MANY, "weight_ptr");
    for (auto ways : {w.channel_ways, w.reduce_ways, w.sample_ways}) {
        require_size(ways, splits, "ways of splits");
        require_within(ways, 1, w.servers + 1, "ways of splits");
    }
    for (auto column : {w.forward_ms, w.backward_ms, w.memory}) require_size(column, splits, "numbers of splits");
    require_size(w.fraction, w.producer.size, "fraction");
    for (auto column : {w.element_bytes, w.pinned}) require_size(column, operators, "numbers of operators");
    require_size(w.mixes, operators, "mixes");
    require_within(w.channels, 0, MANY, "channels");
    require_within(w.element_bytes, 0, MANY, "element_bytes");
    require_from(w.weight_bytes, 0, "weight_bytes");
    for (Index s = 0; s < splits; ++s) {
        Index cut = w.channel_ways[s] * w.reduce_ways[s];  // below 2^44
        require(cut <= w.servers && cut * w.sample_ways[s] <= w.servers, "ways of splits", "more parts than servers");
    }
    for (Index o = 0; o < operators; ++o) {
        for (Index e = w.edge_ptr[o]; e < w.edge_ptr[o + 1]; ++e) {
            Index u = w.producer[e];
            require(0 <= u && u < o, "producer", "operators read from earlier ones");
            double most = double(w.samples) * double(w.channels[u]) * double(w.element_bytes[u]);
            require(most < 4e18 && w.fraction[e] >= 0.0 && most * w.fraction[e] < 4e18, "fraction", "too many bytes");
        }
        for (Index s = w.split_ptr[o]; s < w.split_ptr[o + 1]; ++s)
            require(w.pinned[o] < w.stride(s), "pinned", "an offset is out of range");
        local += (w.weight_ptr[o + 1] - w.weight_ptr[o]) * w.splits(o);
    }
    require_size(w.local_ms, local, "local_ms");
    return w;
}

// A strategy: a split of every operator, and where its first part is.
inline void require_strategy(const Workload &w, Ints split, Ints offset) {
    require_size(split, w.channels.size, "split");
    require_size(offset, w.channels.size, "offset");
    for (Index o = 0; o < split.size; ++o) {
        require(0 <= split[o] && split[o] < w.splits(o), "split", "an index is out of range");
        require(0 <= offset[o] && offset[o] < w.stride(w.split_ptr[o] + split[o]), "offset", "out of range");
    }
}

inline Network network_of(nb::handle named) {
    Network w;
    Fields fields(named);
    fields.into(w.servers, w.hop_latency, w.round_latency, w.link_rate, w.pair_ptr, w.path_share, w.path_ptr,
                w.path_link, w.group_size, w.group_ptr, w.ring_share, w.ring_ptr, w.member_ptr, w.member_link);
    Schedules &s = w.schedules;
    Fields(fields.item())
        .into(s.group_ptr, s.from_bytes, s.below_bytes, s.step_ptr, s.hop_ptr, s.load_ptr, s.link, s.share);
    fields.into(w.cut, w.turns, w.ranked);
    constexpr Index MOST_HOPS = (1 << HOP_BITS) - 2, MOST_STEPS = (1 << STEP_BITS) - 1, ANY = Index(1) << 62;
    Index links = w.links(), groups = w.group_size.size;
    require(0 < w.servers && w.servers < MOST_SERVERS, "servers", "out of range");
    require(w.pair_ptr.size == w.servers * w.servers + 1, "pair_ptr", "wrong length");
    require_rows(w.pair_ptr, w.path_share.size, 0, ANY, "pair_ptr");
    require(w.path_ptr.size == w.path_share.size + 1, "path_ptr", "wrong length");
    require_rows(w.path_ptr, w.path_link.size, 1, MOST_HOPS, "path_ptr");
    require_within(w.path_link, 0, links, "path_link");
    require_within(w.group_size, 1, MOST_STEPS / 2 + 1, "group_size");
    require_offsets(w.group_ptr, groups, w.ring_share.size, "group_ptr");
    require(w.ring_ptr.size == w.ring_share.size + 1, "ring_ptr", "wrong length");
    require_rows(w.ring_ptr, w.member_ptr.size - 1, 0, ANY, "ring_ptr");
    require_rows(w.member_ptr, w.member_link.size, 0, MOST_HOPS, "member_ptr");
    require_within(w.member_link, 0, links, "member_link");
    require_offsets(s.group_ptr, groups, s.from_bytes.size, "schedules of groups");
    require_size(s.below_bytes, s.from_bytes.size, "below_bytes");
    require(s.step_ptr.size == s.from_bytes.size + 1, "step_ptr", "wrong length");
    require_rows(s.step_ptr, s.hop_ptr.size - 1, 1, MOST_STEPS, "step_ptr");
    require_rows(s.hop_ptr, s.load_ptr.size - 1, 0, MOST_HOPS, "hop_ptr");
    require_rows(s.load_ptr, s.link.size, 0, ANY, "load_ptr");
    require_within(s.link, 0, links, "link");
    require_size(s.share, s.link.size, "share");
    return w;
}

// Task graphs on `servers` servers with `groups` AllReduce groups.
inline GraphView graph_of(nb::handle named, Index servers, Index groups) {
    GraphView g;
    Fields(named).into(g.kind, g.source, g.target, g.group, g.duration, g.size, g.op, g.successor_ptr, g.successor);
    Index tasks = g.tasks();
    require(tasks < (Index(1) << 31), "kind", "too many tasks");
    for (auto column : {g.source, g.target, g.group, g.op}) require_size(column, tasks, "columns of tasks");
    require_size(g.duration, tasks, "duration");
    require_size(g.size, tasks, "size");
    require_from(g.size, 0, "size");
    require_within(g.kind, 0, 4, "kind");
    for (Index t = 0; t < tasks; ++t) {
        if (g.kind[t] == ALLREDUCE) {
            require(-1 <= g.group[t] && g.group[t] < groups, "group", "an index is out of range");
        } else {
            bool sends = g.kind[t] == TRANSFER;
            require(
                0 <= g.source[t] && g.source[t] < servers && (!sends || (0 <= g.target[t] && g.target[t] < servers)),
                "source, target", "a server is out of range");
        }
    }
    require_offsets(g.successor_ptr, tasks, g.successor.size, "successor_ptr");
    require_within(g.successor, 0, tasks, "successor");
    return g;
}
inline GraphView graph_of(nb::handle named, const Network &w) { return graph_of(named, w.servers, w.group_size.size); }

// Every AllReduce of a strategy has a group in the network.
inline void require_groups(const Workload &w, const Network &net) {
    require(w.servers == net.servers, "network", "of another number of servers");
    for (auto ways : w.sample_ways)
        if (ways > 1)
            require(w.group_base[ways] >= 0 && w.group_base[ways] <= net.group_size.size - w.servers / ways,
                    "group_base", "the network lacks groups");
}

}  // namespace topoopt
