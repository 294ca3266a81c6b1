// Orders and stages of pipelines: bounds, sequences of passes, zero-bubble rounds; seats of the ranks of shards.
#include <nanobind/stl/optional.h>

#include "border.hpp"
#include "order_bound.hpp"
#include "order_times.hpp"
#include "pass_program.hpp"
#include "seats.hpp"
#include "zero_bubble.hpp"

namespace topoopt {

void bind_pipeline(nb::module_ &m) {
    using namespace pipeline;
    using Shapes = Table<const std::int64_t>;
    using Costs = Table<const double>;
    m.def("even_stages", &even_stages, "layers"_a, "p"_a, "v"_a, "first"_a, "last"_a, Unlocked());
    m.def("loads_of_ranks", &loads_of_ranks, "p"_a, "stages"_a, Unlocked());
    m.def("balanced_stages", &balanced_stages, "shape"_a, "seconds"_a, "held"_a, "flight"_a, "usable"_a, "layers"_a,
          "dense_layers"_a, "stages"_a, Unlocked());
    m.def(
        "stage_tables",
        [](Costs seconds, Costs exchange, Bools hidden, Shapes layers, Shapes before, Index predicted, Index kind) {
            return stage_tables({seconds, exchange, hidden, layers, before, predicted, kind});
        },
        "seconds"_a, "exchange"_a, "hidden"_a, "layers"_a, "before"_a, "predicted_layers"_a, "predicting_kind"_a,
        Unlocked());
    m.def(
        "order_bounds",
        [](Costs seconds, Costs exchange, Bools hidden, Shapes layers, Shapes before, Index predicted, Index kind,
           Shapes shape, Floats hop, bool hiding, bool blocking) {
            return order_bounds({seconds, exchange, hidden, layers, before, predicted, kind}, shape, hop, hiding,
                                blocking);
        },
        "seconds"_a, "exchange"_a, "hidden"_a, "layers"_a, "before"_a, "predicted_layers"_a, "predicting_kind"_a,
        "shape"_a, "hop"_a, "hiding"_a, "blocking"_a, Unlocked());
    m.def("ready_times", &ready_times, "tables"_a, "home"_a, "hiding"_a, Unlocked());
    m.def("reduced_times", &reduced_times, "tables"_a, "done"_a, "home"_a, "split"_a, "hiding"_a, Unlocked());
    m.def("rank_costs", &rank_costs_of, "tables"_a, "p"_a, "v"_a, "m"_a, "all_passes"_a, "hiding"_a, "paired"_a,
          Unlocked());
    nb::class_<PassProgram>(m, "PassProgram")
        .def(nb::init<Ints, Table<const std::int32_t>, Ints, Ints, Ints, Index, Index, bool>(), "start"_a, "passes"_a,
             "rank_of_stage"_a, "before"_a, "after"_a, "model_stages"_a, "micro_batches"_a, "blocking"_a, Unlocked())
        .def("ends", &PassProgram::ends, "forward"_a, "inputs"_a, "weights"_a, "transfer"_a, "ready"_a, "kept"_a,
             Unlocked());
    m.def(
        "zero_bubble",
        [](Shapes cost, Index transfer, Costs adds, Floats capacity, Index m, bool overlap_first, bool backward_first,
           bool greedy) {
            return ZeroBubbleRounds(cost, transfer, adds, capacity, m)(overlap_first, backward_first, greedy);
        },
        "cost"_a, "transfer"_a, "adds"_a, "capacity"_a, "m"_a, "overlap_first"_a, "backward_first"_a, "greedy"_a,
        Unlocked());
    m.def(
        "seat_ranks",
        [](Shapes switch_of, Shapes component, Ints size, Ints counts, Shapes free, Bools alike, Ints preference,
           Index nodes) { return Seats(switch_of, component, size, counts, free).search(alike, preference, nodes); },
        "switch_of"_a, "component"_a, "size"_a, "counts"_a, "free"_a, "alike"_a, "preference"_a, "nodes"_a, Unlocked());
}

}  // namespace topoopt
