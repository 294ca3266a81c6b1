// Max-min rates; time models fluid and flexnet; transfers that share circuits; multipliers of the two-layer bound.
#include "flexnet.hpp"
#include "fluid.hpp"
#include "job_arrays.hpp"
#include "shared_circuits.hpp"
#include "two_layer.hpp"

namespace topoopt {

using namespace flows;

namespace {

std::vector<double> max_min_rates(Ints first, Int32s link, Floats link_rate, Ints weight) {
    Index routes = weight.size;
    require_offsets(first, routes, link.size, "first");
    require_within(link, 0, link_rate.size, "link");
    std::vector<std::int64_t> active(routes);
    for (Index r = 0; r < routes; ++r) active[r] = r;
    std::vector<double> rate(routes);
    MaxMinFill filling;
    filling.reset(link_rate.size);
    filling.fill(active, weight, first.part(0, routes), first.part(1, routes + 1), link, link_rate, rate);
    return rate;
}

void require_finite(Floats items, const char *name) {
    for (double item : items) require(0.0 <= item && item <= 1e300, name, "a number is negative, too large or none");
}

// A network and a task graph for models that know AllReduces on rings only.
struct Job {
    Network network;
    GraphView graph;

    Job(nb::tuple graph_arrays, nb::tuple network_arrays, Ints job_ptr)
        : network(network_of(network_arrays)), graph(graph_of(graph_arrays, network)) {
        require(network.schedules.from_bytes.size == 0, "network", "schedules are unknown to this time model");
        require(graph.tasks() < (Index(1) << 25), "graph", "too many tasks");
        require_rows(job_ptr, graph.tasks(), 0, graph.tasks(), "job_ptr");
        require_finite(graph.duration, "duration");
        require_finite(network.link_rate, "link_rate");
        require_finite(network.path_share, "path_share");
        require_finite(network.ring_share, "ring_share");
        const double latencies[] = {network.hop_latency, network.round_latency};
        require_finite({latencies, 2}, "latency");
    }
};

nb::tuple outcome(Tasks &tasks, std::vector<double> carried, std::vector<double> busy) {
    double latest = tasks.end.empty() ? 0.0 : *std::max_element(tasks.end.begin(), tasks.end.end());
    Index left = tasks.left();
    return nb::make_tuple(latest, std::move(tasks.start), std::move(tasks.end), std::move(tasks.cause),
                          std::move(tasks.first_end), std::move(carried), std::move(busy), left);
}

nb::tuple simulate_fluid(nb::tuple graph, nb::tuple network, Ints job_ptr, bool restart) {
    Job job(graph, network, job_ptr);
    nb::gil_scoped_release release;
    FluidModel model(job.graph, job.network, job_ptr, restart);
    std::vector<double> carried = model.carried(), busy = carried;
    for (Index link = 0; link < job.network.links(); ++link) busy[link] /= job.network.link_rate[link];
    nb::gil_scoped_acquire acquire;
    return outcome(model.tasks, std::move(carried), std::move(busy));
}

nb::tuple simulate_flexnet(nb::tuple graph, nb::tuple network, Int8s directions, Int32s opposite, Ints job_ptr) {
    Job job(graph, network, job_ptr);
    nb::gil_scoped_release release;
    FlexnetModel model(job.graph, job.network, directions, opposite, job_ptr);
    nb::gil_scoped_acquire acquire;
    return outcome(model.tasks, std::move(model.carried), std::move(model.busy));
}

}  // namespace

void bind_flows(nb::module_ &m) {
    m.def("max_min_rates", &max_min_rates, "first"_a, "link"_a, "link_rate"_a, "weight"_a, Unlocked());
    m.def("simulate_fluid", &simulate_fluid, "graph"_a, "network"_a, "job_ptr"_a, "restart"_a);
    m.def("simulate_flexnet", &simulate_flexnet, "graph"_a, "network"_a, "directions"_a, "opposite"_a, "job_ptr"_a);
    nb::class_<SharedCircuits>(m, "SharedCircuits")
        .def(nb::init<Ints, Ints, Ints, Floats, Floats, Ints, Index>(), "first"_a, "successor"_a, "waits"_a,
             "duration"_a, "volume"_a, "channel"_a, "pairs"_a)
        .def("follow", &SharedCircuits::follow, "circuits"_a, "rate"_a, Unlocked())
        .def("makespan", &SharedCircuits::makespan, "circuits"_a, "rate"_a, Unlocked());
    nb::class_<TwoLayerSearch>(m, "TwoLayerSearch")
        .def(nb::init<Index, Table<const float>>(), "degree"_a, "demand"_a)
        .def("run", &TwoLayerSearch::run, "iterations"_a, Unlocked())
        .def("multipliers", [](const TwoLayerSearch &search) {
            auto [weight, first_link, ends] = search.multipliers();
            return std::tuple(std::move(weight), std::move(first_link), std::move(ends));
        });
}

}  // namespace topoopt
