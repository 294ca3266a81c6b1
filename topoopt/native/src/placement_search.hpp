// Simulated annealing over placements and over priorities, in batches so that limits and Ctrl-C are seen.
#pragma once
#include <mutex>

#include "placed_step.hpp"
#include "random.hpp"

namespace topoopt::placement {

// The least value so far, and the current one.
struct Values {
    double current = NEVER, best = NEVER;

    // Whether a neighbour is taken; with a relative worsening of `temperature` at a chance of 1/e.
    template <class Evaluate> bool accept(Random rng, double temperature, Evaluate evaluate) {
        double limit = current * (1.0 - temperature * std::log(1.0 - rng.uniform())), value = evaluate(limit);
        bool accepted = value <= limit && value < NEVER;
        if (accepted) current = value;
        return accepted;
    }
    bool improved() {
        if (!(current < best)) return false;
        best = current;
        return true;
    }
};

// What both have: a problem of their own to simulate. One thread at a time moves them.
class Annealing {
  protected:
    mutable std::mutex busy;
    Owned<PlacedGraph> a;
    std::vector<double> rate_items;
    Table<const double> rates;
    PlacedStep step;
    std::uint64_t state;
    Values values;

    Annealing(const PlacedGraph &graph, Table<const double> given, std::uint64_t seed)
        : a((graph.check(), graph.check_rates(given), graph)),
          rate_items(given.flat().begin(), given.flat().end()),
          rates(rate_items.data(), given.rows, given.columns),
          step(a),
          state(seed) {}

  public:
    double value() const {
        std::lock_guard lock(busy);
        return values.best;
    }
};

class PlacementAnnealing : public Annealing {         // of groups
    static constexpr int MOST_GROUPS = 5, TRIES = 8;  // a move takes a connected bunch of up to 2**5 groups
    static constexpr double ANYWHERE = 0.05, SWAPPED = 0.1;
    struct Move {
        Index group, source;
    };

    Owned<GroupGraph> g;
    bool allocate;
    std::vector<Index> current, best, device, used;
    std::vector<Move> moved;

    Random rng() { return {state}; }
    bool chance(double probability) { return rng().uniform() < probability; }
    Index groups() const { return Index(current.size()); }
    bool fits(Index group, Index target, Index freed) const {
        return used[target] - freed + g.memory[group] <= a.room[target];
    }
    void put(Index group, Index target) {
        used[current[group]] -= g.memory[group];
        used[target] += g.memory[group];
        current[group] = target;
        for (Index at = a.group_ptr[group]; at < a.group_ptr[group + 1]; ++at) device[a.group_member[at]] = target;
    }
    void move(Index group, Index target) {
        moved.push_back({group, current[group]});
        put(group, target);
    }
    // A group and a device to take it to, mostly that of a neighbour; whether there is one.
    bool select(Index &group, Index &target) {
        for (int tries = 0; tries < TRIES; ++tries) {
            group = rng().below(groups());
            Index degree = g.degree(group);
            target = degree == 0 || chance(ANYWHERE)
                         ? rng().below(a.devices())
                         : current[g.neighbour[g.neighbour_ptr[group] + rng().below(degree)]];
            if (target != current[group] && g.time(group, target) < NEVER) return true;
        }
        return false;
    }
    void swap(Index group, Index target) {  // with a group there
        Index source = current[group], other = rng().below(groups());
        for (int tries = 0; tries < TRIES; ++tries) {
            if (current[other] == target && g.time(other, source) < NEVER && fits(group, target, g.memory[other]) &&
                fits(other, source, g.memory[group])) {
                move(group, target);
                return move(other, source);
            }
            other = rng().below(groups());
        }
    }
    void propose() {
        Index group, target;
        moved.clear();
        if (!select(group, target)) return;
        if (chance(SWAPPED)) return swap(group, target);
        std::size_t most = std::size_t(1) << rng().below(MOST_GROUPS + 1);
        Index source = current[group];
        if (!fits(group, target, 0)) return;
        move(group, target);
        for (std::size_t at = 0; at < moved.size() && moved.size() < most; ++at) {
            Index low = g.neighbour_ptr[moved[at].group], degree = g.degree(moved[at].group);
            Index shift = degree > 0 ? rng().below(degree) : 0;
            for (Index index = 0; index < degree && moved.size() < most; ++index) {
                Index other = g.neighbour[low + (index + shift) % degree];
                if (current[other] == source && g.time(other, target) < NEVER && fits(other, target, 0))
                    move(other, target);
            }
        }
    }
    void place_all() {
        std::fill(used.begin(), used.end(), 0);
        for (Index group = 0; group < groups(); ++group) used[current[group]] += g.memory[group];
        for (Index i = 0; i < a.operators(); ++i) device[i] = current[a.group[i]];
    }

