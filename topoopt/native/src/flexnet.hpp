// Time model `flexnet`: a segment books every link of its path when it leaves the sender. The rules stand in
// topoopt/simulate/time_models/models.py.
#pragma once
#include <cmath>

#include "loop.hpp"
#include "model.hpp"

namespace topoopt::flows {

class FlexnetModel {
    static constexpr double NEVER = std::numeric_limits<double>::infinity(), SEGMENT_BYTES = 1024.0 * 1024;

    struct Flow {           // a chain of segments over one path
        double left;        // bytes not sent
        std::int64_t path;  // of a transfer its path, of a ring member its index in member_ptr
        std::int32_t task;
    };

    GraphView graph;
    Network network;
    Int8s directions;
    Int32s opposite;
    EventQueue q;
    std::vector<Flow> flows;  // flow t < T belongs to transfer t, later ones to ring members, in the order they begin
    std::vector<std::int64_t> under_way;
    std::vector<double> free;  // end of what a link is booked for
    Index serial = 0;

    // Task `index` is ready, or flow `index` - T may send its next segment.
    void event(double at, Index index) { q.add(at, (++serial << DETAIL_BITS) | index); }
    auto announce() {
        return [this](double at, Index t) { event(at, t); };
    }
    bool done(Index t, double at) {
        tasks.release(graph.successor_ptr, graph.successor, t, at, announce());
        return tasks.all_jobs_done(t, at, false, announce());
    }
    // Whole bytes each member sends on a ring with this share of the AllReduce. Shares that are 1/r are applied as a
    // division by r, as the reference does, which may round otherwise.
    static double member_bytes(double payload, double members, double share) {
        double wire = 2.0 * (members - 1.0) * payload / members, rings = std::floor(1.0 / share + 0.5);
        return std::ceil(share == 1.0 / rings ? wire / rings : wire * share);
    }
    void start_rings(Index t, double begin) {
        const Network &w = network;
        Index group = graph.group[t], k = w.group_size[group];
        for (Index member = 0; member < k; ++member) {
            Index path = directions[t] >= 0 ? member : member > 0 ? member - 1 : k - 1;
            for (Index ring = w.group_ptr[group]; ring < w.group_ptr[group + 1]; ++ring) {
                event(begin, graph.tasks() + Index(flows.size()));
                flows.push_back({member_bytes(double(graph.size[t]), double(k), w.ring_share[ring]),
                                 w.ring_ptr[ring] + path, std::int32_t(t)});
                ++under_way[t];
            }
        }
    }
    bool start(Index t, double now) {
        if (graph.kind[t] < TRANSFER) return done(t, tasks.compute(t, graph.source[t], graph.duration[t], now));
        tasks.start[t] = now;
        if (graph.kind[t] == ALLREDUCE) {
            double begin = now + graph.duration[t];
            if (graph.group[t] < 0) return done(t, begin);
            start_rings(t, begin);
        } else {
            if (graph.source[t] == graph.target[t]) return done(t, now);
            under_way[t] = 1;
            flows[t] = {double(graph.size[t]), network.pair_ptr[graph.pair(network, t)], std::int32_t(t)};
            event(now, graph.tasks() + t);
        }
        return false;
    }
    bool send_segment(Index f, double now) {  // books all links of the path for it
        const Network &w = network;
        Flow &flow = flows[f];
        Index t = flow.task, path = flow.path;
        bool ring = f >= graph.tasks(), back = ring && directions[t] < 0;
        Ints ptr = ring ? w.member_ptr : w.path_ptr;
        Int32s links = (ring ? w.member_link : w.path_link).part(ptr[path], ptr[path + 1]);
        double segment = std::min(flow.left, SEGMENT_BYTES), at = now, first_free = now, segment_end = now;
        for (Index hop = 0; hop < links.size; ++hop) {
            Index link = back ? opposite[links[links.size - 1 - hop]] : links[hop];
            at = std::max(free[link], at) + w.hop_latency;
            double span = segment / w.link_rate[link];
            free[link] = at + span;
            carried[link] += segment;
            busy[link] += span;
            segment_end = std::max(segment_end, free[link]);
            if (hop == 0) first_free = free[link];
        }
        flow.left -= segment;
        if (flow.left > 0.0) {
            event(first_free, graph.tasks() + f);
            return false;
        }
        tasks.end[t] = std::max(tasks.end[t], segment_end);
        return --under_way[t] == 0 && done(t, tasks.end[t]);
    }
    void check() const {
        const Network &w = network;
        Index count = 2 * graph.tasks();
        require_size(directions, graph.tasks(), "directions");
        bool back = false;
        for (Index t = 0; t < graph.tasks(); ++t) {
            Index group = graph.group[t];
            if (graph.kind[t] == TRANSFER && graph.source[t] != graph.target[t]) {
                Index pair = graph.pair(w, t);
                require(w.pair_ptr[pair] < w.pair_ptr[pair + 1], "network", "a path is missing");
            } else if (graph.kind[t] == ALLREDUCE && group >= 0) {
                back |= directions[t] < 0;
                Index rings = w.group_ptr[group + 1] - w.group_ptr[group];
                for (Index ring = w.group_ptr[group]; ring < w.group_ptr[group + 1]; ++ring)
                    require(w.ring_ptr[ring + 1] - w.ring_ptr[ring] == w.group_size[group], "ring_ptr",
                            "a ring has a path for every member");
                count += rings * w.group_size[group];
                require(count < (Index(1) << DETAIL_BITS), "graph", "too many flows");
            }
        }
        require(count < (Index(1) << DETAIL_BITS), "graph", "too many tasks");
        if (back) require_size(opposite, w.links(), "opposite");
        require_within(opposite, 0, w.links(), "opposite");
    }

  public:
    Tasks tasks;
    std::vector<double> carried, busy;  // of each link, bytes and ms

    FlexnetModel(GraphView graph, Network network, Int8s directions, Int32s opposite, Ints job_ptr)
        : graph(graph), network(network), directions(directions), opposite(opposite) {
        check();
        flows.resize(graph.tasks()), under_way.resize(graph.tasks());
        for (auto *column : {&free, &carried, &busy}) column->assign(network.links(), 0.0);
        tasks.reset(graph.successor, job_ptr, network.servers);
        q.reset(0, 0);
        tasks.announce_first(0, graph.tasks(), announce());
        run_events(*this, q, NEVER);
    }
    double next_change() const { return NEVER; }
    double serve(double at) const { return at; }
    bool handle(double now, Index code) {
        Index index = code & ((Index(1) << DETAIL_BITS) - 1);
        return index < graph.tasks() ? start(index, now) : send_segment(index - graph.tasks(), now);
    }
    bool settle() const { return false; }
};

}  // namespace topoopt::flows
