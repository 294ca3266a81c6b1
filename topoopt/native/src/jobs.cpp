// Strategies of jobs: lowering, bounds, time models rounds and hop, annealing; rings; shared clusters; switched
// pipelines.
#include <nanobind/stl/optional.h>

#include "anneal.hpp"
#include "cluster.hpp"
#include "job_arrays.hpp"
#include "rings.hpp"
#include "switching.hpp"

namespace topoopt {

using namespace jobs;

namespace {

LikeLayers layers_of(nb::handle named, const Workload &w) {
    LikeLayers l;
    Fields(named).into(l.layer_ptr, l.branch_ptr, l.op, l.like);
    Index layers = l.like.size;
    require(l.layer_ptr.size == layers + 1, "layer_ptr", "wrong length");
    require_rows(l.layer_ptr, l.branch_ptr.size - 1, 1, l.branch_ptr.size, "layer_ptr");
    require_rows(l.branch_ptr, l.op.size, 1, l.op.size, "branch_ptr");
    require_within(l.op, 0, w.channels.size, "operator");
    require_within(l.like, 0, layers, "like");
    for (Index layer = 0; layer < layers; ++layer) {  // all branches of like layers have as many operators
        Index other = l.like[layer], branches = l.layer_ptr[layer + 1] - l.layer_ptr[layer];
        Index first = l.layer_ptr[other], length = l.branch_ptr[first + 1] - l.branch_ptr[first];
        require(branches == l.layer_ptr[other + 1] - first, "like", "layers of other numbers of branches");
        for (Index b = l.layer_ptr[layer]; b < l.layer_ptr[layer + 1]; ++b)
            require(l.branch_ptr[b + 1] - l.branch_ptr[b] == length, "branch_ptr", "branches of other lengths");
    }
    for (Index o : l.op) require(w.pinned[o] < 0, "operator", "pinned");
    return l;
}

Shape shape_of(nb::handle named, const Workload &w) {
    Shape g;
    Fields fields(named);
    fields.into(g.neighbour_ptr, g.neighbour, g.chain_ptr, g.chain, g.chain_of);
    Index operators = w.channels.size;
    require(operators > 0, "workload", "there are no operators");
    require(g.neighbour_ptr.size == operators + 1, "neighbour_ptr", "wrong length");
    require_rows(g.neighbour_ptr, g.neighbour.size, 0, g.neighbour.size, "neighbour_ptr");
    require_within(g.neighbour, 0, operators, "neighbour");
    require_rows(g.chain_ptr, g.chain.size, 1, g.chain.size, "chain_ptr");
    require_within(g.chain, 0, operators, "chain");
    require_size(g.chain_of, operators, "chain_of");
    require_within(g.chain_of, 0, g.chain_ptr.size - 1, "chain_of");
    g.layers = layers_of(fields.item(), w);
    return g;
}

Workload workload_with(nb::handle named, Ints split, Ints offset) {
    Workload w = workload_of(named);
    require_strategy(w, split, offset);
    return w;
}

nb::tuple lowered(nb::tuple workload, Ints split, Ints offset) {
    Workload w = workload_with(workload, split, offset);
    Graph g;
    {
        nb::gil_scoped_release release;
        lower(w, split, offset, g);
    }
    return nb::make_tuple(std::move(g.kind), std::move(g.source), std::move(g.target), std::move(g.group),
                          std::move(g.duration), std::move(g.size), std::move(g.op), std::move(g.successor_ptr),
                          std::move(g.successor));
}

nb::tuple simulated(nb::tuple graph, nb::tuple network, bool rounds, double threshold, std::optional<Floats> until,
                    bool record, std::optional<Ints> jobs_at, bool restart) {
    Network w = network_of(network);
    GraphView g = graph_of(graph, w);
    const std::vector<std::int64_t> whole{0, g.tasks()};
    Ints job_ptr = jobs_at.value_or(Ints(whole));
    require_rows(job_ptr, g.tasks(), 0, g.tasks(), "job_ptr");
    std::vector<double> same;
    if (until) require_size(*until, g.tasks(), "deadline");
    else same.assign(g.tasks(), threshold);
    ArrivalModel model;
    double time;
    {
        nb::gil_scoped_release release;
        time = model.run(g, w, rounds, threshold, until.value_or(Floats(same)), record, job_ptr, restart);
    }
    Tasks &t = model.tasks;
    Index left = t.left();
    return nb::make_tuple(time, std::move(t.start), std::move(t.end), std::move(t.cause), std::move(t.first_end),
                          std::move(model.carried), std::move(model.busy), left);
}

std::pair<bool, std::vector<double>> load_bound(nb::tuple graph, nb::tuple network, double limit) {
    Network w = network_of(network);
    GraphView g = graph_of(graph, w);
    std::vector<double> deadline(g.tasks());
    nb::gil_scoped_release release;
    bool longer = LoadBound().surely_longer(g, w, limit, deadline);
    return {longer, std::move(deadline)};
}

bool propose(nb::tuple workload, nb::tuple shape, View<std::int64_t> split, View<std::int64_t> offset,
             View<std::uint64_t> state) {
    Workload w = workload_with(workload, split, offset);
    Shape g = shape_of(shape, w);
    require_size(state, 1, "state");
    return Moves(w, g, Random{state[0]}, {split, offset}).propose();
}

bool move_layer(nb::tuple workload, nb::tuple layers, View<std::int64_t> split, View<std::int64_t> offset,
                View<std::uint64_t> state) {
    Workload w = workload_with(workload, split, offset);
    Shape g;
    g.layers = layers_of(layers, w);
    require_size(state, 1, "state");
    require(g.layers.like.size > 0, "layers", "there are none");
    return Moves(w, g, Random{state[0]}, {split, offset}).move_layer();
}

// An annealing run with the named tuples whose arrays it looks at.
struct Annealing {
    nb::tuple workload, network, shape;
    std::unique_ptr<Annealer> run;
};

Annealing *new_annealing(nb::tuple workload, nb::tuple network, nb::tuple shape, Ints split, Ints offset,
                         double capacity, std::uint64_t seed, bool rounds, Index most_tasks, double start_ms,
                         Index threads) {
    require(0 < threads && threads <= 256, "threads", "out of range");
    Workload w = workload_with(workload, split, offset);
    Network net = network_of(network);
    Shape g = shape_of(shape, w);
    require_groups(w, net);
    std::unique_ptr<Annealer> run;
    {
        nb::gil_scoped_release release;
        run =
            std::make_unique<Annealer>(w, net, g, split, offset, capacity, seed, rounds, most_tasks, start_ms, threads);
    }
    return new Annealing{workload, network, shape, std::move(run)};
}

std::tuple<Matrix<double>, Matrix<double>, bool> follow_passes(Ints start, Table<const std::int64_t> links,
                                                               Floats durations, Ints exchanged,
                                                               Table<const double> lead, Floats floor,
                                                               Table<const double> hops, Floats idle, Floats first,
                                                               Floats inside, Table<const double> delay, Ints apart,
                                                               bool demand, bool blocking) {
    PassTimes run{start, exchanged, apart, links,  durations, floor, idle, first, inside,
                  lead,  hops,      delay, demand, blocking,  {},    {},   {}};
    run.check();
    bool done = run.follow();
    return {std::move(run.times), std::move(run.state), done};
}

}  // namespace

void bind_jobs(nb::module_ &m) {
    m.def("lower", &lowered, "workload"_a, "split"_a, "offset"_a);
    m.def(
        "task_count",
        [](nb::tuple workload, Ints split, Ints offset) {
            return task_count(workload_with(workload, split, offset), split, offset);
        },
        "workload"_a, "split"_a, "offset"_a);
    m.def(
        "quick_bounds",
        [](nb::tuple workload, Ints split, Ints offset, double capacity) {
            QuickBounds found = quick_bounds(workload_with(workload, split, offset), split, offset, capacity);
            return std::pair(found.time, found.overflow);
        },
        "workload"_a, "split"_a, "offset"_a, "capacity"_a);
    m.def("simulate", &simulated, "graph"_a, "network"_a, "rounds"_a, "threshold"_a = INF, "deadline"_a = nb::none(),
          "record"_a = false, "job_ptr"_a = nb::none(), "restart"_a = false);
    m.def("load_bound", &load_bound, "graph"_a, "network"_a, "limit"_a);
    m.def("propose", &propose, "workload"_a, "shape"_a, "split"_a, "offset"_a, "state"_a);
    m.def("move_layer", &move_layer, "workload"_a, "layers"_a, "split"_a, "offset"_a, "state"_a);
    nb::class_<Annealing>(m, "Annealing")
        .def(nb::new_(&new_annealing), "workload"_a, "network"_a, "shape"_a, "split"_a, "offset"_a, "capacity"_a,
             "seed"_a, "rounds"_a = false, "most_tasks"_a = Scorer::NO_LIMIT, "start_ms"_a = std::nan(""),
             "threads"_a = 1)
        .def(
            "run",
            [](Annealing &it, Index proposals, double temperature, double cooling) {
                it.run->run(proposals, temperature, cooling);
            },
            "proposals"_a, "temperature"_a, "cooling"_a, Unlocked())
        .def_prop_ro("counts", [](const Annealing &it) { return array_of(it.run->counts); })
        .def_prop_ro("best_ms", [](const Annealing &it) { return it.run->best_ms(); })
        .def_prop_ro("best", [](const Annealing &it) { return std::pair(it.run->best_split, it.run->best_offset); });
    m.def("exact_ring", &exact_ring, "distance"_a, Unlocked());
    m.def("move_segments", &move_segments, "distance"_a, "order"_a, Unlocked());
    m.def("fair_rates", &fair_rates, "active"_a, "low"_a, "high"_a, "link"_a, "part"_a, "capacity"_a, "limit"_a);
    m.def("follow_passes", &follow_passes, "start"_a, "links"_a, "durations"_a, "exchanged"_a, "lead"_a, "floor"_a,
          "hops"_a, "idle"_a, "first"_a, "inside"_a, "delay"_a, "apart"_a, "demand"_a, "blocking"_a, Unlocked());
}

}  // namespace topoopt
