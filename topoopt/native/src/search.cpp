// Search over topologies: exchanges of links and of orbits of links, prices that prove a topology, prices of relay
// blocks.
#include "border.hpp"
#include "exchanges.hpp"
#include "lifts.hpp"
#include "prices.hpp"
#include "relay.hpp"

namespace topoopt {

using namespace search;

void bind_search(nb::module_ &m) {
    m.def("hop_total", &hop_total, "out"_a, "demand"_a, Unlocked());
    m.def("cut_hop_total", &cut_hop_total, "out"_a, "demand"_a, "levels"_a, Unlocked());
    m.def("anneal", &anneal, "out"_a, "into"_a, "demand"_a, "allowed"_a, "group"_a, "levels"_a, "paired"_a,
          "parallel"_a, "hot"_a, "cold"_a, "proposals"_a, "seed"_a, "ahead"_a, Unlocked());
    m.def("rewire", &rewire, "out"_a, "into"_a, "best"_a, "demand"_a, "allowed"_a, "kept"_a, "limit"_a, "paired"_a,
          "parallel"_a, "hot"_a, "cold"_a, "proposals"_a, "seed"_a, "least"_a, Unlocked());
    m.def("anneal_lift", &anneal_lift, "a"_a, "row"_a, "turn"_a, "degree"_a, "one_way"_a, "anew"_a, "peer"_a, "shift"_a,
          "proposals"_a, "hot"_a, "cold"_a, "levels"_a, "seed"_a, Unlocked());
    m.def("lift_distances", &lift_distances, "a"_a, "row"_a, "turn"_a, "degree"_a, "one_way"_a, "peer"_a, "shift"_a,
          Unlocked());
    m.def("link_distances", &link_distances, "out"_a, "length"_a, Unlocked());
    m.def("price_links", &price_links, "out"_a, "demand"_a, "target"_a, "sweeps"_a, "weight"_a, "flow"_a, "potential"_a,
          "length"_a, Unlocked());
    nb::class_<RelayDual>(m, "RelayDual")
        .def(
            "__init__",
            [](RelayDual *self, Index d, Table<const double> demand, double further, double theta,
               Table<const std::int64_t> least, Table<const std::int64_t> most, Table<const double> split) {
                require_relay(d, demand, least, most, split);
                new (self) RelayDual(d, demand, further, theta, least, most, split);
            },
            "d"_a, "demand"_a, "further"_a, "theta"_a, "least"_a, "most"_a, "split"_a)
        .def(
            "value",
            [](RelayDual &self, Table<const double> price, Table<const double> relief, Table<const double> shift,
               double theta, Index steps, bool exact) {
                for (auto [table, name] : {std::pair{price, "price"}, {relief, "relief"}, {shift, "shift"}})
                    require_shape(table, self.servers(), self.servers(), name);
                return self.value(price, relief, shift, theta, steps, exact);
            },
            "price"_a, "relief"_a, "shift"_a, "theta"_a, "steps"_a, "exact"_a, Unlocked())
        .def("gradients", &RelayDual::gradients)
        .def("uses", &RelayDual::uses)
        .def("forget_uses", &RelayDual::forget_uses)
        .attr("PREMIUM") = RelayDual::premium_of_theta;
}

}  // namespace topoopt
