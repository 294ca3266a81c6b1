// What must hold of circuits, if a graph of tasks and transfers is to be done before a given time; longest paths.
//
// Heads and tails: with as many circuits as a pair may still have, no transfer begins before its head, and what follows
// it takes its tail. Transfers of one direction of a pair share its circuits, and all that leave (enter) a pod share
// its ports; the preemptive schedule of largest tails (Jackson) is the earliest that one such machine can be done,
// tails included. So each pair needs some least number of circuits; what it needs, others at its pods cannot have.
#pragma once
#include <algorithm>
#include <functional>
#include <limits>
#include <optional>

#include "arrays.hpp"
#include "stop.hpp"

namespace topoopt::placement {

// Steps of a graph, and those that wait for each.
struct Steps {
    const std::vector<Index> first, successor, order;

    Steps(Ints firsts, Ints successors, Ints steps)
        : first(firsts.begin(), firsts.end()),
          successor(successors.begin(), successors.end()),
          order(steps.begin(), steps.end()) {
        Index n = steps.size;
        require_offsets(firsts, n, successors.size, "first");
        require_within(successors, 0, n, "successor"), require_within(steps, 0, n, "order");
        std::vector<Index> position(n, -1);
        for (Index at = 0; at < n; ++at) position[order[at]] = at;
        for (Index step = 0; step < n; ++step) {
            require(position[step] >= 0, "order", "a step is missing");
            each_successor(step, [&](Index later) {
                require(position[step] < position[later], "order", "a step comes before one that it waits for");
            });
        }
    }
    template <class Use> void each_successor(Index step, Use use) const {
        for (Index k = first[step]; k < first[step + 1]; ++k) use(successor[k]);
    }
    // Length of the longest path, and its steps.
    std::pair<double, std::vector<Index>> longest_path(Floats length) const {
        require_size(length, Index(order.size()), "length");
        std::vector<double> head(order.size());
        std::vector<Index> parent(order.size(), -1), path;
        double best = -1.0;
        Index last = -1;
        for (Index step : order) {
            double end = head[step] + length[step];
            if (end > best) best = end, last = step;
            each_successor(step, [&](Index later) {
                if (end > head[later] || parent[later] < 0)
                    head[later] = std::max(end, head[later]), parent[later] = step;
            });
        }
        for (Index step = last; step >= 0; step = parent[step]) path.push_back(step);
        std::reverse(path.begin(), path.end());
        return {best, std::move(path)};
    }
};

constexpr double FOREVER = std::numeric_limits<double>::infinity();

inline void require_durations(Floats items, const char *name) {
    for (double item : items) require(item >= 0.0 && item < FOREVER, name, "durations are finite, at least 0");
}

class CircuitBounds {
    static constexpr Index MOST = Index(1) << 40;
    const Steps steps;
    const std::vector<Index> channel, ends, ports;
    const std::vector<double> duration, volume;
    const double rate;
    std::vector<std::vector<Index>> of_channel, of_port;  // transfers; two ports a pod, out and in

    struct Propagation {
        const CircuitBounds &c;
        std::vector<Index> least, most;
        std::vector<double> length, head, tail, left;
        std::vector<Index> sorted;
        std::vector<std::pair<double, Index>> queue;
        StopWatch look;

        Propagation(const CircuitBounds &bounds, Ints low, Ints high)
            : c(bounds), least(low.begin(), low.end()), most(high.begin(), high.end()) {}

