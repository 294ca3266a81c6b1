// Time model `fluid`: traffic as flows that share links max-min fairly. The rules stand in
// topoopt/simulate/time_models/models.py.
//
// Flows of a route (a path or a ring) always have the same rate. So a route has a clock: the bytes it has given each of
// its flows so far. A flow ends when that clock reaches the mark set when it began. An event costs the routes whose
// rate changes and one rate computation, however many flows are under way.
#pragma once
#include "loop.hpp"
#include "max_min.hpp"
#include "model.hpp"

namespace topoopt::flows {

class FluidModel {
    enum What : Index { READY, SEND, DONE };
    static constexpr double NEVER = std::numeric_limits<double>::infinity();
    // Part of the time by which events may differ that are taken together: far above rounding, far below what matters.
    static constexpr double TOGETHER = 1e-11;

    struct Route {  // has given each of its `weight` flows `rate` since `since`, when its clock stood at `clock`
        double rate = 0.0, clock = 0.0, since = 0.0, ends_at = NEVER, moved = 0.0;  // `moved`: bytes given so far
        std::int64_t weight = 0, head = -1;  // its first flow; the next is `following`, in the order of their marks
        bool touched = false;                // flows came or went since the rate was set
    };
    struct Flow {
        double size, tail, mark;  // bytes; latency added at the end; clock of the route at which it ends
        std::int64_t route, following;
        std::int32_t task;
    };
    struct Weights {
        const std::vector<Route> &routes;
        Index operator[](Index r) const { return routes[r].weight; }
    };

    GraphView graph;
    Network network;
    bool restart;
    EventQueue q;
    std::vector<Route> routes;                        // all paths, then all rings
    std::vector<Flow> flows;                          // by task
    std::vector<std::int64_t> first_link, active;     // of each route in link_of; the routes with flows
    std::vector<std::int64_t> first_flow, under_way;  // of each task: its first flow; how many are not done
    std::vector<std::int32_t> link_of;
    std::vector<double> filled;
    MaxMinFill filling;
    Index serial = 0;
    double now = 0.0;
    bool changed = false;  // rates are out of date

    void event(double at, Index t, Index what) { q.add(at, (++serial << DETAIL_BITS) | (4 * t + what)); }
    auto announce() {
        return [this](double at, Index t) { event(at, t, READY); };
    }

    void make_routes() {
        const Network &w = network;
        link_of.assign(w.path_link.begin(), w.path_link.end());
        link_of.insert(link_of.end(), w.member_link.begin(), w.member_link.end());
        first_link.assign(w.path_ptr.begin(), w.path_ptr.end());
        for (Index ring = 1; ring < w.ring_ptr.size; ++ring)
            first_link.push_back(w.member_ptr[w.ring_ptr[ring]] + w.path_link.size);
        routes.resize(first_link.size() - 1);
        filled.resize(routes.size());
        filling.reset(w.links());
    }
    void make_flows() {
        const Network &w = network;
        first_flow.assign(1, 0), under_way.assign(graph.tasks(), 0);
        for (Index t = 0; t < graph.tasks(); ++t) {
            auto add = [&](Index route, double size, double tail) {
                flows.push_back({size, tail, 0.0, route, -1, std::int32_t(t)});
            };
            Index pair = graph.kind[t] == TRANSFER ? graph.pair(w, t) : -1, group = graph.group[t];
            if (graph.kind[t] == TRANSFER) {
                for (Index path = w.pair_ptr[pair]; path < w.pair_ptr[pair + 1]; ++path)
                    add(path, double(graph.size[t]) * w.path_share[path],
                        double(w.path_ptr[path + 1] - w.path_ptr[path]) * w.hop_latency);
            } else if (graph.kind[t] == ALLREDUCE && group >= 0) {
                double k = double(w.group_size[group]), bytes = 2.0 * (k - 1.0) / k * double(graph.size[t]);
                for (Index ring = w.group_ptr[group]; ring < w.group_ptr[group + 1]; ++ring)
                    add(w.path_share.size + ring, bytes * w.ring_share[ring], 2.0 * (k - 1.0) * w.round_latency);
            }
            require(flows.size() < (std::size_t(1) << 28), "graph", "too many flows");
            first_flow.push_back(Index(flows.size()));
        }
    }

