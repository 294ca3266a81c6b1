// One step of a placed operator graph, by events: operators on devices, tensors between them.
//
// * A device runs one operator at a time; of those whose inputs are there it takes the one of least priority number.
//   Operators of zero time take no turn.
// * A tensor is sent once to every other device with a consumer, when its producer ends. Devices of one server have a
//   link of their own for each pair. Empty tensors arrive after the fixed latency and load no link.
// * Between servers, by the sharing of the problem. FAIR: after the latency all transfers run at once, at max-min fair
//   rates below what each server's links together carry, out and in. FIFO: a transfer holds the port out of one server
//   and into the other for its latency and its bytes at the smaller of the two rates; of the waiting ones that could
//   start the one of least priority number does. STATIC: as FIFO, but for each pair of servers alone, at its own rate.
//   A transfer has the priority of its first consumer. ALONE: every transfer has the full rate of its two servers.
//
// Events at the same time are all seen before anything new starts.
#pragma once
#include <algorithm>
#include <functional>

#include "loop.hpp"
#include "placed_graph.hpp"

namespace topoopt::placement {

struct Transfer {
    Index tensor, source, target, from, to, after;  // devices and their servers; the next in the same queue
    double start, end, priority;
};

class PlacedStep {
    struct Flow {  // a transfer under way at a fair rate between two servers
        Index transfer;
        double left, rate;
        Index out, into;
    };
    struct Pick {  // a waiting transfer, and the one before it in its queue
        Index transfer = -1, before = -1, queue = -1;
    };
    using Heap = std::vector<std::pair<double, Index>>;

    const PlacedGraph &a;
    Ints device;
    Floats priority, tail;
    Table<const double> rates;
    Index arrivals, latencies;  // first codes of such events; lower ones are ends of operators
    double limit = NEVER, now = 0.0, soonest = NEVER;
    Index finished = 0, waiting = 0;
    bool beyond = false, changed = false;
    std::vector<Index> need, running, done, stamp, slot, first, count;
    std::vector<Heap> ready;
    std::vector<char> out_busy, in_busy, full;  // STATIC: out_busy of pairs of servers
    std::vector<double> capacity, own_tail, own_priority;
    std::vector<Flow> flows;
    EventQueue q;

    void end_now(Index i) {
        end[i] = now;
        done.push_back(i);
    }
    void became_ready(Index i) {
        Index d = device[i];
        if (a.time(i, d) == 0.0) {
            start[i] = now;
            return end_now(i);
        }
        ready[d].emplace_back(priority[i], i);
        std::push_heap(ready[d].begin(), ready[d].end(), std::greater<>{});
    }
    void input_arrived(Index i) {
        if (--need[i] == 0) became_ready(i);
    }

    void begin_flow(Index w) {
        flows.push_back({w, a.tensor_size[transfers[w].tensor], 0.0, transfers[w].from, transfers[w].to});
        changed = true;
    }
    void send(Index w) {  // a transfer begins, or waits
        Transfer &y = transfers[w];
        double size = a.tensor_size[y.tensor];
        if (y.from == y.to || size <= 0 || a.sharing == ALONE) {
            q.add(now + a.send_time(size, y.source, y.target, rates), arrivals + w);
        } else if (a.sharing != FAIR) {
            Index queue = a.sharing == STATIC ? y.from * a.servers() + y.to : y.from;
            y.after = first[queue], first[queue] = w;
            ++waiting;
        } else if (a.alpha > 0) {
            q.add(now + a.alpha, latencies + w);
        } else {
            begin_flow(w);
        }
    }
    void send_tensor(Index tensor, Index source) {
        Index before = Index(transfers.size());
        a.each_user(tensor, [&](Index j) {
            Index target = device[j];
            if (target == source) {
                input_arrived(j);
            } else if (stamp[target] == tensor) {
                double &least = transfers[slot[target]].priority;
                least = std::min(least, priority[j]);
            } else {
                stamp[target] = tensor, slot[target] = Index(transfers.size());
                transfers.push_back(
                    {tensor, source, target, a.server[source], a.server[target], -1, now, -1.0, priority[j]});
            }
        });
        for (Index w = before; w < Index(transfers.size()); ++w) send(w);
    }
    void send_done() {  // what ended just now sends its tensors
        while (!done.empty()) {
            Index i = done.back();
            done.pop_back();
            ++finished;
            for (Index tensor = a.tensor_ptr[i]; tensor < a.tensor_ptr[i + 1]; ++tensor) send_tensor(tensor, device[i]);
        }
    }

