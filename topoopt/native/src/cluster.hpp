// Max-min fair rates of jobs whose flows advance in step: progressive filling (Bertsekas and Gallager, Data Networks,
// section 6.5). A link of capacity C carries sum_j a_jl r_j <= C, and r_j is at most its limit.
#pragma once
#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "arrays.hpp"

namespace topoopt::jobs {

// The rate of every active job; the loads of job j are (link, part)[low[j]:high[j]]. O((loads + jobs + links) log).
inline std::vector<double> fair_rates(Ints active, Ints low, Ints high, Ints link, Floats part, Floats capacity,
                                      Floats limit) {
    constexpr double LEAST_PART = 1e-12;  // part of what rises on a link below which it is rounding
    Index jobs = limit.size, links = capacity.size;
    require_within(active, 0, jobs, "active");
    require_size(low, jobs, "low");
    require_size(high, jobs, "high");
    require_size(part, link.size, "part");
    require_within(link, 0, links, "link");
    for (Index j : active)
        require(0 <= low[j] && low[j] <= high[j] && high[j] <= link.size, "low, high", "out of range");

    std::vector<double> rate(jobs), asked(links), free, rising;
    for (Index j : active) {
        rate[j] = limit[j];
        for (Index at = low[j]; at < high[j]; ++at) asked[link[at]] += part[at] * limit[j];
    }
    std::vector<std::int64_t> number(links, -1);  // of links that fill: the others never do
    for (Index l = 0; l < links; ++l)
        if (asked[l] > capacity[l]) number[l] = Index(free.size()), free.push_back(capacity[l]);
    Index tight = Index(free.size());
    auto of_active = [&] {
        std::vector<double> rates;
        for (Index j : active) rates.push_back(rate[j]);
        return rates;
    };
    if (tight == 0) return of_active();
    rising.assign(tight, 0.0);
    std::vector<std::vector<std::int64_t>> jobs_on(tight);
    for (Index j : active)
        for (Index at = low[j]; at < high[j]; ++at)
            if (Index t = number[link[at]]; t >= 0) rising[t] += part[at], jobs_on[t].push_back(j);
    std::vector<double> floor(tight);
    for (Index t = 0; t < tight; ++t) floor[t] = rising[t] * LEAST_PART;
    std::vector<char> stopped(jobs);
    std::vector<std::int64_t> by_limit(active.begin(), active.end());
    std::stable_sort(by_limit.begin(), by_limit.end(), [&](Index i, Index j) { return limit[i] < limit[j]; });
    // Levels at which links fill, some of them out of date; as jobs stop they only rise.
    using Fill = std::pair<double, std::int64_t>;
    std::vector<Fill> fills;
    for (Index t = 0; t < tight; ++t) fills.push_back({free[t] / rising[t], t});
    auto later = std::greater<Fill>();
    std::make_heap(fills.begin(), fills.end(), later);
    std::size_t first = 0;
    double level = 0.0;
    auto stop = [&](Index j) {
        if (stopped[j]) return;
        stopped[j] = true;
        rate[j] = level;
        for (Index at = low[j]; at < high[j]; ++at)
            if (Index t = number[link[at]]; t >= 0) free[t] -= part[at] * level, rising[t] -= part[at];
    };
    while (!fills.empty() && first < by_limit.size()) {
        if (stopped[by_limit[first]]) {
            ++first;
            continue;
        }
        auto [old, full] = fills[0];
        double lowest = free[full] / rising[full];
        if (rising[full] <= floor[full] || lowest > old) {
            std::pop_heap(fills.begin(), fills.end(), later);
            if (rising[full] <= floor[full]) {
                fills.pop_back();
            } else {
                fills.back().first = lowest;
                std::push_heap(fills.begin(), fills.end(), later);
            }
            continue;
        }
        double next = limit[by_limit[first]];
        bool limited = next <= lowest;
        level = std::max(level, limited ? next : lowest);  // rounding may bring it below the last one
        if (limited) {
            stop(by_limit[first]);
        } else {
            for (Index j : jobs_on[full]) stop(j);
            rising[full] = 0.0, floor[full] = std::numeric_limits<double>::infinity();
        }
    }
    return of_active();
}

}  // namespace topoopt::jobs
