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

  protected:
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
    // One of all operators or groups, half of the time of what is critical.
    Index select(const std::vector<Index> &critical, Index every) {
        return critical.empty() || chance(0.5) ? rng().below(every) : critical[rng().below(Index(critical.size()))];
    }
    // A group and a device to take it to, mostly that of a neighbour; whether there is one.
    bool select(Index &group, Index &target, double anywhere, const std::vector<Index> &critical) {
        for (int tries = 0; tries < TRIES; ++tries) {
            group = select(critical, groups());
            Index degree = g.degree(group);
            target = degree == 0 || chance(anywhere)
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

  private:
    void propose() {
        Index group, target;
        moved.clear();
        if (!select(group, target, ANYWHERE, {})) return;
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

  protected:
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

// Of the devices of groups and the order of operators at once, each after what it needs, in small graphs. Without
// contention a device waits for the next operator of the order; else the first ones have priority.
class OrderAnnealing : public PlacementAnnealing {
    static constexpr int TRIES = 4;
    static constexpr double ANYWHERE = 0.3, SWAPPED = 0.9, SHIFTED = 0.5;
    struct Shift {
        Index of, position;
    };

    std::vector<Index> order, best_order, position;
    std::vector<Index> maker, before, latest, critical, critical_groups;  // what each operator waited for
    std::vector<std::vector<Index>> makers, users;
    std::vector<Shift> shifted;
    Index final_one = -1;
    std::vector<double> sends, ready, free, priority;  // time of each tensor between each two devices

    // The makespan, or a number above the limit.
    double makespan(double limit) {
        Index k = a.devices();
        if (a.sharing != ALONE) {
            for (Index i = 0; i < a.operators(); ++i) priority[i] = double(position[i]);
            return step.run(device, priority, {}, rates, NEVER);
        }
        ready.assign(order.size(), 0.0), free.assign(k, 0.0), maker.assign(order.size(), -1), latest.assign(k, -1);
        double last = 0.0;
        for (Index i : order) {
            Index d = device[i];
            double time = a.time(i, d), end = ready[i] + time;
            before[i] = maker[i];
            if (time > 0) {
                if (free[d] > ready[i]) end = free[d] + time, before[i] = latest[d];
                free[d] = end, latest[d] = i;
            }
            if (end > last) last = end, final_one = i;
            if (last > limit) return last;
            for (Index tensor = a.tensor_ptr[i]; tensor < a.tensor_ptr[i + 1]; ++tensor) {
                const double *send = &sends[(tensor * k + d) * k];
                a.each_user(tensor, [&](Index j) {
                    if (double arrives = end + send[device[j]]; arrives > ready[j]) ready[j] = arrives, maker[j] = i;
                });
            }
        }
        return last;
    }
    void follow_critical() {
        critical.clear(), critical_groups.clear();
        for (Index i = a.sharing == ALONE ? final_one : -1; i >= 0; i = before[i])
            critical.push_back(i), critical_groups.push_back(a.group[i]);
    }
    void put_at(Index i, Index target) {
        auto from = order.begin() + position[i], to = order.begin() + target;
        if (from < to) std::rotate(from, from + 1, to + 1);
        else std::rotate(to, from, from + 1);
        for (auto at = std::min(from, to); at <= std::max(from, to); ++at) position[*at] = at - order.begin();
    }
    void shift(Index i) {  // to where another operator of its device is
        Index low = 0, high = Index(order.size()) - 1, target = position[i];
        for (Index j : makers[i]) low = std::max(low, position[j] + 1);
        for (Index j : users[i]) high = std::min(high, position[j] - 1);
        for (int tries = 0; tries < TRIES; ++tries) {
            target = low + rng().below(high - low + 1);
            if (order[target] != i && device[order[target]] == device[i]) break;
        }
        shifted.push_back({i, position[i]});
        put_at(i, target);
    }
    void propose() {
        Index group, target;
        moved.clear(), shifted.clear();
        if (chance(SHIFTED)) return shift(select(critical, Index(order.size())));
        if (!select(group, target, ANYWHERE, critical_groups)) return;
        if (chance(SWAPPED)) swap(group, target);
        else if (fits(group, target, 0)) move(group, target);
        for (Move place : moved) {
            Index low = a.group_ptr[place.group], members = a.group_ptr[place.group + 1] - low;
            if (chance(SHIFTED)) shift(a.group_member[low + rng().below(members)]);
        }
    }

  public:
    OrderAnnealing(const PlacedGraph &graph, const GroupGraph &group_graph, Ints start, Table<const double> given,
                   Ints first, std::uint64_t seed)
        : PlacementAnnealing(graph, group_graph, start, given, false, seed),
          order(first.begin(), first.end()),
          best_order(order),
          position(a.operators(), -1),
          before(a.operators()),
          makers(a.operators()),
          users(a.operators()),
          priority(a.operators()) {
        Index k = a.devices();
        require_size(first, a.operators(), "order"), require_within(first, 0, a.operators(), "order");
        for (Index at = 0; at < first.size; ++at) position[first[at]] = at;
        for (Index i = 0; i < first.size; ++i)
            for (Index tensor = a.tensor_ptr[i]; tensor < a.tensor_ptr[i + 1]; ++tensor) {
                a.each_user(tensor, [&](Index j) { makers[j].push_back(i), users[i].push_back(j); });
                for (Index d = 0; d < k; ++d)
                    for (Index e = 0; e < k; ++e) sends.push_back(a.send_time(a.tensor_size[tensor], d, e, rates));
            }
        for (Index i = 0; i < first.size; ++i) {
            require(position[i] >= 0, "order", "an operator is missing");
            for (Index j : makers[i]) require(position[j] < position[i], "order", "an operator precedes what it needs");
        }
        values.current = values.best = makespan(NEVER);
    }
    // Makes so many moves, cooling from `hot` to `cold`, relative to the current makespan.
    void run(Index moves, double hot, double cold) {
        std::lock_guard lock(busy);
        for (Index at = 0; at < moves && !order.empty(); ++at) {
            look_at_stop();
            propose();
            if (moved.empty() && shifted.empty()) continue;
            double temperature = hot * std::pow(cold / hot, double(at) / double(moves));
            if (values.accept(rng(), temperature, [&](double limit) { return makespan(limit); })) {
                follow_critical();
                if (values.improved()) best = current, best_order = order;
                continue;
            }
            for (; !shifted.empty(); shifted.pop_back()) put_at(shifted.back().of, shifted.back().position);
            for (Move back : moved) put(back.group, back.source);
        }
    }
    std::vector<Index> operators() const {
        std::lock_guard lock(busy);
        return best_order;
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