    // Takes the waiting transfer of a queue that precedes the one picked so far.
    template <class Allowed> void pick_from(Index queue, Pick &pick, Allowed allowed) const {
        for (Index w = first[queue], before = -1; w >= 0; before = w, w = transfers[w].after) {
            if (!allowed(w)) continue;
            double mine = transfers[w].priority;
            double other = pick.transfer < 0 ? NEVER : transfers[pick.transfer].priority;
            if (pick.transfer < 0 || mine < other || (mine == other && w < pick.transfer)) pick = {w, before, queue};
        }
    }
    void start_transfer(const Pick &pick, double rate) {
        Transfer &y = transfers[pick.transfer];
        (pick.before < 0 ? first[pick.queue] : transfers[pick.before].after) = y.after;
        --waiting;
        y.start = now;
        q.add(now + (a.alpha + a.tensor_size[y.tensor] / rate), arrivals + pick.transfer);
    }
    void start_pairs() {  // STATIC: the first waiting transfer of each idle pair of servers
        for (Index queue = 0; queue < Index(first.size()); ++queue) {
            if (out_busy[queue] || first[queue] < 0) continue;
            Pick pick;
            pick_from(queue, pick, [](Index) { return true; });
            out_busy[queue] = true;
            start_transfer(pick, rates.flat()[queue]);
        }
    }
    void start_ports() {  // FIFO: as long as there are, the first of those whose ports out and in are free
        while (waiting > 0) {
            Pick pick;
            for (Index s = 0; s < Index(first.size()); ++s)
                if (!out_busy[s]) pick_from(s, pick, [&](Index w) { return !in_busy[transfers[w].to]; });
            if (pick.transfer < 0) return;
            Index t = transfers[pick.transfer].to;
            out_busy[pick.queue] = in_busy[t] = true;
            start_transfer(pick, std::min(a.network[pick.queue], a.network[t]));
        }
    }
    // FAIR: max-min fair rates by progressive filling; a server carries its capacity out and the same in.
    void share_fairly() {
        Index servers = a.servers(), ports = 2 * servers, open = Index(flows.size());
        capacity.assign(ports, 0.0), count.assign(ports, 0), full.assign(ports, false);
        for (Index port = 0; port < ports; ++port) capacity[port] = a.network[port % servers];
        for (Flow &f : flows) {
            f.rate = -1.0;
            ++count[f.out], ++count[servers + f.into];
        }
        while (open > 0) {
            look_at_stop();
            double level = NEVER;
            for (Index port = 0; port < ports; ++port)
                if (count[port] > 0) level = std::min(level, capacity[port] / double(count[port]));
            for (Index port = 0; port < ports; ++port)
                full[port] = count[port] > 0 && capacity[port] / double(count[port]) <= level * (1 + 1e-12);
            for (Flow &f : flows) {
                if (f.rate >= 0 || !(full[f.out] || full[servers + f.into])) continue;
                f.rate = level;
                --open;
                for (Index port : {f.out, servers + f.into}) capacity[port] -= level, --count[port];
            }
        }
        changed = false;
    }
    void arrived(Index w) {  // what a transfer held is free, its consumers have their input
        Transfer &y = transfers[w];
        y.end = now;
        if (y.from != y.to && a.tensor_size[y.tensor] > 0) {
            if (a.sharing == STATIC) out_busy[y.from * a.servers() + y.to] = false;
            if (a.sharing == FIFO) out_busy[y.from] = in_busy[y.to] = false;
        }
        Index target = y.target;
        a.each_user(y.tensor, [&](Index j) {
            if (device[j] == target) input_arrived(j);
        });
    }
    bool start_operators() {  // each idle device takes the first that is ready; false: the limit cannot be met
        for (Index d = 0; d < Index(running.size()); ++d) {
            if (running[d] >= 0 || ready[d].empty()) continue;
            Index i = running[d] = ready[d].front().second;
            std::pop_heap(ready[d].begin(), ready[d].end(), std::greater<>{});
            ready[d].pop_back();
            start[i] = now;
            if (limit < NEVER && now + tail[i] > limit) return false;
            q.add(now + a.time(i, d), i);
        }
        return true;
    }