    void carry(Route &route) {  // let it give its flows their rate until now
        double span = std::max(0.0, now - route.since);
        route.clock += route.rate * span;
        route.moved += route.rate * span * double(route.weight);
        route.since = now;
    }
    double next_end(const Route &route) const { return now + (flows[route.head].mark - route.clock) / route.rate; }
    void touch(Route &route) { changed = route.touched = true; }
    void end_flows(Route &route, double slack) {
        while (route.head >= 0 && flows[route.head].mark - route.clock <= route.rate * slack) {
            const Flow &flow = flows[route.head];
            route.head = flow.following;
            route.moved += flow.mark - route.clock;
            --route.weight;
            touch(route);
            double &end = tasks.end[flow.task];
            end = std::max(end, now + flow.tail);
            if (--under_way[flow.task] == 0) event(end, flow.task, DONE);
        }
    }
    void begin_flow(Index f) {
        Flow &flow = flows[f];
        Route &route = routes[flow.route];
        if (route.weight == 0) {
            active.push_back(flow.route);
            route.clock = 0.0, route.since = now;
        } else {
            carry(route);
        }
        flow.mark = route.clock + flow.size;
        std::int64_t *link = &route.head;
        while (*link >= 0 && flows[*link].mark <= flow.mark) link = &flows[*link].following;
        flow.following = *link;
        *link = f;
        ++route.weight;
        touch(route);
    }
    void send(Index t, double at) {
        double &end = tasks.end[t];
        end = at;
        for (Index f = first_flow[t]; f < first_flow[t + 1]; ++f) {
            if (flows[f].size > 0.0) {
                begin_flow(f);
                ++under_way[t];
            } else {
                end = std::max(end, at + flows[f].tail);
            }
        }
        if (under_way[t] == 0) event(end, t, DONE);
    }

  public:
    Tasks tasks;

    // No AllReduce has a schedule; the tasks of job j are job_ptr[j]..job_ptr[j+1].
    FluidModel(GraphView graph, Network network, Ints job_ptr, bool restart)
        : graph(graph), network(network), restart(restart) {
        make_routes(), make_flows();
        tasks.reset(graph.successor, job_ptr, network.servers);
        q.reset(0, 0);
        tasks.announce_first(0, graph.tasks(), announce());
        run_events(*this, q, NEVER);
    }
    double next_change() const {
        double upcoming = NEVER;
        for (Index r : active) upcoming = std::min(upcoming, routes[r].ends_at);
        return upcoming;
    }
    double serve(double at) {  // end the flows that end at that time
        now = std::max(now, at);
        double slack = TOGETHER * now;  // never below the rounding of `now`, or time would stand still
        std::erase_if(active, [&](Index r) {
            Route &route = routes[r];
            if (!(route.ends_at <= now + slack)) return false;
            carry(route);
            end_flows(route, slack);
            if (route.head >= 0) {
                route.ends_at = next_end(route);
                return false;
            }
            route.rate = 0.0, route.ends_at = NEVER, route.touched = false;
            return true;
        });
        return now + slack;
    }
    bool handle(double at, Index code) {
        Index t = (code & ((Index(1) << DETAIL_BITS) - 1)) >> 2;
        switch (code & 3) {
            case READY: {
                if (graph.kind[t] >= TRANSFER) tasks.start[t] = at;
                double then = graph.kind[t] < TRANSFER ? tasks.compute(t, graph.source[t], graph.duration[t], at)
                                                       : at + graph.duration[t];
                event(then, t, first_flow[t] < first_flow[t + 1] ? SEND : DONE);
                return false;
            }
            case SEND:
                send(t, at);
                return false;
            default:
                tasks.release(graph.successor_ptr, graph.successor, t, at, announce());
                return tasks.all_jobs_done(t, at, restart, announce());
        }
    }
    bool settle() {  // rates anew, if flows came or went
        if (!changed) return false;
        look_at_stop();
        changed = false;
        View<const std::int64_t> first = first_link;
        Index count = Index(routes.size());
        filling.fill(active, Weights{routes}, first.part(0, count), first.part(1, count + 1), link_of,
                     network.link_rate, filled);
        for (Index r : active) {
            Route &route = routes[r];
            if (filled[r] == route.rate && !route.touched) continue;
            carry(route);
            route.rate = std::max(0.0, filled[r]);
            route.touched = false;
            route.ends_at = route.rate > 0.0 ? next_end(route) : NEVER;
        }
        return false;
    }
    std::vector<double> carried() const {  // bytes over each link
        std::vector<double> bytes(network.links(), 0.0);
        for (std::size_t r = 0; r < routes.size(); ++r)
            for (Index at = first_link[r]; at < first_link[r + 1]; ++at) bytes[link_of[at]] += routes[r].moved;
        return bytes;
    }
};

}  // namespace topoopt::flows
