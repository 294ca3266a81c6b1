// Circuits that follow the job: a scheduler that sets them for the bytes that wait, and schedules in stages.
#include "assign.hpp"
#include "border.hpp"
#include "circuit_run.hpp"

namespace topoopt {

using namespace circuits;

namespace {

constexpr double US_PER_MS = 1000.0;

CircuitWork work_of(nb::handle named, Index queues) {
    CircuitWork w;
    Fields(named).into(w.servers, w.kind, w.source, w.duration, w.successor_ptr, w.successor, w.chunk_ptr,
                       w.chunk_queue, w.chunk_bytes, w.hop_ms, w.stage, w.stage_delay);
    w.check(queues);
    return w;
}

struct CircuitScheduler {  // what may be joined and how, and when that is done
    Index degree;
    double link_rate, hop_latency_us;
    bool directed, forwarding, draining;
    double delay_ms, period_delays, least_period_ms;
    std::uint64_t random_state;

    void check() const {
        require_amount(link_rate * double(degree), "link_rate");
        require(link_rate > 0.0, "link_rate", "a rate above 0 is needed");
        require_amount(hop_latency_us, "hop_latency_us");
        require_amount(delay_ms, "delay_ms");
        require_amount(period_delays, "period_delays");
        require_amount(least_period_ms, "least_period_ms");
    }
    // How long circuits stand after so long a dark time.
    double period_ms(double dark_ms) const { return std::max(period_delays * dark_ms, least_period_ms); }
    Wires scheduled(Ints pairs, const Matrix<double> &demand) {
        return {scheduled_circuits(demand, degree, directed, forwarding, random_state), link_rate, forwarding, pairs};
    }
    Wires first(Ints pairs, Index n) {
        if (!directed) return scheduled(pairs, {n, n});
        return {random_circuits(n, degree, random_state), link_rate, forwarding, pairs};
    }
    // Time until what is on the way has arrived.
    double drain_ms(const CircuitSimulation &s) const {
        return draining ? double(s.longest_active()) * hop_latency_us / US_PER_MS : 0.0;
    }
};

// Iterations one after another, from the first circuits on. When circuits have stood for a period and bytes wait, all
// stops, circuits are assigned to what waits and carry again after the delay; while nothing waits, they stand.
auto follow_demand(const CircuitWork &work, Ints pairs, CircuitScheduler scheduler, Index iterations) {
    const Index n = work.servers;
    require_interfaces(n, scheduler.degree);
    scheduler.check();
    require_within(pairs, 0, n * n, "pairs");
    const double interval = scheduler.forwarding ? scheduler.hop_latency_us / US_PER_MS : 0.0;
    CircuitSimulation s(work, scheduler.first(pairs, n), interval);
    std::vector<double> times, served(pairs.size), start, end;
    Index changes = 0, remaining = 0;
    double dark = 0.0, carried = 0.0, now = 0.0, tick = 0.0, period = scheduler.period_ms(scheduler.delay_ms);
    auto look_next = [&](double at) {  // at the demand; the time must go on, or the run would never end
        require(at > tick && std::isfinite(at), "period_ms", "too short or too long for the times of this run");
        tick = at;
    };
    look_next(period);
    StopWatch look;
    while (Index(times.size()) < iterations) {
        look_at_stop();
        s.begin(now);
        for (; tick <= now; look_next(tick + period)) look();
        s.light();
        while (true) {
            look();
            s.advance(tick);
            if (s.busy == 0) {
                if (s.idle()) break;
                // Looks at the demand until bytes wait would change nothing.
                s.advance(std::numeric_limits<double>::infinity(), true);
                look_next(tick + std::max(1.0, std::ceil((s.now - tick) / period)) * period);
                continue;
            }
            double drain = scheduler.drain_ms(s), lit = tick + drain + scheduler.delay_ms;
            Matrix<double> demand(n, n);
            for (Index q = 0; q < pairs.size; ++q) demand.items[pairs[q]] = s.backlog[q];
            s.darken();
            s.x = scheduler.scheduled(pairs, demand);
            s.advance(lit);
            s.light();
            period = scheduler.period_ms(drain + scheduler.delay_ms);
            dark += drain + scheduler.delay_ms;
            ++changes;
            look_next(lit + period);
        }
        if ((remaining = s.tasks.job_left[0]) > 0) break;
        double ended = std::max(s.ended(), now);
        times.push_back(ended - now);
        for (Index q = 0; q < pairs.size; ++q) served[q] += s.served[q];
        carried += s.carried;
        start = s.tasks.start, end = s.tasks.end;
        for (auto *moments : {&start, &end})
            for (double &moment : *moments) moment -= now;
        now = ended;
    }
    return std::tuple{std::move(times),  changes,          dark,           carried,
                      std::move(served), std::move(start), std::move(end), remaining};
}

}  // namespace

void bind_circuits(nb::module_ &m) {
    m.def(
        "follow_demand",
        [](nb::handle named, Ints pairs, Index degree, double link_rate, double hop_latency_us, bool directed,
           bool forwarding, bool draining, double delay_ms, double period_delays, double least_period_ms,
           Index iterations, std::uint64_t seed) {
            CircuitWork work = work_of(named, pairs.size);
            nb::gil_scoped_release unlocked;
            return follow_demand(work, pairs,
                                 {degree, link_rate, hop_latency_us, directed, forwarding, draining, delay_ms,
                                  period_delays, least_period_ms, seed},
                                 iterations);
        },
        "work"_a, "pairs"_a, "degree"_a, "link_rate"_a, "hop_latency_us"_a, "directed"_a, "forwarding"_a, "draining"_a,
        "delay_ms"_a, "period_delays"_a, "least_period_ms"_a, "iterations"_a, "seed"_a);
    m.def(
        "run_stages",
        [](nb::handle named, Floats link_rate, Ints low, Ints high, Int32s store, double interval) {
            CircuitWork work = work_of(named, low.size);
            nb::gil_scoped_release unlocked;
            require_amounts(link_rate, "link_rate");
            require_amount(interval, "interval");
            CircuitSimulation s(work, {link_rate, low, high, store}, interval);
            s.begin(0.0);
            s.light();
            s.advance(std::numeric_limits<double>::infinity());
            return std::tuple{s.ended(), s.dark, s.carried, Index(s.tasks.job_left[0])};
        },
        "work"_a, "link_rate"_a, "low"_a, "high"_a, "store"_a, "interval"_a);
    m.def(
        "scheduled_circuits",
        [](Table<const double> demand, Index degree, bool directed, bool connected, std::uint64_t seed) {
            return scheduled_circuits(demand, degree, directed, connected, seed);
        },
        "demand"_a, "degree"_a, "directed"_a, "connected"_a, "seed"_a, Unlocked());
    m.def(
        "random_circuits", [](Index n, Index degree, std::uint64_t seed) { return random_circuits(n, degree, seed); },
        "n"_a, "degree"_a, "seed"_a, Unlocked());
}

}  // namespace topoopt
