// Graphs as CSR arcs: breadth-first search, cycle factors, walks.
#include "bfs.hpp"
#include "border.hpp"

namespace topoopt {

void bind_graph(nb::module_ &m) {
    m.def("hop_distances", &hop_distances<std::int32_t>, "first"_a, "head"_a, "n"_a, Unlocked());
    m.def("hop_distances", &hop_distances<std::int64_t>, "first"_a, "head"_a, "n"_a, Unlocked());
    m.def("breadth_first_trees", &breadth_first_trees, "first"_a, "head"_a, "n"_a, Unlocked());
}

}  // namespace topoopt