  public:
    PlacementAnnealing(const PlacedGraph &graph, const GroupGraph &group_graph, Ints start, Table<const double> given,
                       bool allocate, std::uint64_t seed)
        : Annealing(graph, given, seed),
          g((group_graph.check(a), group_graph)),
          allocate(allocate),
          current(start.begin(), start.end()),
          best(current),
          device(a.operators()),
          used(a.devices()) {
        require_size(start, a.group_ptr.size - 1, "start"), require_within(start, 0, a.devices(), "start");
        a.check_times();
        place_all();
        values.current = values.best = step.makespan(device, rates, allocate, NEVER);
    }
    // Makes so many moves, cooling from `hot` to `cold`, relative to the current makespan.
    void run(Index moves, double hot, double cold) {
        std::lock_guard lock(busy);
        for (Index at = 0; at < moves && groups() > 0; ++at) {
            look_at_stop();
            propose();
            if (moved.empty()) continue;
            double temperature = hot * std::pow(cold / hot, double(at) / double(moves));
            if (values.accept(rng(), temperature,
                              [&](double limit) { return step.makespan(device, rates, allocate, limit); })) {
                if (values.improved()) best = current;
            } else {
                for (Move back : moved) put(back.group, back.source);
            }
        }
    }
    void restart() {  // from the best placement
        std::lock_guard lock(busy);
        current = best, values.current = values.best;
        place_all();
    }
    std::vector<Index> placement() const {
        std::lock_guard lock(busy);
        return best;
    }
};

class PriorityAnnealing : public Annealing {  // of the operators of one placement
    static constexpr double REACH = 0.1;      // a priority moves by up to this part of the makespan
    static constexpr double WORSE = 2e-4;     // relative worsening accepted with chance 1/e

    std::vector<Index> device;
    std::vector<double> tail, current, best;

    double makespan(double limit) { return step.run(device, current, tail, rates, limit); }

  public:
    PriorityAnnealing(const PlacedGraph &graph, Ints placement, Table<const double> given, Floats start,
                      std::uint64_t seed)
        : Annealing(graph, given, seed),
          device(placement.begin(), placement.end()),
          current(start.begin(), start.end()),
          best(current) {
        a.check(placement);
        require_size(start, a.operators(), "priority");
        tails_into(a, device, rates, tail);
        values.current = values.best = makespan(NEVER);
    }
    void run(Index moves) {
        std::lock_guard lock(busy);
        Random rng{state};
        for (Index at = 0; at < moves && !current.empty(); ++at) {
            look_at_stop();
            Index i = rng.below(Index(current.size()));
            double old = current[i];
            current[i] = old + (2 * rng.uniform() - 1) * REACH * values.best;
            if (!values.accept(rng, WORSE, [&](double limit) { return makespan(limit); })) current[i] = old;
            else if (values.improved()) best = current;
        }
    }
    std::vector<double> priority() const {
        std::lock_guard lock(busy);
        return best;
    }
};

}  // namespace topoopt::placement
