// Exact bounds of small networks: enumeration, and blocks of links at the nodes of a tree.
#include "blocks.hpp"
#include "border.hpp"
#include "enumeration.hpp"

namespace topoopt {

using namespace exact;

void bind_exact(nb::module_ &m) {
    m.def("maximal_networks", &maximal_networks, "n"_a, "degree"_a, "most_links"_a, "mirrored"_a, "tails"_a, "heads"_a,
          "limit"_a, Unlocked());
    nb::class_<RegularNetworks>(m, "RegularNetworks")
        .def(
            "__init__",
            [](RegularNetworks *self, Index n, Index degree, Index moore, Index least, Index most) {
                constexpr Index large = Index(1) << 40;
                require(n >= 1 && n <= 62, "n", "1 to 62 servers are needed");
                require(degree >= 1 && degree <= 4096, "degree", "1 to 4096 are needed");
                for (auto [value, name] : {std::pair{moore, "moore"}, {least, "least"}, {most, "most"}})
                    require(0 <= value && value <= large, name, "a sum of hops is needed");
                new (self) RegularNetworks(n, degree, moore, least, most);
            },
            "n"_a, "degree"_a, "moore"_a, "least"_a, "most"_a)
        .def("over", &RegularNetworks::over)
        .def("next", &RegularNetworks::next, "steps"_a, "graphs"_a, Unlocked());
    m.def("ascend", &ascend, "demand"_a, "price"_a, "relief"_a, "shift"_a, "theta"_a, "rows"_a, "into"_a,
          "iterations"_a, Unlocked());
    m.def("children", &children, "demand"_a, "price"_a, "relief"_a, "shift"_a, "bar"_a, "theta"_a, "rows"_a, "into"_a,
          Unlocked());
    m.def("far_lengths", &far_lengths, "price"_a, Unlocked());
}

}  // namespace topoopt
