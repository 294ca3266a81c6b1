// Devices of operators: simulation and annealing; circuits of task graphs.
#include <nanobind/stl/optional.h>

#include "border.hpp"
#include "circuit_bounds.hpp"
#include "placement_search.hpp"

namespace nanobind::detail {

// A struct of views, read from a named tuple with the same fields; its function checks the contents.
template <class T> struct tuple_caster {
    NB_TYPE_CASTER(T, const_name("tuple"))

    bool from_python(handle source, std::uint32_t, cleanup_list *) noexcept {
        try {
            topoopt::Fields named(source);
            value.fields([&](auto &...field) { named.into(field...); });
            return true;
        } catch (...) {
            return false;
        }
    }
};
template <> struct type_caster<topoopt::placement::PlacedGraph> : tuple_caster<topoopt::placement::PlacedGraph> {};
template <> struct type_caster<topoopt::placement::GroupGraph> : tuple_caster<topoopt::placement::GroupGraph> {};

}  // namespace nanobind::detail

namespace topoopt {

using namespace placement;

namespace {

using Doubles = std::vector<double>;
using Numbers = std::vector<Index>;
using Rates = Table<const double>;
using Scheduled = std::tuple<double, Doubles, Doubles, Numbers, Numbers, Doubles, Doubles>;

Doubles tails(const PlacedGraph &a, Ints device, Rates rates) {
    a.check(device, rates);
    Doubles tail;
    tails_into(a, device, rates, tail);
    return tail;
}

Scheduled simulate(const PlacedGraph &a, Ints device, Rates rates, Floats priority) {
    a.check(device, rates);
    require_size(priority, device.size, "priority");
    PlacedStep step(a);
    double makespan = step.run(device, priority, {}, rates, NEVER);
    Numbers tensor, target;
    Doubles start, end;
    for (const Transfer &y : step.transfers) {
        tensor.push_back(y.tensor), target.push_back(y.target);
        start.push_back(y.start), end.push_back(y.end);
    }
    return {makespan, std::move(step.start), std::move(step.end), tensor, target, start, end};
}

Scheduled simulate_in_order(const PlacedGraph &a, Ints device, Rates rates, Ints order) {
    a.check(device, rates);
    Index n = device.size;
    require_size(order, n, "order"), require_within(order, 0, n, "order");
    Doubles start(n), end(n), ready(n), free(a.devices()), sent, arrived;
    Numbers tensors, targets, stamp(a.devices(), -1);
    double last = 0.0;
    for (Index i : order) {
        Index d = device[i];
        double time = a.time(i, d);
        start[i] = time > 0 ? std::max(ready[i], free[d]) : ready[i];
        end[i] = start[i] + time;
        if (time > 0) free[d] = end[i];
        last = std::max(last, end[i]);
        for (Index tensor = a.tensor_ptr[i]; tensor < a.tensor_ptr[i + 1]; ++tensor)
            a.each_user(tensor, [&](Index j) {
                Index target = device[j];
                double arrives = end[i] + a.send_time(a.tensor_size[tensor], d, target, rates);
                ready[j] = std::max(ready[j], arrives);
                if (target == d || stamp[target] == tensor) return;
                stamp[target] = tensor;
                tensors.push_back(tensor), targets.push_back(target);
                sent.push_back(end[i]), arrived.push_back(arrives);
            });
    }
    return {last, start, end, tensors, targets, sent, arrived};
}

double makespan(const PlacedGraph &a, Ints device, Rates rates, bool allocate, double limit) {
    a.check(device, rates);
    return PlacedStep(a).makespan(device, rates, allocate, limit);
}

Matrix<double> rates_of_volumes(const PlacedGraph &a, Ints device, double power) {
    a.check(device);
    return rates_by_volume(a, device, power);
}

}  // namespace

void bind_placement(nb::module_ &m) {
    m.def("tails", &tails, "a"_a, "device"_a, "rates"_a, Unlocked());
    m.def("simulate", &simulate, "a"_a, "device"_a, "rates"_a, "priority"_a, Unlocked());
    m.def("simulate_in_order", &simulate_in_order, "a"_a, "device"_a, "rates"_a, "order"_a, Unlocked());
    m.def("makespan", &makespan, "a"_a, "device"_a, "rates"_a, "allocate"_a, "limit"_a, Unlocked());
    m.def("rates_by_volume", &rates_of_volumes, "a"_a, "device"_a, "power"_a);
    nb::class_<PlacementAnnealing>(m, "PlacementAnnealing")
        .def(nb::init<const PlacedGraph &, const GroupGraph &, Ints, Rates, bool, std::uint64_t>(), "a"_a, "g"_a,
             "start"_a, "rates"_a, "allocate"_a, "seed"_a)
        .def("run", &PlacementAnnealing::run, "moves"_a, "hot"_a, "cold"_a, Unlocked())
        .def("restart", &PlacementAnnealing::restart, Unlocked())
        .def("value", &PlacementAnnealing::value, Unlocked())
        .def("placement", &PlacementAnnealing::placement, Unlocked());
    nb::class_<OrderAnnealing>(m, "OrderAnnealing")
        .def(nb::init<const PlacedGraph &, const GroupGraph &, Ints, Rates, Ints, std::uint64_t>(), "a"_a, "g"_a,
             "start"_a, "rates"_a, "order"_a, "seed"_a)
        .def("run", &OrderAnnealing::run, "moves"_a, "hot"_a, "cold"_a, Unlocked())
        .def("value", &OrderAnnealing::value, Unlocked())
        .def("placement", &OrderAnnealing::placement, Unlocked())
        .def("order", &OrderAnnealing::operators, Unlocked());
    nb::class_<PriorityAnnealing>(m, "PriorityAnnealing")
        .def(nb::init<const PlacedGraph &, Ints, Rates, Floats, std::uint64_t>(), "a"_a, "device"_a, "rates"_a,
             "priority"_a, "seed"_a)
        .def("run", &PriorityAnnealing::run, "moves"_a, Unlocked())
        .def("value", &PriorityAnnealing::value, Unlocked())
        .def("priority", &PriorityAnnealing::priority, Unlocked());
    nb::class_<CircuitBounds>(m, "CircuitBounds")
        .def(nb::init<Ints, Ints, Ints, Floats, Floats, Ints, Table<const Index>, Ints, double>(), "first"_a,
             "successor"_a, "order"_a, "duration"_a, "volume"_a, "channel"_a, "ends"_a, "ports"_a, "rate"_a)
        .def("propagated", &CircuitBounds::propagated, "least"_a, "most"_a, "deadline"_a, Unlocked());
    nb::class_<Steps>(m, "Steps")
        .def(nb::init<Ints, Ints, Ints>(), "first"_a, "successor"_a, "order"_a)
        .def("longest_path", &Steps::longest_path, "length"_a, Unlocked());
}

}  // namespace topoopt