        void heads_and_tails() {
            const auto &order = c.steps.order;
            head.assign(order.size(), 0.0), tail.assign(order.size(), 0.0);
            for (Index step : order) {
                double end = head[step] + length[step];
                c.steps.each_successor(step, [&](Index later) { head[later] = std::max(head[later], end); });
            }
            for (auto step = order.rbegin(); step != order.rend(); ++step)
                c.steps.each_successor(
                    *step, [&](Index later) { tail[*step] = std::max(tail[*step], length[later] + tail[later]); });
        }
        void sort_by_head(const std::vector<Index> &transfers) {
            sorted = transfers;
            std::sort(sorted.begin(), sorted.end(),
                      [&](Index x, Index y) { return head[x] < head[y] || (head[x] == head[y] && x < y); });
        }
        // When one machine of that speed, shared by the sorted transfers, is done, tails included.
        double one_machine(double speed) {
            std::size_t count = sorted.size(), upcoming = 0;
            double at = 0.0, done = 0.0;
            left.resize(count), queue.clear();
            while (upcoming < count || !queue.empty()) {
                look();
                if (queue.empty()) at = std::max(at, head[sorted[upcoming]]);
                for (; upcoming < count && !(head[sorted[upcoming]] > at); ++upcoming) {
                    left[upcoming] = c.volume[sorted[upcoming]] / speed;
                    queue.emplace_back(-tail[sorted[upcoming]], Index(upcoming));
                    std::push_heap(queue.begin(), queue.end(), std::greater<>{});
                }
                Index k = queue.front().second;
                double next = upcoming < count ? head[sorted[upcoming]] : FOREVER;
                if (at + left[k] <= next) {
                    at += left[k];
                    done = std::max(done, at + tail[sorted[k]]);
                    std::pop_heap(queue.begin(), queue.end(), std::greater<>{});
                    queue.pop_back();
                } else {
                    left[k] -= next - at;
                    at = next;
                }
            }
            return done;
        }
        // What pairs need, others at their pods cannot have; false: the ports do not suffice.
        bool lower_most() {
            std::vector<Index> needed(c.ports.size());
            for (std::size_t end = 0; end < c.ends.size(); ++end) needed[c.ends[end]] += least[end / 2];
            for (std::size_t p = 0; p < least.size(); ++p) {
                for (Index pod : {c.ends[2 * p], c.ends[2 * p + 1]})
                    most[p] = std::min(most[p], c.ports[pod] - needed[pod] + least[p]);
                if (most[p] < least[p]) return false;
            }
            return true;
        }
        // Whether all steps, and all transfers at each pod, can be done before the deadline.
        bool meets(double deadline) {
            for (std::size_t step = 0; step < head.size(); ++step)
                if (head[step] + length[step] + tail[step] >= deadline) return false;
            std::vector<Index> possible(c.ports.size());
            for (std::size_t end = 0; end < c.ends.size(); ++end) possible[c.ends[end]] += most[end / 2];
            for (std::size_t port = 0; port < c.of_port.size(); ++port) {
                if (c.of_port[port].empty()) continue;
                sort_by_head(c.of_port[port]);
                Index circuits = std::min(c.ports[port / 2], possible[port / 2]);
                if (one_machine(c.rate * double(circuits)) >= deadline) return false;
            }
            return true;
        }
        // Raises the circuits that a pair needs as long as a direction is not done before the deadline without more.
        void raise_least(Index p, double deadline) {
            for (Index side = 0; side < 2; ++side) {
                const auto &transfers = c.of_channel[2 * p + side];
                for (Index m : transfers)
                    while (least[p] <= most[p] &&
                           head[m] + c.volume[m] / (c.rate * double(least[p])) + tail[m] >= deadline)
                        look(), ++least[p];
                if (transfers.size() < 2 || least[p] > most[p]) continue;
                sort_by_head(transfers);
                while (least[p] <= most[p] && one_machine(c.rate * double(least[p])) >= deadline) ++least[p];
            }
        }
        bool run(double deadline) {
            length = c.duration;
            while (true) {
                look();
                if (!lower_most()) return false;
                for (std::size_t m = 0; m < c.volume.size(); ++m)
                    length[m] = c.volume[m] / (c.rate * double(most[c.channel[m] / 2]));
                heads_and_tails();
                if (!meets(deadline)) return false;
                auto before = least;
                for (Index p = 0; p < Index(least.size()); ++p) {
                    raise_least(p, deadline);
                    if (least[p] > most[p]) return false;
                }
                if (least == before) return true;
            }
        }
    };

  public:
    CircuitBounds(Ints first, Ints successor, Ints order, Floats duration, Floats volume, Ints channel,
                  Table<const Index> ends, Ints ports, double rate)
        : steps(first, successor, order),
          channel(channel.begin(), channel.end()),
          ends(ends.flat().begin(), ends.flat().end()),
          ports(ports.begin(), ports.end()),
          duration(duration.begin(), duration.end()),
          volume(volume.begin(), volume.end()),
          rate(rate) {
        require_size(duration, order.size, "duration"), require_size(channel, volume.size, "channel");
        require(volume.size <= order.size, "volume", "transfers are the first steps");
        require_durations(duration, "duration"), require_durations(volume, "volume");
        require(ends.columns == 2 && ends.rows < (Index(1) << 20), "ends", "two pods for each pair are needed");
        require_within(channel, 0, 2 * ends.rows, "channel"), require_within(ends.flat(), 0, ports.size, "ends");
        require_within(ports, 0, MOST, "ports");
        require(rate > 0.0 && rate < FOREVER, "rate", "a rate is finite, above zero");
        of_channel.resize(2 * ends.rows), of_port.resize(2 * ports.size);
        for (Index m = 0; m < volume.size; ++m) {
            Index back = channel[m] % 2;
            of_channel[channel[m]].push_back(m);
            of_port[2 * ends(channel[m] / 2, back)].push_back(m);
            of_port[2 * ends(channel[m] / 2, 1 - back) + 1].push_back(m);
        }
    }
    // The circuits at least and at most with which all can be done before the deadline; none: it cannot.
    std::optional<std::pair<std::vector<Index>, std::vector<Index>>> propagated(Ints least, Ints most,
                                                                                double deadline) const {
        Index pairs = Index(ends.size()) / 2;
        require_size(least, pairs, "least"), require_size(most, pairs, "most");
        require_within(least, 1, MOST, "least"), require_within(most, -MOST, MOST, "most");
        Propagation propagation(*this, least, most);
        if (!propagation.run(deadline)) return std::nullopt;
        return std::pair{std::move(propagation.least), std::move(propagation.most)};
    }
};

}  // namespace topoopt::placement
