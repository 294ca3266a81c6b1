// The passes of a pipeline whose circuits may be dark: when each begins, what is sent when, and when ports are set.
//
// Ranks do their passes in order. What a pass sends begins when the pass is through and both ends have set their
// circuits between stages. A rank whose ports are *apart* serves either what passes exchange inside or its neighbours:
// behind a pass it sets its ports to the pipeline, sends what the pass made and takes what the next pass needs, then
// sets them back; no circuit is cut while anything moves on it. Other ranks have the circuits of the pipeline all the
// time from the first that is needed. Every time is a largest value of sums of earlier ones: no time falls when another
// one rises.
#pragma once
#include <algorithm>
#include <tuple>

#include "arrays.hpp"
#include "stop.hpp"

namespace topoopt::jobs {

struct PassTimes {
    // A time that is not known yet; a circuit that was always there.
    static constexpr double UNKNOWN = -1e300;
    // Rows of the times of passes: the last two are when setting ports begins, behind and before the pass.
    enum Row { BEGIN, END, SENT, ARRIVED, TO_PIPELINE, TO_INSIDE, ROWS };
    // Rows of the state of ranks: since when their passes use no circuits, when the last one ended, whether one did;
    // when they have the first circuits of the pipeline; when the last transfer between stages ended.
    enum Of { IDLE, PASSED, BEGUN, UP, LAST, STATES };

    Ints start, exchanged, apart;
    Table<const std::int64_t> links;
    Floats durations, floor, idle, first, inside;
    Table<const double> lead, hops, delay;
    bool demand, blocking;
    Matrix<double> times, state, last;

    void check() const {
        Index ranks = apart.size, n = durations.size;
        require_offsets(start, ranks, n, "start");
        require_shape(links, 2, n, "links");
        require_within(links.row(0), -1, n, "links");
        require_within(links.row(1), -1, ranks, "links");
        require_size(exchanged, n, "exchanged");
        require_size(floor, n, "floor");
        require_shape(lead, 2, n, "lead");
        require_shape(hops, ranks, ranks, "hops");
        require_shape(delay, 2, ranks, "delay");
        for (auto column : {idle, first, inside}) require_size(column, ranks, "numbers of ranks");
    }
    // When a rank has its circuits of the pipeline; `needed`: when something can be sent over them.
    double circuits_up(Index rank, double needed) {
        if (apart[rank] == 1 && state(BEGUN, rank) > 0.0)
            return (demand ? state(PASSED, rank) : state(IDLE, rank)) + delay(0, rank);
        if (first[rank] >= 0.0 && state(UP, rank) == UNKNOWN)
            state(UP, rank) = (demand ? std::max(state(IDLE, rank), needed) : state(IDLE, rank)) + first[rank];
        return state(UP, rank);
    }
    // Send what a pass made: both ends are known to be ready.
    void send(Index pass, Index source, Index target) {
        double needed = times(END, pass), begin = std::max(needed, last(source, target));
        begin = std::max(begin, circuits_up(source, needed));
        begin = std::max(begin, circuits_up(target, needed));
        double end = begin + hops(source, target);
        times(SENT, pass) = begin;
        times(ARRIVED, pass) = last(source, target) = end;
        for (Index rank : {source, target}) state(LAST, rank) = std::max(state(LAST, rank), end);
    }
    // When ports begin to be set to what passes exchange (`UNKNOWN`: they are), and when they are.
    std::pair<double, double> inside_up(Index rank, double needed, double used) const {
        if (used > UNKNOWN) {
            double begin = demand ? std::max(used, needed) : used;
            return {begin, begin + delay(1, rank)};
        }
        if (state(BEGUN, rank) == 0.0 && inside[rank] >= 0.0) {
            double begin = demand ? std::max(state(IDLE, rank), needed) : state(IDLE, rank);
            return {begin, begin + inside[rank]};
        }
        return {UNKNOWN, UNKNOWN};
    }
    // Does all passes as early as circuits, orders and data allow; whether all could be done.
    bool follow() {
        Index ranks = apart.size, n = durations.size, left = n;
        times = Matrix<double>(ROWS, n, UNKNOWN), last = Matrix<double>(ranks, ranks, UNKNOWN);
        state = Matrix<double>(STATES, ranks);
        std::vector<double> free(ranks);
        std::vector<std::int64_t> at(start.begin(), start.end() - 1), owner(n), sender(ranks, -1);
        for (Index rank = 0; rank < ranks; ++rank) {
            state(IDLE, rank) = state(PASSED, rank) = state(LAST, rank) = idle[rank];
            state(UP, rank) = UNKNOWN;
            std::fill(owner.begin() + start[rank], owner.begin() + start[rank + 1], rank);
        }
        for (bool moved = true; left > 0 && moved;) {
            look_at_stop();
            moved = false;
            for (Index turn = 0; turn < 2 * ranks; ++turn) {
                Index rank = turn < ranks ? turn : 2 * ranks - 1 - turn;
                while (at[rank] < start[rank + 1]) {
                    Index pass = at[rank], source = links(0, pass), target = links(1, pass), sent = sender[rank];
                    bool waits = apart[rank] == 1 && exchanged[pass] == 1;
                    double ready = std::max(free[rank], floor[pass]), used = UNKNOWN;
                    if (source >= 0) {
                        if (times(END, source) == UNKNOWN) break;
                        ready = std::max(ready, times(END, source));
                        if (owner[source] != rank) {
                            if (times(ARRIVED, source) == UNKNOWN) send(source, owner[source], rank), moved = true;
                            used = times(ARRIVED, source);
                            ready = std::max(ready, used);
                        }
                    }
                    if (sent >= 0 && (blocking || waits)) {
                        if (times(ARRIVED, sent) == UNKNOWN) break;
                        used = std::max(used, times(ARRIVED, sent));
                        if (blocking) ready = std::max(ready, times(ARRIVED, sent));
                        sender[rank] = -1;
                    }
                    double end = ready + durations[pass], needed = ready + lead(0, pass);
                    if (waits) {
                        auto [begin, up] = inside_up(rank, needed, used);
                        times(TO_INSIDE, pass) = begin;
                        end += std::max(0.0, up - needed);
                        times(TO_PIPELINE, pass) = demand ? end : end - lead(1, pass);
                        state(BEGUN, rank) = 1.0;
                    } else if (exchanged[pass] == 1) {
                        end += std::max(0.0, circuits_up(rank, needed) - needed);
                    }
                    if (exchanged[pass] == 1) state(IDLE, rank) = end - lead(1, pass), state(PASSED, rank) = end;
                    times(BEGIN, pass) = ready, times(END, pass) = free[rank] = end;
                    if (target >= 0) {
                        if (apart[target] == 0) send(pass, rank, target);
                        sender[rank] = pass;
                    }
                    ++at[rank], --left;
                    moved = true;
                }
            }
        }
        return left == 0;
    }
};

}  // namespace topoopt::jobs
