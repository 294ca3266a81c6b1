// Links of the moment, and the route of every queue over them: given, or found when it is needed.
#pragma once
#include "bfs.hpp"

namespace topoopt::circuits {

class Wires {
    bool forwarding = true;
    std::vector<double> used;  // bytes of routes laid over each link so far
    std::vector<std::int64_t> first;
    std::vector<std::int32_t> head;
    Matrix<std::int64_t> distance;
    Ints pairs;  // source * n + target of each queue
    Index n = 0;

    bool leads_nearer(Index at, Index to, Index goal) const {
        if (!forwarding) return to == goal;
        return distance(to, goal) >= 0 && distance(to, goal) == distance(at, goal) - 1;
    }

  public:
    std::vector<double> link_rate;
    std::vector<std::int64_t> low, high;  // the route of queue q is store[low[q]..high[q]-1]; low -1: none looked for
    std::vector<std::int32_t> store;

    // Wires of a network with every route given.
    Wires(Floats rate, Ints low, Ints high, Int32s store)
        : link_rate(rate.begin(), rate.end()),
          low(low.begin(), low.end()),
          high(high.begin(), high.end()),
          store(store.begin(), store.end()) {
        require_size(high, low.size, "high");
        require_within(store, 0, rate.size, "store");
        for (Index q = 0; q < low.size; ++q)
            require(low[q] >= 0 && low[q] <= high[q] && high[q] <= store.size, "low", "a route is out of range");
    }

    // Wires of parallel circuits, each of `rate` bytes per ms; no routes yet. Servers forward, or only neighbours talk.
    Wires(const Matrix<std::int32_t> &links, double rate, bool forwarding, Ints pairs)
        : forwarding(forwarding), first{0}, pairs(pairs), n(links.rows), low(pairs.size, -1), high(pairs.size, -1) {
        for (Index i = 0; i < n; ++i) {
            for (Index j = 0; j < n; ++j)
                if (links(i, j) > 0) {
                    head.push_back(std::int32_t(j));
                    link_rate.push_back(links(i, j) * rate);
                }
            first.push_back(Index(head.size()));
        }
        used.assign(head.size(), 0.0);
        if (forwarding) distance = hop_distances<std::int32_t>(first, head, n);
    }

    bool shared() const { return forwarding; }  // whether several queues may use a link
    Index hops(Index q) const { return high[q] - low[q]; }

    // Hops of the route of queue q, found if it has none yet; 0: there is no route now.
    //
    // Among the links that lead nearer to the target, the one with least bytes laid over it for its rate is taken.
    Index route(Index q, double amount) {
        if (low[q] >= 0) return hops(q);
        low[q] = high[q] = Index(store.size());
        for (Index at = pairs[q] / n, goal = pairs[q] % n; at != goal; at = head[store.back()]) {
            Index best = -1;
            for (Index arc = first[at]; arc < first[at + 1]; ++arc)
                if (leads_nearer(at, head[arc], goal) &&
                    (best < 0 || used[arc] / link_rate[arc] < used[best] / link_rate[best]))
                    best = arc;
            if (best < 0) {
                store.resize(low[q]);
                break;
            }
            used[best] += amount;
            store.push_back(std::int32_t(best));
        }
        high[q] = Index(store.size());
        return hops(q);
    }
};

}  // namespace topoopt::circuits
