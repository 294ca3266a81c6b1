// The extension module: one submodule a unit.
#include <array>

#include "border.hpp"
#include "stop.hpp"

namespace topoopt {

void bind_graph(nb::module_ &);      // breadth-first search, cycle factors, walks, rings and paths of constructions
void bind_jobs(nb::module_ &);       // strategies of jobs: lowering, load bounds, annealing, time models rounds and hop
void bind_flows(nb::module_ &);      // max-min rates; time models fluid and flexnet; clusters, switching
void bind_circuits(nb::module_ &);   // circuits that follow the job
void bind_placement(nb::module_ &);  // devices of operators: simulation and annealing; bounds of task graphs
void bind_pipeline(nb::module_ &);   // orders and stages of pipelines; seats of shards
void bind_routing(nb::module_ &);    // shortest paths, splits and flows of a demand
void bind_search(nb::module_ &);     // exchanges of links, prices and relay bounds
void bind_exact(nb::module_ &);      // enumeration and block bounds of small networks

}  // namespace topoopt

namespace {

using namespace topoopt;

struct StopFlag {
    Flag up = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace

NB_MODULE(_native, m) {
    nb::set_leak_warnings(false);  // what threads hold when the process ends is nobody's fault
    nb::exception<Stopped>(m, "Stopped", PyExc_SystemExit);
    nb::class_<StopFlag>(m, "StopFlag")
        .def(nb::init<>())
        .def("set", [](StopFlag &flag) { *flag.up = true; })
        .def("is_set", [](const StopFlag &flag) { return flag.up->load(); })
        .def("watch", [](const StopFlag &flag) { watched_flag = flag.up; })
        .def("unwatch", [](const StopFlag &) { watched_flag.reset(); });
    struct Unit {
        const char *name;
        void (*bind)(nb::module_ &);
    };
    for (auto [name, bind] :
         std::array{Unit{"graph", bind_graph}, Unit{"jobs", bind_jobs}, Unit{"flows", bind_flows},
                    Unit{"circuits", bind_circuits}, Unit{"placement", bind_placement}, Unit{"pipeline", bind_pipeline},
                    Unit{"routing", bind_routing}, Unit{"search", bind_search}, Unit{"exact", bind_exact}}) {
        nb::module_ unit = m.def_submodule(name);
        bind(unit);
    }
}
