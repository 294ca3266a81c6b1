// Max-min fair rates of flows over shared links, by progressive filling (Bertsekas and Gallager, Data Networks, 6.5).
#pragma once
#include <limits>

#include "events.hpp"

namespace topoopt {

struct OneFlowEach {  // the weight of routes of which each is one flow
    Index operator[](Index) const { return 1; }
};

class MaxMinFill {
    struct Link {
        Index crossings = 0, pointer = 0;  // none between calls; its routes end there
        double free = 0.0, rising = 0.0;   // what is left of its rate, and how many flows share that
    };
    std::vector<Link> links;
    std::vector<std::int64_t> used, route_of;
    EventQueue levels;  // at which links fill, codes 0..links-1, and single routes their own links, codes from links on

  public:
    void reset(Index number) { links.assign(number, {}); }

    // Sets rate[r] of every active route r: what each of its weight[r] > 0 flows gets; -1 if it crosses no link.
    //
    // The links of r are link_of[low[r]..high[r]-1], repeats counted; link_rate has one entry a link of `reset`. All
    // rates rise together; when a link is full, its flows keep their rate and the others go on. The level at which a
    // link fills can only rise while others are frozen, so a heap finds the next one. Time O(C log L) for C crossings.
    template <class Weight> void fill(Ints active, const Weight &weight, Ints low, Ints high, Int32s link_of,
                                      Floats link_rate, View<double> rate) {
        used.clear();
        Index total = 0, count = Index(links.size()), open = active.size;
        for (Index r : active) {
            rate[r] = -1.0;
            for (Index at = low[r]; at < high[r]; ++at) {
                Link &link = links[link_of[at]];
                if (link.crossings++ == 0) {
                    used.push_back(link_of[at]);
                    link.free = link_rate[link_of[at]], link.rising = 0.0;
                }
                link.rising += double(weight[r]);
            }
            total += high[r] - low[r];
        }
        route_of.resize(std::max(total, Index(route_of.size())));
        levels.reset(0, 0);
        Index position = 0;
        for (Index number : used) {
            Link &link = links[number];
            if (link.crossings == 1) continue;
            link.pointer = position;
            position += link.crossings;
            levels.add(link.free / link.rising, number);
        }
        // A link that one route crosses once cannot slow down any other: of these, a route needs the slowest only.
        for (Index r : active) {
            double own = std::numeric_limits<double>::infinity();
            for (Index at = low[r]; at < high[r]; ++at) {
                Link &link = links[link_of[at]];
                if (link.crossings == 1) own = std::min(own, link.free);
                else route_of[link.pointer++] = r;
            }
            if (own < std::numeric_limits<double>::infinity()) levels.add(own / double(weight[r]), count + r);
        }
        double level = 0.0, first;
        auto freeze = [&](Index r) {
            if (rate[r] >= 0.0) return;
            rate[r] = level;
            --open;
            for (Index at = low[r]; at < high[r]; ++at) {
                Link &link = links[link_of[at]];
                link.free -= level * double(weight[r]);
                link.rising -= double(weight[r]);
            }
        };
        while (open > 0 && levels.first(first)) {
            Index number = levels.take();
            if (number >= count) {
                level = std::max(level, first);  // rounding may bring it below the last one
                freeze(number - count);
                continue;
            }
            Link &link = links[number];
            if (link.rising <= 0.0) continue;
            double fills = link.free / link.rising;
            if (fills > first) {  // others on it were frozen meanwhile
                levels.add(fills, number);
                continue;
            }
            level = std::max(level, fills);
            for (Index i = link.pointer - link.crossings; i < link.pointer; ++i) freeze(route_of[i]);
        }
        for (Index number : used) links[number].crossings = 0;
    }
};

}  // namespace topoopt
