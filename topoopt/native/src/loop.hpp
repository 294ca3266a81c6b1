// The loop of all event simulations, over a model with `next_change`, `serve`, `handle` and `settle`.
#pragma once
#include <limits>

#include "events.hpp"
#include "stop.hpp"

namespace topoopt {

// Goes from event to event until none is left, the next is later than `limit`, or it is over.
//
//   next_change()       when something happens on the links by itself; infinity: never
//   serve(at)           lets the links carry until that time; the time up to which events are taken together
//   handle(at, code)    does what an event with this time and code says; true: it is over
//   settle()            after all that happens at one time, takes the links anew into account; true: it is over
//
// Returns the time of the next event, infinity if there is none; minus infinity if it is over.
template <class Model> double run_events(Model &model, EventQueue &q, double limit) {
    constexpr double NEVER = std::numeric_limits<double>::infinity();
    StopWatch look;
    double at;
    while (true) {
        look();
        double upcoming = model.next_change();
        if (q.first(at)) upcoming = std::min(at, upcoming);
        if (upcoming > limit || upcoming == NEVER) return upcoming;
        double together = model.serve(upcoming);
        while (q.first(at) && at <= together) {
            look();
            if (model.handle(at, q.take())) return -NEVER;
        }
        if (model.settle()) return -NEVER;
    }
}

}  // namespace topoopt
