// Flow-level simulation of a task graph over wires that come and go.
//
// * Compute tasks of a server run one after another, in order of readiness.
// * The bytes of a transfer or of a ring member's share of an AllReduce are chunks; chunks of one queue go in order of
//   arrival, a task is done when its last chunk has arrived.
// * Queues share links max-min fairly. Rates are set anew when queues become busy or empty, at most once in `interval`
//   ms; until then what ended leaves its share unused and what began waits. Where no link is shared a queue has its
//   circuit's rate at once.
// * In a schedule of stages, traffic of a later stage waits until all traffic of the earlier ones has arrived and the
//   dark time before its stage is over.
#pragma once
#include <cmath>

#include "loop.hpp"
#include "max_min.hpp"
#include "model.hpp"
#include "wires.hpp"

namespace topoopt::circuits {

inline void require_amounts(Floats amounts, const char *name) {
    for (double amount : amounts)
        require(amount >= 0.0 && std::isfinite(amount), name, "finite numbers from 0 are needed");
}
inline void require_amount(double amount, const char *name) { require_amounts({&amount, 1}, name); }

struct CircuitWork {  // fields as in topoopt.simulate.circuits.Work
    Index servers = 0;
    Int8s kind;
    Int32s source;
    Floats duration;
    Ints successor_ptr;
    Int32s successor;
    Ints chunk_ptr;
    Int32s chunk_queue;
    Floats chunk_bytes, hop_ms;
    Int32s stage;
    Floats stage_delay;

    Index tasks() const { return kind.size; }
    bool sends(Index t) const { return chunk_ptr[t] < chunk_ptr[t + 1]; }

    void check(Index queues) const {
        require(tasks() < Index(1) << (DETAIL_BITS - 2), "kind", "too many tasks");
        require(servers >= 0 && servers < (Index(1) << 20), "servers", "fewer than 1048576 servers are needed");
        require_size(source, tasks(), "source");
        for (Index t = 0; t < tasks(); ++t)
            require(kind[t] >= TRANSFER || (source[t] >= 0 && source[t] < servers), "source", "no such server");
        require_size(duration, tasks(), "duration");
        require_amounts(duration, "duration");
        require_offsets(successor_ptr, tasks(), successor.size, "successor_ptr");
        require_within(successor, 0, tasks(), "successor");
        require_offsets(chunk_ptr, tasks(), chunk_queue.size, "chunk_ptr");
        require_within(chunk_queue, 0, queues, "chunk_queue");
        require_size(chunk_bytes, chunk_queue.size, "chunk_bytes");
        require_amounts(chunk_bytes, "chunk_bytes");
        require_size(hop_ms, tasks(), "hop_ms");
        require_amounts(hop_ms, "hop_ms");
        require_size(stage, tasks(), "stage");
        require_within(stage, 0, stage_delay.size, "stage");
        require(stage_delay.size > 0, "stage_delay", "a stage is needed");
        require_amounts(stage_delay, "stage_delay");
    }
};

class CircuitSimulation {
    enum { READY, SEND, DONE };
    static constexpr double NEVER = std::numeric_limits<double>::infinity();
    static constexpr double TOGETHER = 1e-11;  // part of the time by which events may differ that are taken together

    const CircuitWork &w;
    double interval;  // ms between two times at which rates are set, at least
    const std::vector<std::int64_t> whole;
    std::vector<std::int32_t> chunk_task;
    EventQueue events;
    MaxMinFill filling;
    Index serial = 0, stage = 0;
    bool open = false, dirty = false, until_busy = false;
    double rated = -NEVER, opens = 0.0;
    std::vector<std::int64_t> open_chunks, stage_left;
    std::vector<double> remaining;           // bytes of each chunk
    std::vector<std::int64_t> following;     // next chunk of the queue or -1
    std::vector<std::int64_t> front, back;   // first and last chunk of each queue, -1 where it is empty
    std::vector<double> rate;                // of each queue
    std::vector<std::int64_t> active, held;  // busy queues that have a route; tasks that wait for their stage

    auto announce() {
        return [this](double at, Index t) { event(at, t, READY); };
    }
    void event(double at, Index t, Index what) { events.add(at, (++serial << DETAIL_BITS) | (4 * t + what)); }

    // Goes on to the first stage that has traffic left, and lets in what was held for it.
    void next_stage() {
        Index before = stage;
        while (stage_left[stage] == 0 && stage + 1 < Index(stage_left.size())) {
            ++stage;
            opens = std::max(opens, now) + w.stage_delay[stage];
            dark += w.stage_delay[stage];
        }
        if (stage == before) return;
        std::size_t kept = 0;
        for (Index t : held) {
            if (w.stage[t] <= stage) event(std::max(now, opens), t, SEND);
            else held[kept++] = t;
        }
        held.resize(kept);
    }
    void activate(Index q) {
        if (x.route(q, backlog[q]) == 0) return;
        active.push_back(q);
        if (x.shared()) rate[q] = 0.0, dirty = true;
        else rate[q] = x.link_rate[x.store[x.low[q]]];
    }
    void enqueue(Index c) {
        Index q = w.chunk_queue[c];
        backlog[q] += w.chunk_bytes[c];
        if (front[q] >= 0) {
            following[back[q]] = c;
            back[q] = c;
            return;
        }
        front[q] = back[q] = c;
        ++busy;
        if (open) activate(q);
    }
    // Sends until then; chunks that end within `slack` are done.
    void transmit(double until, double slack) {
        double span = std::max(0.0, until - now);
        now = std::max(now, until);
        std::size_t kept = 0;
        for (Index q : active) {
            Index c = front[q], hops = x.hops(q);
            double amount = std::min(rate[q] * span, remaining[c]);
            if (rate[q] > 0.0 && remaining[c] - amount <= rate[q] * slack) amount = remaining[c];
            remaining[c] -= amount;
            backlog[q] -= amount;
            served[q] += amount;
            carried += amount * double(hops);
            if (remaining[c] <= 0.0) {
                Index t = chunk_task[c];
                tasks.end[t] = std::max(tasks.end[t], now + w.hop_ms[t] * double(hops));
                if (--open_chunks[t] == 0) event(tasks.end[t], t, DONE);
                front[q] = following[c];
                if (front[q] < 0) {
                    backlog[q] = 0.0;
                    --busy;
                    dirty |= x.shared();
                    continue;
                }
            }
            active[kept++] = q;
        }
        active.resize(kept);
    }
    void send(Index t, double at) {
        if (w.stage[t] > stage) {
            held.push_back(t);
        } else if (at < opens) {
            event(opens, t, SEND);
        } else {
            tasks.end[t] = at;
            open_chunks[t] = w.chunk_ptr[t + 1] - w.chunk_ptr[t];
            for (Index c = w.chunk_ptr[t]; c < w.chunk_ptr[t + 1]; ++c) enqueue(c);
        }
    }
    void begin_task(Index t, double at) {
        double then = w.kind[t] < TRANSFER ? tasks.compute(t, w.source[t], w.duration[t], at)
                                           : (tasks.start[t] = at) + w.duration[t];
        event(then, t, w.sends(t) ? SEND : DONE);
    }

