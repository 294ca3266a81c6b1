// Routing of a demand: shortest paths, exact flows, greedy routes.
#include <nanobind/stl/optional.h>

#include "border.hpp"
#include "circulant_paths.hpp"
#include "greedy_routes.hpp"
#include "hop_limits.hpp"
#include "near_paths.hpp"
#include "softmin.hpp"

namespace topoopt {

using namespace routing;

void bind_routing(nb::module_ &m) {
    nb::class_<Router>(m, "Router")
        .def(nb::init<Ints, Ints, Table<const double>, Index>(), "first"_a, "head"_a, "demand"_a, "sources"_a,
             Unlocked())
        .def(
            "copy", [](const Router &router, Index sources) { return new Router(router, sources); }, "sources"_a,
            Unlocked())
        .def("total_distance", &total_distance, "length"_a, Unlocked())
        .def("tree_flows", &tree_flows, "length"_a, Unlocked())
        .def("repaired_flow", &repaired_flow, "length"_a, "given"_a, Unlocked())
        .def("limited_total", &limited_total, "length"_a, "max_hops"_a, Unlocked())
        .def("limited_flow", &limited_flow, "length"_a, "given"_a, "max_hops"_a, Unlocked())
        .def("sweep", &sweep, "capacity"_a, "flow"_a, "routed"_a, "sharpness"_a, "spread"_a, Unlocked())
        .def("soft_loads", &soft_loads, "length"_a, "softness"_a, "scale"_a, "total"_a, "start"_a, "stop"_a,
             "flow"_a = nb::none(), Unlocked())
        .def("mark_near", &mark_near, "length"_a, "width"_a, "most"_a, "near"_a, Unlocked())
        .def("choices", &choices, "near"_a, "flow"_a, Unlocked());
    nb::class_<CirculantPaths>(m, "CirculantPaths")
        .def(nb::init<Ints, Index>(), "offsets"_a, "n"_a, Unlocked())
        .def("distances", &CirculantPaths::distances, "lengths"_a, Unlocked())
        .def("loads", &CirculantPaths::loads, "weight"_a, Unlocked())
        .def("flow", &CirculantPaths::flow, "weight"_a, Unlocked())
        .def("steps", &CirculantPaths::steps_taken, Unlocked());
    m.def("circulant_tree", &circulant_tree, "offsets"_a, "lengths"_a, "weights"_a, Unlocked());
    m.def("add_circulant_tree", &add_circulant_tree, "offsets"_a, "tree"_a, "weights"_a, "flow"_a, Unlocked());
    m.def("route_demands", &route_demands, "order"_a, "source"_a, "target"_a, "amount"_a, "first"_a, "head"_a,
          "hops_to"_a, "inverse_capacity"_a, "load"_a, "path_first"_a, "path_arc"_a, "reroute"_a, Unlocked());
    m.def("tree_loads", &tree_loads, "tail"_a, "order"_a, "via"_a, "amount"_a, Unlocked());
    nb::class_<DisplacementPaths>(m, "DisplacementPaths")
        .def(nb::init<Ints, Ints, Index>(), "tail"_a, "head"_a, "n"_a, Unlocked())
        .def("route", &DisplacementPaths::route, "source"_a, "target"_a, "amount"_a, "start"_a, "load"_a, "path_arc"_a,
             "reroute"_a, Unlocked());
}

}  // namespace topoopt
