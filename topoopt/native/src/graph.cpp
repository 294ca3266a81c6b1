// Graphs as CSR arcs: breadth-first search, cycle factors, walks; rings, matchings and paths of constructions.
#include <nanobind/stl/optional.h>

#include "bfs.hpp"
#include "border.hpp"
#include "cayley.hpp"
#include "circulant.hpp"
#include "collective.hpp"
#include "cycle_factors.hpp"
#include "hamiltonian.hpp"
#include "matchings.hpp"
#include "trees.hpp"
#include "walk.hpp"

namespace topoopt {

using namespace graph;

namespace {

void bind_constructions(nb::module_ &m) {
    m.def("circulant_hops", &circulant_hops, "n"_a, "coins"_a, Unlocked());
    m.def("circulant_scores", &circulant_scores, "n"_a, "sets"_a, Unlocked());
    m.def("coin_decompositions", &coin_decompositions, "n"_a, "coins"_a, "limit"_a, Unlocked());
    m.def("balance_coins", &balance_coins, "first"_a, "counts"_a, "displacement"_a, "amount"_a, "inverse"_a, "moves"_a,
          "seed"_a, Unlocked());
    m.def("order_coins", &order_coins, "coins"_a, "amount"_a, "inverse"_a, "order"_a, "counts"_a, Unlocked());
    m.def("circulant_paths", &circulant_paths, "n"_a, "source"_a, "path"_a, "first"_a, "jump"_a, Unlocked());
    m.def("hamiltonian_cycles", &hamiltonian_cycles, "counts"_a, "seed"_a, Unlocked());
    m.def("duplex_matchings", &duplex_matchings, "n"_a, "degree"_a, "ends"_a, Unlocked());
    m.def("complete_matching", &complete_matching, "weights"_a, "partner"_a, Unlocked());
}

void bind_collectives(nb::module_ &m) {
    nb::class_<CayleySearch>(m, "CayleySearch")
        .def(nb::init<Index, Index, Index, std::uint64_t>(), "degree"_a, "most_steps"_a, "parts"_a, "seed"_a)
        .def("climb", &CayleySearch::climb, "m"_a, "k"_a, "powers"_a, "paired"_a, "draws"_a, "patience"_a, Unlocked())
        .def_prop_ro("load", [](const CayleySearch &search) { return search.load; })
        .def_prop_ro("far", [](const CayleySearch &search) { return search.far; })
        .def_prop_ro("generators", [](const CayleySearch &search) { return search.generators; });
    m.def("shortest_path_loads", &shortest_path_loads, "distance"_a, "order"_a, "first"_a, "tails"_a, "label"_a,
          "weight"_a, Unlocked());
    m.def("makespan", &makespan, "block"_a, "tail"_a, "head"_a, "reduce"_a, "units"_a, "owner"_a, "start"_a, "arcs"_a,
          "once"_a, "us_per_unit"_a, "slow"_a, "nodes"_a, Unlocked());
    m.def("rank_cuts", &rank_cuts, "nodes"_a, "tail"_a, "head"_a, "capacity"_a, "rank"_a, "sent"_a, "sink"_a,
          "around_sink"_a, Unlocked());
    m.def("rank_paths", &rank_paths, "nodes"_a, "tail"_a, "head"_a, "length"_a, "is_rank"_a, "relaying"_a, "source"_a,
          Unlocked());
    m.def("least_tree", &least_tree, "cost"_a, "root"_a, Unlocked());
    m.def("pack_trees", &pack_trees, "nodes"_a, "tail"_a, "head"_a, "capacity"_a, "count"_a, "most"_a, "flat"_a,
          Unlocked());
}

}  // namespace

void bind_graph(nb::module_ &m) {
    m.def("hop_distances", &hop_distances<std::int32_t>, "first"_a, "head"_a, "n"_a, Unlocked());
    m.def("hop_distances", &hop_distances<std::int64_t>, "first"_a, "head"_a, "n"_a, Unlocked());
    m.def("breadth_first_trees", &breadth_first_trees, "first"_a, "head"_a, "n"_a, Unlocked());
    m.def("balanced_shortest_paths", &balanced_shortest_paths, "first"_a, "head"_a, "links"_a, "order"_a, Unlocked());
    m.def(
        "join_cycles",
        [](Borrowed<const std::int64_t, 3> factors, Index tries, std::uint64_t seed) {
            require(factors.shape(2) == 2, "factors", "two neighbours of each server are needed");
            return join_cycles({factors.data(), Index(factors.size())}, Index(factors.shape(0)),
                               Index(factors.shape(1)), tries, seed);
        },
        "factors"_a.noconvert(), "tries"_a, "seed"_a, Unlocked());
    bind_constructions(m);
    bind_collectives(m);
}

}  // namespace topoopt