  public:
    Wires x;
    Tasks tasks;
    double now = 0.0, carried = 0.0, dark = 0.0;  // ms; bytes times hops; ms of dark time before stages
    std::vector<double> backlog, served;          // bytes that wait in each queue, and bytes sent
    Index busy = 0;                               // queues in which bytes wait

    CircuitSimulation(const CircuitWork &work, Wires wires, double interval)
        : w(work), interval(interval), whole{0, work.tasks()}, chunk_task(work.chunk_queue.size), x(std::move(wires)) {
        for (Index t = 0; t < w.tasks(); ++t)
            std::fill(chunk_task.begin() + w.chunk_ptr[t], chunk_task.begin() + w.chunk_ptr[t + 1], std::int32_t(t));
    }

    // The state before an iteration that begins at `start`, all wires dark.
    void begin(double start) {
        Index queues = Index(x.low.size()), chunks = w.chunk_bytes.size;
        now = start, rated = -NEVER, carried = 0.0, dark = w.stage_delay[0], opens = now + w.stage_delay[0];
        serial = stage = busy = 0;
        open = dirty = false;
        tasks.reset(w.successor, whole, w.servers);
        std::fill(tasks.ready.begin(), tasks.ready.end(), now);
        std::fill(tasks.device_free.begin(), tasks.device_free.end(), now);
        events.reset(0, 0);
        open_chunks.assign(w.tasks(), 0), stage_left.assign(w.stage_delay.size, 0);
        remaining.assign(w.chunk_bytes.begin(), w.chunk_bytes.end()), following.assign(chunks, -1);
        front.assign(queues, -1), back.assign(queues, -1);
        backlog.assign(queues, 0.0), served.assign(queues, 0.0), rate.assign(queues, 0.0);
        active.clear(), held.clear();
        for (Index t = 0; t < w.tasks(); ++t)
            if (w.sends(t)) ++stage_left[w.stage[t]];
        tasks.announce_first(0, w.tasks(), announce());
        next_stage();
    }
    // Wires carry from now on.
    void light() {
        open = true;
        active.clear();
        rated = -NEVER;
        filling.reset(Index(x.link_rate.size()));
        for (Index q = 0; q < Index(front.size()); ++q)
            if (front[q] >= 0) activate(q);
    }
    // Nothing is carried from now on; what was not sent waits.
    void darken() {
        open = dirty = false;
        active.clear();
    }
    // Goes on to `until`, to the end of all that can happen, or (`to_busy`) until bytes wait.
    void advance(double until, bool to_busy = false) {
        until_busy = to_busy;
        if (until < run_events(*this, events, until)) transmit(until, 0.0);
    }
    bool idle() {  // nothing happens any more by itself, but for bytes that wait
        double at;
        return !events.first(at);
    }
    Index longest_active() const {  // hops, 0 if no queue is sending
        Index longest = 0;
        for (Index q : active) longest = std::max(longest, x.hops(q));
        return longest;
    }
    double ended() const {
        double latest = 0.0;
        for (double end : tasks.end) latest = std::max(latest, end);
        return latest;
    }

    // What the event loop asks for.
    double next_change() const {
        double upcoming = NEVER;
        for (Index q : active)
            if (rate[q] > 0.0) upcoming = std::min(upcoming, now + remaining[front[q]] / rate[q]);
        if (dirty) upcoming = std::min(upcoming, std::max(now, rated + interval));
        return upcoming;
    }
    double serve(double at) {
        double slack = TOGETHER * std::max(now, at);
        transmit(at, slack);
        return now + slack;
    }
    bool handle(double at, Index code) {
        Index t = (code & ((Index(1) << DETAIL_BITS) - 1)) >> 2, what = code & 3;
        if (what == READY) {
            begin_task(t, at);
        } else if (what == SEND) {
            send(t, at);
        } else {
            tasks.release(w.successor_ptr, w.successor, t, at, announce());
            --tasks.job_left[0];
            if (w.sends(t)) {
                --stage_left[w.stage[t]];
                next_stage();
            }
        }
        return false;
    }
    bool settle() {
        if (dirty && now >= rated + interval) {
            filling.fill(active, OneFlowEach{}, x.low, x.high, x.store, x.link_rate, rate);
            dirty = false;
            rated = now;
        }
        return until_busy && busy > 0;
    }
};

}  // namespace topoopt::circuits