  public:
    std::vector<double> start, end;   // of operators, -1: not yet
    std::vector<Transfer> transfers;  // as they are sent

    explicit PlacedStep(const PlacedGraph &graph) : a(graph), ready(graph.devices()) {
        Index most = 0;  // a tensor is sent to every other device at most
        for (Index tensor = 0; tensor < a.tensor_size.size; ++tensor)
            most += std::min(a.user_ptr[tensor + 1] - a.user_ptr[tensor], a.devices() - 1);
        arrivals = a.operators(), latencies = arrivals + most;
    }
    PlacedStep(const PlacedStep &) = delete;

    double next_change() {  // when the first flow ends at the rates of now
        soonest = NEVER;
        for (const Flow &f : flows) soonest = std::min(soonest, now + f.left / f.rate);
        return soonest;
    }
    double serve(double at) {  // time passes until then; flows that end arrive
        double span = at - now;
        now = at;
        std::size_t kept = 0;
        for (Flow &f : flows) {
            f.left -= f.rate * span;
            if (f.left <= 1e-12 * at * f.rate || (at == soonest && f.left <= 0.0)) {
                q.add(at, arrivals + f.transfer);
                changed = true;
            } else {
                flows[kept++] = f;
            }
        }
        flows.resize(kept);
        return at;
    }
    bool handle(double, Index code) {
        if (code < arrivals) {
            running[device[code]] = -1;
            end_now(code);
        } else if (code < latencies) {
            arrived(code - arrivals);
        } else {
            begin_flow(code - latencies);
        }
        return false;
    }
    bool settle() {
        send_done();
        if (!start_operators()) return beyond = true;
        if (waiting > 0) a.sharing == STATIC ? start_pairs() : start_ports();
        if (changed) share_fairly();
        return false;
    }

    // The makespan; infinity beyond `limit`, for which `tail` bounds the time from each operator's start to the end.
    double run(Ints devices, Floats priorities, Floats tails, Table<const double> pair_rates, double most) {
        device = devices, priority = priorities, tail = tails, rates = pair_rates, limit = most;
        Index n = device.size, k = a.devices(), queues = a.sharing == STATIC ? a.servers() * a.servers() : a.servers();
        start.assign(n, -1.0), end.assign(n, -1.0), need.assign(a.needs.begin(), a.needs.end());
        running.assign(k, -1), stamp.assign(k, -1), slot.assign(k, 0), first.assign(queues, -1);
        out_busy.assign(queues, false), in_busy.assign(a.servers(), false);
        for (Heap &heap : ready) heap.clear();
        done.clear(), transfers.clear(), flows.clear(), q.reset(1, 0);
        now = 0.0, soonest = NEVER, finished = waiting = 0, beyond = changed = false;
        for (Index i = 0; i < n; ++i)
            if (need[i] == 0) became_ready(i);
        if (!settle()) run_events(*this, q, NEVER);
        return beyond || finished < n ? NEVER : now;  // a transfer without a rate never ends
    }
    // The makespan with longest tails first.
    double makespan(Ints devices, Table<const double> pair_rates, double most) {
        tails_into(a, devices, pair_rates, own_tail);
        own_priority.resize(own_tail.size());
        std::transform(own_tail.begin(), own_tail.end(), own_priority.begin(), std::negate<>{});
        return run(devices, own_priority, own_tail, pair_rates, most);
    }
    // With `allocate`, at the better of two static splits in closed form.
    double makespan(Ints devices, Table<const double> pair_rates, bool allocate, double most) {
        if (!allocate) return makespan(devices, pair_rates, most);
        double best = makespan(devices, rates_by_volume(a, devices, 0.5), most);
        return std::min(best, makespan(devices, rates_by_volume(a, devices, 1.0), std::min(most, best)));
    }
};

}  // namespace topoopt::placement
